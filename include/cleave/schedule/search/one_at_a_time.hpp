// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/schedule/list/backward_choice.hpp"
#include "cleave/schedule/list/pass_lists.hpp"
#include "cleave/schedule/list/placed_step.hpp"
#include "cleave/schedule/model/action.hpp"

namespace cleave::detail {

/// A number for each stage, the same for all that edges connect. O((stages + edges) log stages).
inline std::vector<std::uint32_t> connected_stages(placed_step const& step) {
  std::vector<std::uint32_t> root(step.stages.size());
  for (std::uint32_t s = 0; s < root.size(); ++s) root[s] = s;
  auto const root_of = [&](std::uint32_t s) {
    while (root[s] != s) s = root[s] = root[root[s]];
    return s;
  };
  for (std::uint32_t e = 0; e < step.forward.size(); ++e)
    root[root_of(step.fed(e))] = root_of(step.feeding(e));
  for (auto& r : root) r = root_of(r);
  return root;
}

/// The slowest schedule that never waits for nothing, and the one that keeps least: a microbatch goes down a
/// chain and back before the next begins, and one chain waits for the other. O(passes + stages).
inline pass_lists one_at_a_time(placed_step const& step, backward_choice form = backward_choice::whole) {
  auto const chain_of = connected_stages(step);
  pass_lists lists(step.locals.size());
  auto const add = [&](std::uint32_t s, action_kind kind) {
    lists[step.stages[s].rank].push_back({s, kind});
  };
  for (std::uint32_t chain = 0; chain < chain_of.size(); ++chain) {
    std::vector<std::uint32_t> stages;
    for (auto const s : step.order)
      if (chain_of[s] == chain) stages.push_back(s);
    if (stages.empty()) continue;
    for (std::uint32_t k = 0; k < step.microbatches; ++k) {
      for (auto const s : stages) add(s, action_kind::forward);
      for (auto it = stages.rbegin(); it != stages.rend(); ++it) {
        if (form != backward_choice::split) {
          add(*it, action_kind::backward);
          continue;
        }
        add(*it, action_kind::input_gradient);
        add(*it, action_kind::weight_gradient);
      }
    }
  }
  return lists;
}

}  // namespace cleave::detail
