// SPDX-License-Identifier: MIT
#pragma once
#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

#include "cleave/core/printable.hpp"
#include "cleave/core/real.hpp"
#include "cleave/io/json_document.hpp"

namespace cleave {

/// A value of a document, which must outlive it. Who asks for what it is not gets a json_error with the
/// place: line, column and path.
class json_value {
 public:
  explicit json_value(json_document const& d, std::size_t n = 0) : d_(&d), n_(n) {}

  json_kind what() const { return self().what; }
  [[noreturn]] void fail(std::string const& what) const { d_->fail_at(n_, what); }

  bool boolean() const {
    demand(json_kind::boolean, "true or false");
    return source().front() == 't';
  }
  std::string text() const {
    demand(json_kind::text, "a text");
    return d_->characters(n_);
  }
  /// Whether it is a number that is written as an integer.
  bool is_integer() const {
    return what() == json_kind::number && source().find_first_of(".eE") == std::string_view::npos;
  }
  /// An integer that the type can hold.
  template <std::integral Integer = std::int64_t>
  Integer integer() const {
    Integer i{};
    auto const s = source();
    bool const read = is_integer() && std::from_chars(s.data(), s.data() + s.size(), i).ec == std::errc();
    if (!read)
      fail("expected an integer of " + std::to_string(8 * sizeof i) + " bits" +
           (std::is_unsigned_v<Integer> ? ", not negative" : "") + ", got " + printable(s, 40));
    return i;
  }
  double real() const {
    demand(json_kind::number, "a number");
    double x = 0;
    auto const s = source();
    if (std::from_chars(s.data(), s.data() + s.size(), x).ec != std::errc() || !is_finite(x))
      fail("no double holds " + printable(s, 40));
    return x;
  }

  /// Calls `f` with each element of a list.
  template <class F>
  void each_element(F f) const {
    demand(json_kind::array, "a list");
    for (auto n = n_ + 1; n < self().end; n = item(n).end) f(json_value(*d_, n));
  }
  /// Calls `f` with key and value of each member of an object.
  template <class F>
  void each_member(F f) const {
    demand(json_kind::object, "an object");
    for (auto n = n_ + 1; n < self().end; n = item(n + 1).end) f(d_->characters(n), json_value(*d_, n + 1));
  }
  std::size_t size() const {
    std::size_t count = 0;
    bool const object = what() == json_kind::object;
    if (!object) demand(json_kind::array, "a list");
    for (auto n = n_ + 1; n < self().end; n = item(object ? n + 1 : n).end) ++count;
    return count;
  }

  /// The member of that name, or nothing. O(members).
  std::optional<json_value> find(std::string_view key) const {
    demand(json_kind::object, "an object");
    for (auto n = n_ + 1; n < self().end; n = item(n + 1).end)
      if (d_->characters(n) == key) return json_value(*d_, n + 1);
    return std::nullopt;
  }
  /// The member of that name. \throws json_error if there is none
  json_value operator[](std::string_view key) const {
    auto const found = find(key);
    if (!found) fail("lacks the key " + quoted(key));
    return *found;
  }
  /// \throws json_error at the first member that has none of these names.
  void allow(std::initializer_list<std::string_view> keys) const {
    each_member([&](std::string const& key, json_value const& v) {
      for (auto const known : keys)
        if (key == known) return;
      v.fail("unknown key " + quoted(key));
    });
  }

 private:
  json_document::item const& item(std::size_t n) const { return d_->items()[n]; }
  json_document::item const& self() const { return item(n_); }
  std::string_view source() const { return d_->source(n_); }
  void demand(json_kind kind, std::string const& name) const {
    if (what() != kind) fail("expected " + name + ", got " + printable(source(), 40));
  }

  json_document const* d_;
  std::size_t n_;
};

}  // namespace cleave
