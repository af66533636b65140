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

/// Flattens nested values to a list of leaves and a line of text, for runtimes whose stages take and return
/// flat tuples. A value is a module_argument in which a tensor is a `node_ref` with any number.
///
/// The text is `path,type|path,type|…`, with one entry for each leaf. A path is the positions that lead to
/// the leaf, joined by dots. A type is 0 for a tensor, 1 for a number or a boolean, 2 for null. A text with
/// entries for leaves only restores every container as a tuple, as in Slapo.
///
/// The exact form also has an entry for each list, dict and empty tuple, before the entries of its elements.
/// Their types are 3 for a list, 4 for an empty tuple and 5 for a dict. The keys of a dict follow
/// its type, each after a colon: a string as `'text` with `%xx` escapes, an integer as digits.
namespace cleave::inline v0_2 {

/// The form of the text. `exact` restores the value as it was. `tuples` turns lists and dicts into tuples, as
/// Slapo does.
enum class pytree_form : std::uint8_t { exact, tuples };

/// A flattened value: the leaves in order, and the text that describes their positions.
struct pytree_message {
  std::vector<token> leaves;
  std::string text;

  bool operator==(pytree_message const&) const = default;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The reason why a value cannot be sent or a text cannot be read.
struct pytree_fault {
  static constexpr char subject[] = "wire: ";
  std::string path;  ///< path of the value or entry; empty if the fault is not about a single one
  std::string what;

  bool operator==(pytree_fault const&) const = default;
};

/// Returns a message such as `at 'a.b': a slice cannot be sent`.
inline std::string describe(pytree_fault const& f) {
  return f.path.empty() ? f.what : "at " + quoted(f.path) + ": " + f.what;
}

/// Thrown if a value cannot be sent or a message cannot be read. The witness has the path and the reason.
using pytree_error = fault_error<pytree_fault>;

/// Flattens values. Helper of `tree_flatten`.
class pytree_writer {
 public:
  explicit pytree_writer(pytree_form form) : exact_(form == pytree_form::exact) {}

  pytree_message write(std::vector<module_argument> const& values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      open_.push_back({"", 1, i, false});
      write(values[i]);
      open_.clear();
    }
    return std::move(message_);
  }

 private:
  struct level {
    std::string prefix;      // prefix of the paths of its elements
    std::size_t left, next;  // elements that remain, and the position of the next one
    bool dict;
  };

