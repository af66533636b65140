// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/graph/module_graph.hpp"
#include "cleave/partition/named/hierarchical_cut.hpp"
#include "conformance_runner/read_graph.hpp"
#include "support/element_interpretation.hpp"

/// The models of Slapo's cases: module trees with their state and the outputs of their modules.
namespace cleave::conformance {

using namespace detail;

/// Converts Slapo's nodes to the common format, in which the only argument of a placeholder is its default.
inline json with_defaults(json nodes) {
  for (json& n : nodes)
    if (n["op"] == "placeholder" && n.contains("args") && !n["args"].empty()) {
      n["default"] = n["args"][0];
      n.erase("args");
    }
  return nodes;
}

/// Reads a tree of modules. A traced level becomes a body. `original` of each module is its path from the
/// root. Parameters of an opaque module are registered below its path in the level that calls it.
class model_reader {
 public:
  model_reader(json const& modules, std::string where) : modules_(modules), where_(std::move(where)) {}

  module_graph read() {
    std::vector<std::string> levels;
    for (auto const& [path, m] : modules_.items())
      if (m.contains("graph")) levels.push_back(path);
    std::ranges::sort(levels, std::ranges::greater(), &std::string::size);  // inner levels come first
    for (auto const& level : levels) body_[level] = read_level(level);
    return body_.at("");
  }

 private:
  module_graph read_level(std::string const& path) {
    module_graph g;
    json const& level = modules_[path];
    read_nodes(g, with_defaults(level["graph"]), where_ + ", module '" + path + "'");
    add_state(g, "", path);
    for (auto const& n : g.list())
      if (n.kind == node_kind::get_attr && !g.find_attribute(n.target))
        g.add_attribute({n.target, module_attribute::kind::tensor, {}, {}, joined_path(path, n.target), {}});
    std::vector<std::string> children;
    for (json const& child : level.value("children", json::array())) children.push_back(child);
    for (auto const& n : g.list())
      if (n.kind == node_kind::call_module) children.push_back(n.target);
    for (auto const& child : children) {
      if (g.find_attribute(child)) continue;
      auto const full = joined_path(path, child);
      module_attribute a{child, module_attribute::kind::module, {}, {}, full, {}};
      auto const inside = body_.find(full);
      if (inside != body_.end()) a.body.push_back(inside->second);
      g.add_attribute(std::move(a));
      if (inside == body_.end()) add_state_below(g, child, full);
    }
    return g;
  }

  void add_state(module_graph& g, std::string const& prefix, std::string const& full) {
    if (!modules_.contains(full)) return;
    for (json const& p : modules_[full].value("params", json::array()))
      g.add_attribute({joined_path(prefix, p[0]),
                       module_attribute::kind::parameter,
                       p[1],
                       {},
                       joined_path(full, p[0]),
                       {}});
  }

  void add_state_below(module_graph& g, std::string const& prefix, std::string const& full) {
    add_state(g, prefix, full);
    if (!modules_.contains(full)) return;
    for (json const& child : modules_[full].value("children", json::array()))
      add_state_below(g, joined_path(prefix, child), joined_path(full, child));
  }

  json const& modules_;
  std::string where_;
  std::map<std::string, module_graph> body_;
};

/// The integer interpretation for Slapo's cases. A module returns a tensor, a tuple, a nested tuple or a
/// dict, as the case says. Elements are taken by position or key. It tracks the values that need a gradient.
class model_interpretation : public testing::element_interpretation {
 public:
  explicit model_interpretation(json const& modules) {
    for (auto const& [path, m] : modules.items()) {
      if (m.contains("result")) result_[path] = m["result"];
      if (!m.contains("params")) continue;
      for (auto at = path.size(); at != path.npos; at = at == 0 ? path.npos : path.rfind('.', at - 1))
        trained_.insert(path.substr(0, at));  // a module and all its ancestors
    }
  }

  value call(module_graph const& g, module_graph::position n, std::span<value const> args,
             std::span<value const> kwargs) {
    module_node const& node = g[n];
    auto made = element_interpretation::call(g, n, args, kwargs);
    if (node.kind == node_kind::call_module) made = shaped(made, result_[original(g, node.target)]);
    if (made.items && node.kind != node_kind::call_module) return made;  // an element, or a container
    bool needs = node.kind == node_kind::call_module && trained_.contains(original(g, node.target));
    for (auto const& a : args) needs = needs || needs_gradient(a);
    for (auto const& k : kwargs) needs = needs || needs_gradient(k);
    if (needs) mark(made);
    return made;
  }

  bool needs_gradient(value const& v) const {
    if (v.items) return std::ranges::any_of(*v.items, [&](value const& i) { return needs_gradient(i); });
    return with_gradient_.contains(v.digest);
  }

 private:
  value shaped(value const& v, std::string const& form) const {
    using enum container::kind;
    auto const part = [&](std::uint64_t i) { return value::computed(testing::fold(v.bits, i)); };
    if (form == "tuple") return collect({tuple, 2}, std::vector{part(0), part(1)});
    if (form == "nested")
      return collect({tuple, 2}, std::vector{collect({tuple, 2}, std::vector{part(0), part(1)}), part(2)});
    if (form == "dict")
      return collect({dict, 2},
                     std::vector{constant(std::string("h")), part(0), constant(std::string("aux")), part(1)});
    return v;
  }

  void mark(value const& v) {
    if (v.items)
      for (auto const& i : *v.items) mark(i);
    else if (v.what == value::kind::computed)
      with_gradient_.insert(v.digest);
  }

  static std::string original(module_graph const& g, std::string const& path) {
    auto const* a = g.find_attribute(path);
    return a && !a->original.empty() ? a->original : path;
  }

  std::map<std::string, std::string> result_;
  std::set<std::string> trained_;
  std::set<std::uint64_t> with_gradient_;
};

}  // namespace cleave::conformance
