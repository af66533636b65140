// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>

#include "cleave/partition/kway/detail/config.hpp"
#include "cleave/partition/kway/options.hpp"

namespace cleave::inline v0_2::detail {

/// Returns the effort for nodes with several weights. Bisections differ more in their cuts then, so that more
/// of them compete; parts grown from centres hardly ever keep all limits.
inline kway_config for_several_weights(kway_config e) {
  e.nodes_a_part *= 4;
  e.passes = (std::max)(e.passes, 3u);
  e.max_fruitless_moves = std::max<std::size_t>(e.max_fruitless_moves, 400);
  e.grow_parts = false;
  e.bisection.restarts *= 2, e.bisection.least_restarts *= 2;
  e.bisection.passes = 6;
  e.bisection_work *= 4;
  return e;
}

/// Returns the effort of a preset for nodes with one weight. It is the same for all graphs.
inline kway_config choose_one_weight_config(kway_preset preset) {
  kway_config e;
  if (preset == kway_preset::fast) {
    e.jet = {.gain_temperatures = {0}, .max_fruitless_iterations = 2};
    e.grow_parts = false;
    e.bisection.restarts = 16, e.bisection.least_restarts = 2;
    e.bisection_work = 0.25;
    e.least_nodes = 1000;
    return e;
  }
  e.nodes_a_part = 40;
  e.passes = 3, e.max_fruitless_moves = 400;
  e.jet.gain_temperatures = {0.35, 0};
  e.flow_rounds = 1;
  e.bisection.restarts = 16, e.bisection.least_restarts = 4;
  return e;
}

/// Returns the effort of a preset.
inline kway_config choose_config(kway_preset preset, bool several_weights = false) {
  auto const e = choose_one_weight_config(preset);
  return several_weights ? for_several_weights(e) : e;
}

/// Returns the effort of the preset `quality`.
inline quality_config choose_quality_config(bool several_weights = false) {
  quality_config e;
  e.standard = choose_one_weight_config(kway_preset::standard);
  e.standard.jet = {
      .gain_temperatures = {0.75, 0.35, 0}, .max_fruitless_iterations = 6, .least_gain = 0.0005};
  e.standard.bisection.restarts = 32, e.standard.bisection.least_restarts = 8;
  if (several_weights) e.standard = for_several_weights(e.standard);
  e.trials = {e.standard};
  e.trials[0].bisection.first_share = 1. / 3;  // rows of parts with different lengths may cut less
  return e;
}

}  // namespace cleave::detail