  void write(module_argument const& value) {
    for (std::size_t at = 0; at < value.size(); ++at) {
      while (open_.back().left == 0) open_.pop_back();
      auto& here = open_.back();
      if (here.dict && std::holds_alternative<container>(value[at++]))
        throw pytree_error({here.prefix, "a dict key must be a string or an integer to be sent"});
      auto const path = here.prefix + std::to_string(here.next++);
      --here.left;
      auto const* c = std::get_if<container>(&value[at]);
      if (!c) {
        add(path, type_of(value[at], path));
        message_.leaves.push_back(value[at]);
        continue;
      }
      if (c->what == container::kind::slice) throw pytree_error({path, "a slice cannot be sent"});
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
    throw pytree_error({path, (s ? "text " + quoted(*s) : "a constant of the IR") +
                                  " cannot be sent; only tensors, numbers, booleans and null can"});
  }

  static std::string key_text(token const& key, std::string const& path) {
    if (auto const* i = std::get_if<std::int64_t>(&key)) return std::to_string(*i);
    auto const* s = std::get_if<std::string>(&key);
    if (!s) throw pytree_error({path, "a dict key must be a string or an integer to be sent"});
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
  pytree_message message_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Flattens `values` to leaves and text. O(size × depth), because paths are written out.
/// \throws pytree_error for strings, slices, constants of the IR, and keys that are neither strings nor
/// integers
inline pytree_message tree_flatten(std::vector<module_argument> const& values,
                                   pytree_form form = pytree_form::exact) {
  return detail::pytree_writer(form).write(values);
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the reason why `values` cannot be sent, or nothing. O(size × depth).
inline std::optional<pytree_fault> find_pytree_fault(std::vector<module_argument> const& values,
                                                     pytree_form form = pytree_form::exact) {
  try {
    tree_flatten(values, form);
  } catch (pytree_error const& e) {
    return e.witness;
  }
  return std::nullopt;
}

/// Returns the result of a stage called `name` and its elements, each with its name. If a list or tuple
/// contains a tensor, its elements are named `name.0`, `name.1`, … in addition to the container. O(size ×
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

/// Reads a message. Helper of `tree_unflatten`.
class pytree_reader {
 public:
  pytree_reader(pytree_message const& message, pytree_form form) : message_(message), form_(form) {}

  module_argument read() {
    nodes_.push_back({kind::tuple, {}, {}, {}});
    std::string_view rest = message_.text;
    while (!rest.empty()) {
      auto const bar = rest.find('|');
      read_entry(rest.substr(0, bar));
      if (bar != rest.npos && bar + 1 == rest.size()) throw pytree_error({"", "the text ends with '|'"});
      rest.remove_prefix(bar == rest.npos ? rest.size() : bar + 1);
    }
    if (used_ != message_.leaves.size())
      throw pytree_error({"", std::to_string(message_.leaves.size()) +
                                  " leaves were received, but the text describes " + std::to_string(used_)});
    return write();
  }

 private:
  enum class kind : std::uint8_t { unknown, leaf, list, tuple, dict };
  struct node {
    kind what = kind::unknown;
    token leaf;
    std::vector<std::size_t> children;
    std::vector<token> keys;
  };
  static constexpr std::size_t most_nodes = std::size_t{1} << 20;  // including gaps in the paths

  void read_entry(std::string_view entry) {
    auto const comma = entry.find(',');
    std::string const path(entry.substr(0, comma));
    if (comma == entry.npos || comma + 1 == entry.size())
      throw pytree_error({path, "the entry has no type; expected 'path,type'"});
    auto const at = find(path);
    auto& n = nodes_[at];
    char const type = entry[comma + 1];
    auto const keys = entry.substr(comma + 2);
    if (n.what != kind::unknown || !n.children.empty())
      throw pytree_error({path, "the path has two entries"});
    bool const container = form_ == pytree_form::exact && type >= '3' && type <= '5';
    if ((!container && (type < '0' || type > '2')) || (type != '5' && !keys.empty()))
      throw pytree_error({path, "unknown type " + quoted(entry.substr(comma + 1))});
    if (container) {
      n.what = type == '3' ? kind::list : type == '4' ? kind::tuple : kind::dict;
      if (type == '5') n.keys = read_keys(keys, path);
      return;
    }
    if (used_ == message_.leaves.size()) throw pytree_error({path, "the message has no leaf for this entry"});
    n.what = kind::leaf;
    n.leaf = message_.leaves[used_++];
    bool const tensor = std::holds_alternative<node_ref>(n.leaf);
    bool const nothing = std::holds_alternative<std::monostate>(n.leaf);
    if (tensor != (type == '0') || nothing != (type == '2'))
      throw pytree_error({path, "the type of the leaf differs from the type in the text"});
  }

  /// Returns the node at `path`, creating the nodes on the way.
  std::size_t find(std::string const& path) {
    std::size_t at = 0, i = 0;
    for (bool last = false; !last;) {
      std::size_t number = 0, digits = 0;
      for (; i < path.size() && path[i] >= '0' && path[i] <= '9' && digits < 8; ++i, ++digits)
        number = number * 10 + static_cast<std::size_t>(path[i] - '0');
      last = i == path.size();
      if (digits == 0 || (!last && path[i] != '.'))
        throw pytree_error({path, "the path is not a list of positions joined by dots"});
      ++i;
      if (nodes_[at].what == kind::leaf) throw pytree_error({path, "the path leads into a leaf"});
      if (number >= most_nodes - nodes_.size()) throw pytree_error({path, "a position exceeds the limit"});
      while (nodes_[at].children.size() <= number) {
        nodes_[at].children.push_back(nodes_.size());
        nodes_.emplace_back();
      }
      at = nodes_[at].children[number];
    }
    return at;
  }

  static std::vector<token> read_keys(std::string_view text, std::string const& path) {
    std::vector<token> keys;
    while (!text.empty()) {
      text.remove_prefix(1);
      auto const key = text.substr(0, text.find(':'));
      text.remove_prefix(key.size());
      keys.push_back(read_key(key, path));
    }
    return keys;
  }

  static token read_key(std::string_view key, std::string const& path) {
    auto const value = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
    auto const hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
    if (key.starts_with('\'')) {
      std::string s;
      for (std::size_t i = 1; i < key.size(); ++i) {
        bool const escaped = key[i] == '%' && i + 2 < key.size() && hex(key[i + 1]) && hex(key[i + 2]);
        s += escaped ? static_cast<char>(value(key[i + 1]) * 16 + value(key[i + 2])) : key[i];
        if (escaped) i += 2;
      }
      return s;
    }
    bool const negative = key.starts_with('-');
    std::uint64_t number = 0;
    for (char const c : key.substr(negative ? 1 : 0)) {
      if (c < '0' || c > '9' || number > (std::uint64_t{1} << 63) / 10)
        throw pytree_error({path, "a key is neither an integer nor a quoted string"});
      number = number * 10 + static_cast<std::uint64_t>(c - '0');
    }
    if (key.size() == (negative ? 1u : 0u) || number > (std::uint64_t{1} << 63) - (negative ? 0 : 1))
      throw pytree_error({path, "a key is neither an integer nor a quoted string"});
    return static_cast<std::int64_t>(negative ? 0 - number : number);
  }

  /// Writes the nodes as one tuple, from the root on.
  module_argument write() const {
    module_argument out;
    std::vector<std::pair<std::size_t, std::size_t>> rest{{0, 0}};  // node, next child
    while (!rest.empty()) {
      auto const& n = nodes_[rest.back().first];
      auto const next = rest.back().second++;
      if (next == 0) out.push_back(begin_of(n));
      if (next == n.children.size()) {
        rest.pop_back();
        continue;
      }
      if (n.what == kind::dict) out.push_back(n.keys[next]);
      rest.emplace_back(n.children[next], 0);
    }
    return out;
  }

  token begin_of(node const& n) const {
    if (n.what == kind::leaf) return n.leaf;
    if (n.what == kind::unknown && n.children.empty() && form_ == pytree_form::exact)
      throw pytree_error({"", "the text has no entry for a position"});
    if (n.what == kind::dict && n.keys.size() != n.children.size())
      throw pytree_error({"", "the numbers of keys and values of a dict differ"});
    return container{n.what == kind::list   ? container::kind::list
                     : n.what == kind::dict ? container::kind::dict
                                            : container::kind::tuple,
                     static_cast<std::uint32_t>(n.children.size())};
  }

  pytree_message const& message_;
  pytree_form form_;
  std::vector<node> nodes_;
  std::size_t used_ = 0;
};

/// Restores the values of a message as one tuple. The text may come from an untrusted source: malformed text,
/// or text that does not fit the leaves, throws. O(size), including gaps in the positions of the tuple form.
/// \throws pytree_error
inline module_argument tree_unflatten(pytree_message const& message, pytree_form form = pytree_form::exact) {
  return pytree_reader(message, form).read();
}

/// Returns the reason why `message` cannot be read, or nothing.
inline std::optional<pytree_fault> find_pytree_fault(pytree_message const& message,
                                                     pytree_form form = pytree_form::exact) {
  try {
    tree_unflatten(message, form);
  } catch (pytree_error const& e) {
    return e.witness;
  }
  return std::nullopt;
}

}  // namespace cleave::detail
