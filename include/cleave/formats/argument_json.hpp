// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/escape.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/core/real.hpp"
#include "cleave/formats/json/json_value.hpp"
#include "cleave/formats/json/json_writer.hpp"
#include "cleave/graph/argument.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/numbering.hpp"

/// Arguments of a module_graph as JSON, and back, without recursion:
///
///     null, true, 3, 0.5, "text"             constants; a number that looks like an integer is one
///     {"real": 3}, {"real": "nan"}           a floating-point number that does not show as one
///     {"node": "conv1"}, {"node": 4}         the value of a node before this one, by name or number
///     {"list": […]}, {"tuple": […]}, {"slice": [a, b, c]}, {"dict": [[key, value], …]}
///     {"dtype": "float32"}                   an opaque constant of that kind; {"opaque": [kind, text]} says
///     the same
namespace cleave::detail {

inline constexpr std::array<std::string_view, 4> container_names = {"list", "tuple", "dict", "slice"};

/// How nodes are called in a text: by their names where these are different, else by their numbers.
class node_labels {
 public:
  explicit node_labels(module_graph const& g) : g_(&g) {
    numbering<std::string, std::uint32_t> names;
    for (auto const& n : g.list()) names.insert(escape_json(n.name));
    by_name_ = names.size() == g.list().size();
  }
  void write(json_writer& w, module_graph::position n) const {
    by_name_ ? w.value((*g_)[n].name) : w.value(n);
  }

 private:
  module_graph const* g_;
  bool by_name_;
};

/// Writes a token that is neither a node nor a container.
inline void write_constant(json_writer& w, token const& t) {
  if (auto const* b = std::get_if<bool>(&t)) {
    w.value(*b);
  } else if (auto const* i = std::get_if<std::int64_t>(&t)) {
    w.value(*i);
  } else if (auto const* s = std::get_if<std::string>(&t)) {
    w.value(*s);
  } else if (auto const* x = std::get_if<double>(&t)) {
    char digits[64];
    std::string_view const text(digits, std::to_chars(digits, digits + sizeof digits, *x).ptr);
    if (is_finite(*x) && text.find_first_of(".e") != text.npos)
      w.value(*x);
    else
      w.open_object().member("real", text).close_object();
  } else if (auto const* o = std::get_if<opaque>(&t)) {
    w.open_object().key("opaque").open_array().value(o->kind).value(o->text).close_array().close_object();
  } else {
    w.null();
  }
}

/// O(size).
inline void write_argument(json_writer& w, node_labels const& names, module_argument const& a) {
  struct level {
    container::kind what;
    std::size_t missing;
  };
  std::vector<level> open;
  auto const in_dict = [&] { return !open.empty() && open.back().what == container::kind::dict; };
  auto const close = [&] {
    w.close_array().close_object();
    open.pop_back();
  };
  auto const written = [&] {  // one element more of the innermost container
    while (!open.empty()) {
      --open.back().missing;
      if (in_dict() && open.back().missing % 2 == 0) w.close_array();
      if (open.back().missing > 0) return;
      close();
    }
  };
  for (auto const& t : a) {
    if (in_dict() && open.back().missing % 2 == 0) w.open_array();
    if (auto const* c = std::get_if<container>(&t)) {
      w.open_object().key(container_names[static_cast<std::size_t>(c->what)]).open_array();
      open.push_back({c->what, elements_of(*c)});
      if (open.back().missing > 0) continue;
      close();
    } else if (auto const* ref = std::get_if<node_ref>(&t)) {
      names.write(w.open_object().key("node"), ref->node);
      w.close_object();
    } else {
      write_constant(w, t);
    }
    written();
  }
}

/// As an object under `key`; nothing where there is none. \throws error where two have one keyword.
inline void write_arguments(json_writer& w, node_labels const& names, std::string_view key,
                            std::vector<keyword_argument> const& list) {
  if (list.empty()) return;
  w.key(key).open_object();
  numbering<std::string_view, std::uint32_t> known;
  for (auto const& k : list) {
    auto const before = known.size();
    if (known.insert(k.key) < before) throw error("keyword " + quoted(k.key) + " stands twice in one list");
    write_argument(w.key(k.key), names, k.value);
  }
  w.close_object();
}

/// The token that `v` begins; the elements of a container are added to `rest`, the last first.
/// `node_of(json_value)` is the position of the node that a label names.
template <class F>
token read_token(json_value const& v, F& node_of, std::vector<json_value>& rest) {
  using enum json_kind;
  if (v.what() == null) return token();
  if (v.what() == boolean) return v.boolean();
  if (v.what() == text) return v.text();
  if (v.what() == number) return v.is_integer() ? token(v.integer()) : token(v.real());
  if (v.what() == array) v.fail("a list is written {\"list\": […]}, a tuple {\"tuple\": […]}");
  if (v.size() != 1) v.fail("an object with one key is expected here");
  token made;
  v.each_member([&](std::string const& key, json_value const& inside) {
    auto const what = std::ranges::find(container_names, key);
    if (key == "node") {
      made = node_ref{node_of(inside)};
    } else if (key == "real") {
      auto const s = inside.what() == text ? inside.text() : std::string();
      double x = 0;
      auto const end = std::from_chars(s.data(), s.data() + s.size(), x);
      if (inside.what() == text && (end.ec != std::errc() || end.ptr != s.data() + s.size()))
        inside.fail("no floating-point number");
      made = inside.what() == text ? x : inside.real();
    } else if (key == "opaque") {
      std::vector<std::string> parts;
      inside.each_element([&](json_value const& part) { parts.push_back(part.text()); });
      if (parts.size() != 2) inside.fail("expected a kind and a text");
      made = opaque{parts[0], parts[1]};
    } else if (what == container_names.end()) {
      made = opaque{key, inside.text()};
    } else {
      container const c{static_cast<container::kind>(what - container_names.begin()),
                        narrow<std::uint32_t>(inside.size())};
      if (c.what == container::kind::slice && c.size != 3) inside.fail("a slice has three elements");
      auto const first = static_cast<std::ptrdiff_t>(rest.size());
      inside.each_element([&](json_value const& e) {
        if (c.what != container::kind::dict) return rest.push_back(e);
        if (e.what() != array || e.size() != 2) e.fail("expected a key and a value, [key, value]");
        e.each_element([&](json_value const& half) { rest.push_back(half); });
      });
      std::reverse(rest.begin() + first, rest.end());
      made = c;
    }
  });
  return made;
}

/// \throws json_error
template <class F>
module_argument read_argument(json_value const& v, F node_of) {
  module_argument a;
  std::vector<json_value> rest{v};
  while (!rest.empty()) {
    auto const next = rest.back();
    rest.pop_back();
    a.push_back(read_token(next, node_of, rest));
  }
  return a;
}

/// The members of an object. \throws json_error
template <class F>
std::vector<keyword_argument> read_arguments(json_value const& v, F node_of) {
  std::vector<keyword_argument> list;
  v.each_member([&](std::string const& key, json_value const& value) {
    list.push_back({key, read_argument(value, node_of)});
  });
  return list;
}

}  // namespace cleave::detail
