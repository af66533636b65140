// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/draw/placement_page.hpp"
#include "cleave/place/device_network.hpp"
#include "cleave/place/place_replicated.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/schedule_names.hpp"
#include "cleave/schedule/model/schedule_times.hpp"
#include "cleave/schedule/simulate/simulate.hpp"

namespace cleave::inline v0_2::detail {

/// Adds the schedule of a placement with copies and its times. Stages and microbatches have the numbers of
/// the row and of the batch, not those of their chains. The sums of gradients follow the passes of each copy.
inline void add_times(pictured_placement& to, device_network const& net, replicated_placement const& p) {
  auto const n = static_cast<std::uint32_t>(p.stages.size()), chains = p.chains();
  to.order = schedule_of(p);
  to.times = simulate(to.order, simulate_options_of(p, net));
  to.order.microbatches = p.microbatches;
  to.order.place.edges = chain_edges(n);
  to.order.place.rank_of.resize(n);
  for (auto& row : to.order.ranks)
    for (auto& a : row) {
      auto const chain = index(a.stage) / n;
      a.stage = stage_id{index(a.stage) % n};
      a.microbatch = microbatch_id{index(a.microbatch) * chains + chain};
    }
  for (std::uint32_t s = 0; s < n; ++s)
    for (std::uint32_t copy = 0; copy < p.stages[s].width && p.stages[s].sum_time > 0; ++copy) {
      auto const rank = p.first_rank(s) + copy;
      auto& last = to.times.last[rank];
      to.order.ranks[rank].push_back({.kind = action_kind::reduce_tie, .stage = stage_id{s}});
      to.times.spans[rank].push_back({last, last + p.stages[s].sum_time});
      to.times.causes[rank].push_back(no_action);
      last += p.stages[s].sum_time;
      to.times.makespan = (std::max)(to.times.makespan, last);
    }
}

/// Returns a placement with copies as a page shows it. \throws error if it was made without a network
inline pictured_placement picture_of(device_network const& net, replicated_placement const& p) {
  bool const is_trained = std::ranges::any_of(p.stages, [](auto const& s) { return s.time.backward > 0; });
  auto const family = is_trained ? schedule_family::one_f_one_b : schedule_family::forward_only;
  pictured_placement made{.period = p.period,
                          .step = p.step,
                          .microbatches = p.microbatches,
                          .schedule = std::string(name_of(family)),
                          .has_copies = true};
  if (!p.is_optimal())
    made.gap = p.bound > 0 ? p.value() / p.bound - 1 : std::numeric_limits<double>::infinity();
  std::vector<char> is_used(net.devices.size());
  double most = 0;
  for (std::size_t s = 0; s < p.stages.size(); ++s) {
    auto const& of = p.stages[s];
    if (of.devices.size() != of.width || (std::ranges::max)(of.devices) >= is_used.size())
      throw error("placement_page: stage " + std::to_string(s) +
                  " names no devices of this network; give place_replicated the network");
    for (auto const d : of.devices) is_used[d] = 1;
    auto& stage = made.stages.emplace_back(pictured_stage{.devices = of.devices,
                                                          .begin = of.begin,
                                                          .end = of.end,
                                                          .time = of.time,
                                                          .sum_time = of.sum_time,
                                                          .memory = of.memory,
                                                          .sent = of.sent});
    stage.load = (of.time.forward + of.time.backward) / of.width + of.sum_time / p.microbatches;
    if (stage.load > most) {
      most = stage.load;
      made.limiting_stage = s;
      made.limit = of.width > 1 ? "each copy of stage " + std::to_string(s)
                                : "device " + device_name(net, of.devices[0]);
    }
  }
  for (std::size_t s = 0; s + 1 < p.stages.size(); ++s) {
    auto const &from = p.stages[s], &to = p.stages[s + 1];
    auto const a = from.devices[0], b = to.devices[0];  // links between other copies are like this one
    made.stages[s].link_load = occupied_time(from.sent, net.link(a, b), net.link(b, a)) /
                               static_cast<double>(std::lcm(from.width, to.width));
    if (made.stages[s].link_load <= most) continue;
    most = made.stages[s].link_load;
    made.limiting_stage = pictured_placement::nowhere;
    made.limiting_link = s;
    made.limit = "each link from stage " + std::to_string(s) + " to stage " + std::to_string(s + 1);
  }
  for (std::uint32_t d = 0; d < is_used.size(); ++d)
    if (!is_used[d]) made.unused.push_back(d);
  add_times(made, net, p);
  return made;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns stages with copies, which were placed on `net`, as the page that `placement_page` writes for
/// stages without. A copy is a rank of the timeline, and the sums of gradients follow its passes. \throws
/// error if the placement was made without a network
inline std::string placement_page(device_network const& net, replicated_placement const& p,
                                  placement_page_options const& options = {}) {
  return detail::placement_page_writer(net, detail::picture_of(net, p), options).write();
}

}  // namespace cleave
