// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/graph/argument.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/numbering.hpp"
#include "cleave/partition/named/cut_points.hpp"
#include "cleave/pipe/module_program.hpp"
#include "cleave/split/state/state_placement.hpp"

namespace cleave {

/// What a module_graph says of writes to its state: that functions and methods whose name ends in one
/// underscore (`add_`) write what they read first, as in torch; or nothing.
enum class write_rule : std::uint8_t { by_underscore, none };

}  // namespace cleave

namespace cleave::detail {

/// What an attribute that is no module counts as: a buffer whose metadata say `persistent: false` is not
/// saved, a plain tensor is a constant.
inline state_kind state_kind_of(module_attribute const& a) {
  if (a.what == module_attribute::kind::tensor) return state_kind::constant;
  if (a.what == module_attribute::kind::parameter) return state_kind::parameter;
  for (auto const& [key, value] : a.metadata)
    if (key == "persistent" && value == module_argument{false}) return state_kind::unsaved_buffer;
  return state_kind::buffer;
}

/// Whether `n` writes the first value that it reads.
inline bool writes_in_place(module_node const& n) {
  bool const named = n.kind == node_kind::call_function || n.kind == node_kind::call_method;
  return named && n.target.size() > 1 && n.target.ends_with('_') && !n.target.ends_with("__");
}

/// The names below each of some modules, in the order of registration.
class tensors_below {
 public:
  explicit tensors_below(std::vector<model_tensor> const& tensors) {
    for (std::uint32_t t = 0; t < tensors.size(); ++t) sorted_.emplace_back(tensors[t].name, t);
    std::ranges::sort(sorted_);
  }

  /// O(log names + what is found).
  std::vector<std::uint32_t> operator()(std::string const& module) const {
    auto const prefix = module + ".";
    std::vector<std::uint32_t> found;
    for (auto at = std::ranges::lower_bound(sorted_, std::pair(std::string_view(prefix), std::uint32_t{0}));
         at != sorted_.end() && at->first.starts_with(prefix); ++at)
      found.push_back(at->second);
    std::ranges::sort(found);
    return found;
  }

 private:
  std::vector<std::pair<std::string_view, std::uint32_t>> sorted_;
};

/// The state of a program, as `place_state` asks for it: every attribute that is no module, and the modules
/// that nodes are inside. A node that calls a module reads what is registered below its path. Expected O(size
/// of the program + names log names), and the state of a module for each of its calls.
inline basic_model_state<std::uint32_t> model_state_of(module_program const& p,
                                                       write_rule writes = write_rule::by_underscore) {
  module_graph const& g = p.whole();
  basic_model_state<std::uint32_t> m;
  numbering<std::string_view, std::uint32_t> paths, modules;
  for (auto const& a : g.attributes())
    if (a.what != module_attribute::kind::module) {
      paths.insert(a.path);
      m.tensors.push_back({a.path, a.storage, state_kind_of(a)});
    }
  for (auto const v : p.s.value)
    m.tensor.push_back(g[v].kind == node_kind::get_attr ? paths.find(g[v].target) : none<std::uint32_t>);

  tensors_below const below(m.tensors);
  for (std::uint32_t n = 0; n < p.s.nodes(); ++n) {
    auto const& node = g[p.s.node[n]];
    for (auto const& [key, value] : node.metadata)
      if (key == p.options.calls)
        for (auto const& t : value)
          if (auto const* call = std::get_if<std::string>(&t))
            m.inside.add(modules.insert(module_of_call(*call)));
    if (node.kind == node_kind::call_module) {
      m.inside.add(modules.insert(node.target));
      for (auto const t : below(node.target)) m.reads.add(t);
    }
    m.inside.close();
    m.reads.close();
    auto const read = p.s.operands[n];
    if (writes == write_rule::by_underscore && !read.empty() && writes_in_place(node))
      if (auto const t = m.tensor[read.front()]; t != none<std::uint32_t>) m.writes.add(t);
    m.writes.close();
  }
  for (auto const path : modules.handles()) m.modules.emplace_back(path);
  return m;
}

/// Registers in a stage every name under which it holds a tensor. O(names).
inline void hold_names(module_graph& stage, module_graph const& whole,
                       basic_model_state<std::uint32_t> const& m, std::vector<held_state> const& held) {
  for (auto const& h : held) {
    auto const& name = m.tensors[h.tensor].name;
    if (stage.find_attribute(name)) continue;
    module_attribute a = *whole.find_attribute(name);
    if (a.original.empty()) a.original = name;
    stage.add_attribute(std::move(a));
  }
}

}  // namespace cleave::detail
