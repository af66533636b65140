// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/graph/argument.hpp"

/// Values of any nesting as a flat list of leaves and one line of text, for a runtime whose stages take and
/// return flat tuples. A value is a module_argument in which a tensor is a `node_ref`, by any number.
///
/// The text is `path,type|path,type|…`: of each leaf its path, the positions that lead to it joined by dots,
/// and what it is: 0 a tensor, 1 a number or a truth value, 2 nothing. With it alone everything comes back as
/// tuples, as with Slapo. The exact form has entries before those of their elements for what tuples with
/// elements are not: 3 a list, 4 an empty tuple, 5 a dict, its keys behind it, each after a colon: text as
/// `'text` with `%xx` for what is not plain, integers as they are.
namespace cleave {

/// Whether what comes back is what was sent, or tuples for lists and dicts too, as with Slapo.
enum class wire_form : std::uint8_t { exact, tuples };

/// What is sent: the leaves in order, and the text that says where each belongs.
struct wire_message {
  std::vector<token> leaves;
  std::string text;

  bool operator==(wire_message const&) const = default;
};

}  // namespace cleave

namespace cleave::detail {

/// What cannot be sent, or why a text cannot be read.
struct wire_fault {
  std::string path;  ///< of the value or the entry; empty where it is none alone
  std::string what;

  bool operator==(wire_fault const&) const = default;
};

/// What cannot be sent, or read. The witness: its path, and why.
class wire_error : public witness_error<wire_fault> {
 public:
  wire_error(std::string const& path, std::string const& what)
      : witness_error("wire: " + (path.empty() ? what : "at " + quoted(path) + ": " + what), {path, what}) {}
};

/// Writes values; `flatten` is its one use.
class wire_writer {
 public:
  explicit wire_writer(wire_form form) : exact_(form == wire_form::exact) {}

  wire_message write(std::vector<module_argument> const& values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      open_.push_back({"", 1, i, false});
      write(values[i]);
      open_.clear();
    }
    return std::move(message_);
  }

 private:
  struct level {
    std::string prefix;  // of the paths of its elements
    std::size_t left, next;
    bool dict;
  };

  void write(module_argument const& value) {
    for (std::size_t at = 0; at < value.size(); ++at) {
      while (open_.back().left == 0) open_.pop_back();
      auto& here = open_.back();
      if (here.dict && std::holds_alternative<container>(value[at++]))
        throw wire_error(here.prefix, "a key that is neither text nor an integer cannot be sent");
      auto const path = here.prefix + std::to_string(here.next++);
      --here.left;
      auto const* c = std::get_if<container>(&value[at]);
      if (!c) {
        add(path, type_of(value[at], path));
        message_.leaves.push_back(value[at]);
        continue;
      }
      if (c->what == container::kind::slice) throw wire_error(path, "a slice cannot be sent");
      if (exact_) describe(value, at, *c, path);
      open_.push_back({path + ".", c->size, 0, c->what == container::kind::dict});
    }
  }

  void describe(module_argument const& value, std::size_t at, container const& c, std::string const& path) {
    if (c.what == container::kind::list) add(path, "3");
    if (c.what == container::kind::tuple && c.size == 0) add(path, "4");
    if (c.what != container::kind::dict) return;
    std::string keys = "5";
    for (std::size_t i = 0, key = at + 1; i < c.size; ++i, key = subtree_end(value, key + 1))
      keys += ":" + key_text(value[key], path);
    add(path, keys);
  }

  void add(std::string const& path, std::string const& type) {
    message_.text += (message_.text.empty() ? "" : "|") + path + "," + type;
  }

  static std::string type_of(token const& t, std::string const& path) {
    if (std::holds_alternative<node_ref>(t)) return "0";
    if (std::holds_alternative<std::monostate>(t)) return "2";
    if (std::holds_alternative<bool>(t) || std::holds_alternative<std::int64_t>(t) ||
        std::holds_alternative<double>(t))
      return "1";
    auto const* s = std::get_if<std::string>(&t);
    throw wire_error(path, (s ? "text " + quoted(*s) : "a constant of the IR") +
                               " cannot be sent; only tensors, numbers and nothing can");
  }

  static std::string key_text(token const& key, std::string const& path) {
    if (auto const* i = std::get_if<std::int64_t>(&key)) return std::to_string(*i);
    auto const* s = std::get_if<std::string>(&key);
    if (!s) throw wire_error(path, "a key that is neither text nor an integer cannot be sent");
    std::string text = "'";
    static constexpr char digit[] = "0123456789abcdef";
    for (char const c : *s)
      if (auto const b = static_cast<unsigned char>(c);
          b > 32 && b < 127 && c != '%' && c != ',' && c != '|' && c != ':')
        text += c;
      else
        text += {'%', digit[b >> 4], digit[b & 15]};
    return text;
  }

  bool exact_;
  std::vector<level> open_;
  wire_message message_;
};

}  // namespace cleave::detail

namespace cleave {

/// `values` as leaves and text. O(size, times depth for the paths).
/// \throws wire_error for text, slices, constants of the IR, and keys that are neither text nor integers.
inline wire_message flatten(std::vector<module_argument> const& values, wire_form form = wire_form::exact) {
  return detail::wire_writer(form).write(values);
}

}  // namespace cleave

namespace cleave::detail {

/// What of `values` cannot be sent, or nothing. O(size, times depth for the paths).
inline std::optional<wire_fault> find_wire_fault(std::vector<module_argument> const& values,
                                                 wire_form form = wire_form::exact) {
  try {
    flatten(values, form);
  } catch (wire_error const& e) {
    return e.witness;
  }
  return std::nullopt;
}

/// The values by name that a stage of that name adds to those that live: all that it gives, and where at
/// least one element of a list or tuple is a tensor, each element too, as `name.0`, `name.1`, … O(size times
/// depth).
inline std::vector<std::pair<std::string, module_argument>> itemised(module_argument const& value,
                                                                     std::string const& name) {
  std::vector<std::pair<std::string, module_argument>> items;
  std::vector<std::pair<std::string, std::pair<std::size_t, std::size_t>>> rest{{name, {0, value.size()}}};
  while (!rest.empty()) {
    auto const [path, range] = std::move(rest.back());
    rest.pop_back();
    auto const at = value.begin() + static_cast<std::ptrdiff_t>(range.first);
    items.emplace_back(path, module_argument(at, value.begin() + static_cast<std::ptrdiff_t>(range.second)));
    auto const* c = std::get_if<container>(&*at);
    if (!c || (c->what != container::kind::list && c->what != container::kind::tuple)) continue;
    std::vector<std::pair<std::size_t, std::size_t>> elements;
    bool tensor = false;
    for (std::size_t i = 0, first = range.first + 1; i < c->size; ++i) {
      auto const end = subtree_end(value, first);
      tensor = tensor || std::holds_alternative<node_ref>(value[first]);
      elements.emplace_back(first, end);
      first = end;
    }
    for (std::size_t i = elements.size(); tensor && i-- > 0;)
      rest.push_back({path + "." + std::to_string(i), elements[i]});
  }
  return items;
}

}  // namespace cleave::detail
