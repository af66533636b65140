// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/graph/module_graph.hpp"
#include "cleave/partition/named/hierarchical_cut.hpp"

namespace cleave {

/// A call of a level of a hierarchical cut: what a stage runs.
struct level_call {
  std::uint32_t level;
  module_graph::position node;

  bool operator==(level_call const&) const = default;
};

/// What messages call it: the path of its level, a colon, its name.
inline std::string label(hierarchical_cut const& cut, level_call const& c) {
  auto const& level = cut.levels[c.level];
  return level.path + ":" + std::string(level.graph->name(c.node));
}

}  // namespace cleave

namespace cleave::detail {

/// Whether `n` only takes an element out of a tuple, list or dict, as `getitem(whole, key)` or
/// `whole.get(key, default)`: no work of its own.
inline bool reads_element(module_node const& n) {
  return (n.kind == node_kind::call_function && n.target == "getitem") ||
         (n.kind == node_kind::call_method && n.target == "get");
}

}  // namespace cleave::detail

namespace cleave {

/// What the cuts mean, whatever is made of them: the program in order, entered only where cuts lie, and a
/// stage ended after each call that a cut names. A module without cuts inside is one call; readings of
/// elements are none; empty stages do not count. O(size of the levels times their runs).
inline std::vector<std::vector<level_call>> stages_of(hierarchical_cut const& cut) {
  struct visit {
    std::uint32_t level;
    std::size_t call = 0, end = 0, open = 0;  // what comes next in nodes(), ends and opened
  };
  std::vector<std::vector<level_call>> stages(1);
  std::vector<visit> visits{{0}};
  while (!visits.empty()) {
    auto& at = visits.back();
    auto const& level = cut.levels[at.level];
    auto const calls = level.graph->nodes();
    if (at.call == calls.size()) {
      visits.pop_back();
      if (visits.empty()) break;
    } else {
      auto const n = calls[at.call];
      if (at.open < level.opened.size() && level.opened[at.open].first == n) {
        auto const inside = level.opened[at.open++].second;
        visits.push_back({inside});
        continue;
      }
      if (!detail::reads_element((*level.graph)[n])) stages.back().push_back({at.level, n});
    }
    auto& after = visits.back();  // a call of this level is complete
    auto const& here = cut.levels[after.level];
    auto const n = here.graph->nodes()[after.call++];
    if (after.end == here.ends.size() || here.ends[after.end] != n) continue;
    ++after.end;
    if (!stages.back().empty()) stages.emplace_back();
  }
  if (stages.back().empty()) stages.pop_back();
  return stages;
}

}  // namespace cleave
