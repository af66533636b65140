// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <map>
#include <string>

#include "cleave/graph/module_graph.hpp"
#include "conformance_runner/read_graph.hpp"

/// Stages rebuilt as modules, in the form of Pipe's recordings.
namespace cleave::conformance {

/// Replaces nodes by their positions in the list; drops other information in names.
inline json numbered(json const& nodes) {
  std::map<std::string, std::size_t> place;
  for (std::size_t i = 0; i < nodes.size(); ++i) place[nodes[i]["name"].get<std::string>()] = i;
  auto const number = [&](auto const& self, json& at) -> void {
    if (at.is_object() && at.contains("node"))
      if (auto const known = place.find(at["node"].get<std::string>()); known != place.end())
        at["node"] = known->second;
    if (at.is_object() || at.is_array())
      for (auto& inner : at) self(self, inner);
  };
  json list = json::array();
  for (auto n : nodes) {
    for (auto const* key : {"name", "meta", "from", "default"}) n.erase(key);
    if (n["op"] == "placeholder" || n["op"] == "output") n.erase("target");
    for (auto const* key : {"args", "kwargs"})
      if (n.contains(key) && n[key].empty()) n.erase(key);
    number(number, n);
    list.push_back(std::move(n));
  }
  return list;
}

inline json numbered_tree(json const& tree) {
  json made = json::object();
  if (tree.contains("graph")) made["graph"] = numbered(tree["graph"]["nodes"]);
  if (tree.contains("children"))
    for (auto const& [name, child] : tree["children"].items()) made["children"][name] = numbered_tree(child);
  return made;
}

/// Writes the modules of a graph rebuilt as a tree: bodies, their ancestors, and owners of state.
inline json write_tree(module_graph const& g) {
  json tree = json::object();
  tree["graph"] = write_nodes(g).empty() ? json::array() : numbered(write_nodes(g));
  auto const child = [](json& at, std::string const& name) -> json& {
    json& made = at["children"][name];
    if (made.is_null()) made = json::object();
    return made;
  };
  for (auto const& a : g.attributes()) {
    bool const module = a.what == module_attribute::kind::module;
    json* at = &tree;
    std::size_t from = 0;
    for (auto dot = a.path.find('.'); dot != a.path.npos; from = dot + 1, dot = a.path.find('.', from)) {
      at = &child(*at, a.path.substr(from, dot - from));
      if (module && !at->contains("graph")) (*at)["graph"] = json::array();  // an ancestor of a call
    }
    if (!module) continue;
    json inner = write_tree(a.body.front());
    child(*at, a.path.substr(from)).update(inner, true);
  }
  return tree;
}

}  // namespace cleave::conformance
