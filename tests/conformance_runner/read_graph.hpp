// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/graph/module_graph.hpp"
#include "conformance_runner/json.hpp"

/// Converts graphs of the conformance cases to module_graphs and back, without loss. Properties that
/// module_graph lacks are kept in the metadata of the node, the attribute or the graph.
namespace cleave::conformance {

using namespace detail;

using position = module_graph::position;
/// The positions of a graph's nodes, by name.
using node_names = std::map<std::string, position, std::less<>>;

inline constexpr std::array<std::pair<std::string_view, node_kind>, 6> operations{{
    {"placeholder", node_kind::placeholder},
    {"get_attr", node_kind::get_attr},
    {"call_function", node_kind::call_function},
    {"call_method", node_kind::call_method},
    {"call_module", node_kind::call_module},
    {"output", node_kind::output},
}};

inline constexpr std::array<std::pair<std::string_view, container::kind>, 4> containers{{
    {"list", container::kind::list},
    {"tuple", container::kind::tuple},
    {"dict", container::kind::dict},
    {"slice", container::kind::slice},
}};

template <class Table, class Key>
auto const* find_entry(Table const& table, Key const& key) {
  for (auto const& entry : table)
    if (entry.first == key) return &entry;
  return static_cast<typename Table::value_type const*>(nullptr);
}

inline token read_constant(json const& j, std::string const& where) {
  if (j.is_boolean()) return j.get<bool>();
  if (j.is_string()) return j.get<std::string>();
  if (j.is_number_float()) return j.get<double>();
  if (j.is_number_unsigned() &&
      j.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()})
    throw layout_error(where + ": " + j.dump() + " does not fit 64 bits with a sign");
  if (j.is_number_integer()) return j.get<std::int64_t>();
  if (j.is_null()) return token();
  throw layout_error(where + ": expected a constant, got " + j.dump().substr(0, 60));
}

/// Appends an operand: `{"node": n}`, a container, an opaque constant, or a constant.
inline void append_operand(module_argument& to, json const& j, node_names const& names,
                           std::string const& where) {
  if (!j.is_object()) {
    to.push_back(read_constant(j, where));
    return;
  }
  auto const& form = j.begin().key();
  json const& inside = j.begin().value();
  if (form == "node") {
    auto const known = names.find(inside.get<std::string>());
    if (known == names.end())
      throw layout_error(where + ": '" + inside.get<std::string>() + "' is no node before this one");
    to.push_back(node_ref{known->second});
  } else if (auto const* c = find_entry(containers, form)) {
    to.push_back(container{c->second, static_cast<std::uint32_t>(inside.size())});
    for (json const& element : inside)
      if (c->second == container::kind::dict) {
        append_operand(to, element[0], names, where);
        append_operand(to, element[1], names, where);
      } else {
        append_operand(to, element, names, where);
      }
  } else {
    to.push_back(opaque{form, inside.get<std::string>()});
  }
}

inline module_argument read_operand(json const& j, node_names const& names, std::string const& where) {
  module_argument a;
  append_operand(a, j, names, where);
  return a;
}

/// Appends plain data: a JSON list as a list, an object as a dict.
inline void append_data(module_argument& to, json const& j, std::string const& where) {
  if (j.is_object()) {
    to.push_back(container{container::kind::dict, static_cast<std::uint32_t>(j.size())});
    for (auto const& [key, value] : j.items()) {
      to.push_back(key);
      append_data(to, value, where);
    }
  } else if (j.is_array()) {
    to.push_back(container{container::kind::list, static_cast<std::uint32_t>(j.size())});
    for (auto const& element : j) append_data(to, element, where);
  } else {
    to.push_back(read_constant(j, where));
  }
}

inline std::vector<keyword_argument> read_metadata(json const& object, std::string const& where) {
  std::vector<keyword_argument> data;
  for (auto const& [key, value] : object.items()) {
    data.push_back({key, {}});
    append_data(data.back().value, value, where);
  }
  return data;
}

inline json write_constant(token const& t) {
  if (auto const* b = std::get_if<bool>(&t)) return *b;
  if (auto const* i = std::get_if<std::int64_t>(&t)) return *i;
  if (auto const* d = std::get_if<double>(&t)) return *d;
  if (auto const* s = std::get_if<std::string>(&t)) return *s;
  if (auto const* o = std::get_if<opaque>(&t)) return json{{o->kind, o->text}};
  return nullptr;
}

/// Writes the subtree of `a` at `at`, as an operand or as plain data, and advances `at` past it.
inline json write_subtree(module_graph const& g, module_argument const& a, std::size_t& at, bool operand) {
  token const& t = a[at++];
  if (auto const* ref = std::get_if<node_ref>(&t)) return json{{"node", g[ref->node].name}};
  auto const* c = std::get_if<container>(&t);
  if (!c) return write_constant(t);
  bool const dict = c->what == container::kind::dict;
  if (dict && !operand) {
    json object = json::object();
    for (std::uint32_t i = 0; i < c->size; ++i) {
      auto const key = std::get<std::string>(a[at++]);
      object[key] = write_subtree(g, a, at, operand);
    }
    return object;
  }
  json elements = json::array();
  for (std::uint32_t i = 0; i < c->size; ++i) {
    json element = write_subtree(g, a, at, operand);
    if (dict) element = json::array({std::move(element), write_subtree(g, a, at, operand)});
    elements.push_back(std::move(element));
  }
  if (!operand) return elements;
  for (auto const& [name, kind] : containers)
    if (kind == c->what) return json{{std::string(name), std::move(elements)}};
  return nullptr;
}

