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

#include "cleave/core/printable.hpp"
#include "cleave/graph/argument.hpp"
#include "cleave/pipe/wire.hpp"

namespace cleave::detail {

/// Reads a message; `unflatten` is its one use.
class wire_reader {
 public:
  wire_reader(wire_message const& message, wire_form form) : message_(message), form_(form) {}

  module_argument read() {
    nodes_.push_back({kind::tuple, {}, {}, {}});
    std::string_view rest = message_.text;
    while (!rest.empty()) {
      auto const bar = rest.find('|');
      read_entry(rest.substr(0, bar));
      if (bar != rest.npos && bar + 1 == rest.size()) throw wire_error("", "the text ends with '|'");
      rest.remove_prefix(bar == rest.npos ? rest.size() : bar + 1);
    }
    if (used_ != message_.leaves.size())
      throw wire_error("", std::to_string(message_.leaves.size()) + " leaves came, and the text tells of " +
                               std::to_string(used_));
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
  static constexpr std::size_t most_nodes = std::size_t{1} << 20;  // a gap in the paths is made of nodes too

  void read_entry(std::string_view entry) {
    auto const comma = entry.find(',');
    std::string const path(entry.substr(0, comma));
    if (comma == entry.npos || comma + 1 == entry.size()) throw wire_error(path, "no type");
    auto const at = find(path);
    auto& n = nodes_[at];
    char const type = entry[comma + 1];
    auto const keys = entry.substr(comma + 2);
    if (n.what != kind::unknown || !n.children.empty()) throw wire_error(path, "told of twice");
    bool const container = form_ == wire_form::exact && type >= '3' && type <= '5';
    if ((!container && (type < '0' || type > '2')) || (type != '5' && !keys.empty()))
      throw wire_error(path, "unknown type " + quoted(entry.substr(comma + 1)));
    if (container) {
      n.what = type == '3' ? kind::list : type == '4' ? kind::tuple : kind::dict;
      if (type == '5') n.keys = read_keys(keys, path);
      return;
    }
    if (used_ == message_.leaves.size()) throw wire_error(path, "no leaf came for it");
    n.what = kind::leaf;
    n.leaf = message_.leaves[used_++];
    bool const tensor = std::holds_alternative<node_ref>(n.leaf);
    bool const nothing = std::holds_alternative<std::monostate>(n.leaf);
    if (tensor != (type == '0') || nothing != (type == '2'))
      throw wire_error(path, "the leaf that came is not of its type");
  }

  /// The node at `path`, made with those that it goes through.
  std::size_t find(std::string const& path) {
    std::size_t at = 0, i = 0;
    for (bool last = false; !last;) {
      std::size_t number = 0, digits = 0;
      for (; i < path.size() && path[i] >= '0' && path[i] <= '9' && digits < 8; ++i, ++digits)
        number = number * 10 + static_cast<std::size_t>(path[i] - '0');
      last = i == path.size();
      if (digits == 0 || (!last && path[i] != '.')) throw wire_error(path, "no path of positions");
      ++i;
      if (nodes_[at].what == kind::leaf) throw wire_error(path, "it would lie inside a leaf");
      if (number >= most_nodes - nodes_.size()) throw wire_error(path, "the positions are too large");
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
      if (c < '0' || c > '9' || number > (std::uint64_t{1} << 63) / 10) throw wire_error(path, "no key");
      number = number * 10 + static_cast<std::uint64_t>(c - '0');
    }
    if (key.size() == (negative ? 1u : 0u) || number > (std::uint64_t{1} << 63) - (negative ? 0 : 1))
      throw wire_error(path, "no key");
    return static_cast<std::int64_t>(negative ? 0 - number : number);
  }

  /// The nodes as one tuple, from the root.
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
    if (n.what == kind::unknown && n.children.empty() && form_ == wire_form::exact)
      throw wire_error("", "the text leaves out a position");
    if (n.what == kind::dict && n.keys.size() != n.children.size())
      throw wire_error("", "a dict has not as many values as keys");
    return container{n.what == kind::list   ? container::kind::list
                     : n.what == kind::dict ? container::kind::dict
                                            : container::kind::tuple,
                     static_cast<std::uint32_t>(n.children.size())};
  }

  wire_message const& message_;
  wire_form form_;
  std::vector<node> nodes_;
  std::size_t used_ = 0;
};

/// The values of a message as one tuple. The text may come from anywhere: what is no text of that form, or
/// does not fit the leaves, is an error. O(size), a gap in the positions of the tuple form included.
/// \throws wire_error
inline module_argument unflatten(wire_message const& message, wire_form form = wire_form::exact) {
  return wire_reader(message, form).read();
}

/// Why `message` cannot be read, or nothing.
inline std::optional<wire_fault> find_wire_fault(wire_message const& message,
                                                 wire_form form = wire_form::exact) {
  try {
    unflatten(message, form);
  } catch (wire_error const& e) {
    return e.witness;
  }
  return std::nullopt;
}

}  // namespace cleave::detail
