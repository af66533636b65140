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
#include "cleave/formats/json/json_document.hpp"

namespace cleave::detail {

/// A value of a document, which must outlive it. Who asks for what it is not gets a json_error with the
/// place: line, column and path.
class json_value {
 public:
  explicit json_value(json_document const& d, std::size_t n = 0) : d_(&d), n_(n) {}

  json_kind what() const { return d_->what(n_); }
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
    if (what() != json_kind::number) return false;
    for (char const c : source())
      if (c == '.' || c == 'e' || c == 'E') return false;
    return true;
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
    for (auto n = n_ + 1; n < d_->end(n_); n = d_->end(n)) f(json_value(*d_, n));
  }
  /// Calls `f` with key and value of each member of an object.
  template <class F>
  void each_member(F f) const {
    demand(json_kind::object, "an object");
    for (auto n = n_ + 1; n < d_->end(n_); n = d_->end(n + 1)) f(d_->characters(n), json_value(*d_, n + 1));
  }
  std::size_t size() const {
    std::size_t count = 0;
    bool const object = what() == json_kind::object;
    if (!object) demand(json_kind::array, "a list");
    for (auto n = n_ + 1; n < d_->end(n_); n = d_->end(object ? n + 1 : n)) ++count;
    return count;
  }

  /// The member of that name, or nothing. O(members).
  std::optional<json_value> find(std::string_view key) const {
    demand(json_kind::object, "an object");
    for (auto n = n_ + 1; n < d_->end(n_); n = d_->end(n + 1))
      if (d_->is_text(n, key)) return json_value(*d_, n + 1);
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
    demand(json_kind::object, "an object");
    for (auto n = n_ + 1; n < d_->end(n_); n = d_->end(n + 1)) {
      bool known = false;
      for (auto const key : keys) known = known || d_->is_text(n, key);
      if (!known) json_value(*d_, n + 1).fail("unknown key " + quoted(d_->characters(n)));
    }
  }

 private:
  std::string_view source() const { return d_->source(n_); }
  void demand(json_kind kind, char const* name) const {
    if (what() != kind) fail("expected " + std::string(name) + ", got " + printable(source(), 40));
  }

  json_document const* d_;
  std::size_t n_;
};

}  // namespace cleave::detail