inline json write_argument(module_graph const& g, module_argument const& a, bool operand = true) {
  std::size_t at = 0;
  return write_subtree(g, a, at, operand);
}

inline json write_metadata(module_graph const& g, std::vector<keyword_argument> const& data) {
  json object = json::object();
  for (auto const& [key, value] : data) object[key] = write_argument(g, value, false);
  return object;
}

inline std::vector<dimension> read_shape(json const& list) {
  std::vector<dimension> shape;
  for (json const& d : list)
    shape.push_back(d.is_string() ? dimension(d.get<std::string>()) : dimension(d.get<std::int64_t>()));
  return shape;
}

/// Reads the shape and symbols in `meta`: the symbol that is the value itself, and the free symbols.
inline void read_symbols(module_node& n, json const& meta) {
  auto const text_of = [](json const& object, char const* key) {
    auto const at = object.find(key);
    return at == object.end() ? std::string() : at->get<std::string>();
  };
  if (auto const value = meta.find("val"); value != meta.end()) {
    n.binds = text_of(*value, "binds");
    n.expression = text_of(*value, "expr");
    if (value->contains("shape")) n.shape = read_shape((*value)["shape"]);
    for (json const& s : value->value("free", json::array())) n.symbols.push_back(s.get<std::string>());
  } else if (meta.contains("sym")) {
    n.binds = text_of(meta, "sym");
    n.symbols = {n.binds};
  } else if (auto const shape = meta.find("shape"); shape != meta.end()) {
    n.shape = read_shape(*shape);
    for (json const& dimension : *shape)
      if (dimension.is_string()) n.symbols.push_back(dimension.get<std::string>());
    std::ranges::sort(n.symbols);
    auto const repeated = std::ranges::unique(n.symbols);
    n.symbols.erase(repeated.begin(), repeated.end());
  }
}

/// Adds `list`, nodes in the common format, to `g`.
inline node_names read_nodes(module_graph& g, json const& list, std::string const& where) {
  node_names names;
  for (json const& j : list) {
    auto const name = j.at("name").get<std::string>();
    auto const place = where + ", node '" + name + "'";
    module_node n;
    n.name = name;
    n.kind = find_entry(operations, j.at("op").get<std::string>())->second;
    n.target = j.value("target", "");
    if (auto const d = j.find("default"); d != j.end()) n.default_value = read_operand(*d, names, place);
    if (auto const args = j.find("args"); args != j.end())
      for (json const& a : *args) n.args.push_back(read_operand(a, names, place));
    if (auto const kwargs = j.find("kwargs"); kwargs != j.end())
      for (auto const& [key, value] : kwargs->items())
        n.kwargs.push_back({key, read_operand(value, names, place)});
    if (auto const meta = j.find("meta"); meta != j.end()) {
      n.metadata = read_metadata(*meta, place);
      read_symbols(n, *meta);
    }
    if (!names.emplace(name, static_cast<position>(g.list().size())).second)
      throw layout_error(place + ": a second node of that name");
    g.add(std::move(n));
  }
  return names;
}

/// Writes the nodes of `g` in the common format, with keys in a fixed order and without empty `args`,
/// `kwargs` and `target`.
inline json write_nodes(module_graph const& g) {
  json list = json::array();
  for (auto const& n : g.list()) {
    json j;
    j["name"] = n.name;
    for (auto const& [name, kind] : operations)
      if (kind == n.kind) j["op"] = name;
    if (!n.target.empty()) j["target"] = n.target;
    if (n.default_value) j["default"] = write_argument(g, *n.default_value);
    for (auto const& a : n.args) j["args"].push_back(write_argument(g, a));
    for (auto const& k : n.kwargs) j["kwargs"][k.key] = write_argument(g, k.value);
    if (!n.metadata.empty()) j["meta"] = write_metadata(g, n.metadata);
    list.push_back(std::move(j));
  }
  return list;
}

/// Returns the file's nodes in the form that `write_nodes` gives.
inline json normal_nodes(json const& list) {
  json normal = json::array();
  for (json const& node : list) {
    json j;
    for (auto const* key : {"name", "op", "target", "default", "args", "kwargs", "meta", "from"}) {
      auto const at = node.find(key);
      bool const droppable = key == std::string_view("args") || key == std::string_view("kwargs") ||
                             key == std::string_view("meta") || key == std::string_view("target");
      if (at != node.end() && !(droppable && at->empty())) j[key] = *at;
    }
    normal.push_back(std::move(j));
  }
  return normal;
}

}  // namespace cleave::conformance
