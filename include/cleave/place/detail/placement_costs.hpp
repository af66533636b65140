// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "cleave/place/detail/chain_step.hpp"
#include "cleave/place/detail/device_classes.hpp"
#include "cleave/place/device_network.hpp"
#include "cleave/place/placement.hpp"
#include "cleave/place/placement_row.hpp"
#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/simulate/simulate.hpp"

namespace cleave::inline v0_2::detail {

/// Stages as boundaries and devices.
struct ordered_cut {
  row_cut cut = {};
  std::vector<std::uint32_t> devices = {};
};

/// The costs of a row on the devices of a network, by device.
class placement_costs {
 public:
  placement_costs(placement_row const& row, device_network const& net, placement_options const& o)
      : row_(row),
        net_(net),
        options_(o),
        schedule_(o.schedule.value_or(has_backward(row) ? schedule_family::one_f_one_b
                                                        : schedule_family::forward_only)),
        memory_(row.units, schedule_, o.microbatches),
        crossing_(row.units),
        alike_(classify(row, net)),
        class_of_(net.devices.size()),
        chain_(schedule_, o.microbatches) {
    for (std::uint32_t c = 0; c < alike_.members.size(); ++c)
      for (auto const d : alike_.members[c]) class_of_[d] = c;
  }

  std::size_t units() const { return row_.units.units(); }
  std::size_t devices() const { return net_.devices.size(); }
  placement_options const& options() const { return options_; }
  schedule_family schedule() const { return schedule_; }
  stage_memory const& memory() const { return memory_; }
  crossing_costs const& crossing() const { return crossing_; }
  classified_devices const& alike() const { return alike_; }
  bool has_uplinks() const { return !net_.uplinks.empty(); }
  class_costs const& on(std::uint32_t device) const { return alike_.classes.of[class_of_[device]]; }
  rank_link link(std::uint32_t from, std::uint32_t to) const { return net_.link(from, to); }

  /// Returns the largest number of stages.
  std::uint32_t most_stages() const { return static_cast<std::uint32_t>((std::min)(units(), devices())); }

  /// Returns the period, and what determines it. O(stages · uplinks).
  std::pair<double, placement_bottleneck> period(ordered_cut const& p) const {
    std::pair<double, placement_bottleneck> worst{-1, {}};
    auto const see = [&](double load, placement_bottleneck what) {
      if (load > worst.first) worst = {load, what};
    };
    using kind = placement_bottleneck::kind;
    each_load(
        alike_.classes, crossing_, classed(p),
        [&](std::size_t s, double load) { see(load, {kind::device, p.devices[s]}); },
        [&](std::size_t s, double load) { see(load, {kind::link, p.devices[s - 1], p.devices[s]}); });
    for (std::uint32_t u = 0; u < net_.uplinks.size(); ++u) see(uplink_load(u, p), {kind::uplink, u});
    return worst;
  }

  double latency(ordered_cut const& p) const { return latency_of(alike_.classes, crossing_, classed(p)); }

  /// Returns the simulated time of a step. O(stages · microbatches). With uplinks it takes the simulation of
  /// any schedule, which is about ten times as slow.
  double step(ordered_cut const& p) const {
    if (has_uplinks()) {
      auto const placed = placed_by(p);
      if (made_.ranks.size() != placed.stages.size()) made_ = schedule_of(placed);
      return simulate(made_, simulate_options_of(placed, net_)).makespan;
    }
    stages_.clear();
    for (std::uint32_t s = 0; s < p.devices.size(); ++s) {
      auto const time = time_of(p, s);
      stages_.push_back({time.forward, time.backward, {}, {}});
      if (s == 0) continue;
      auto const bytes = crossing_.at(p.cut[s]);
      stages_[s - 1].activation = delay_of(p.devices[s - 1], p.devices[s], bytes.activation);
      stages_[s].gradient = delay_of(p.devices[s], p.devices[s - 1], bytes.gradient);
    }
    return chain_.makespan(stages_);
  }

  /// Returns a lower bound on the time of a step: a stage works for all microbatches, after one forward pass
  /// and before one backward pass of each stage before it. O(stages).
  double least_step(ordered_cut const& p) const {
    double before = 0, least = 0;
    for (std::size_t s = 0; s < p.devices.size(); ++s) {
      auto const& time = on(p.devices[s]).passes;
      auto const load = time[p.cut[s + 1]] - time[p.cut[s]];
      least = (std::max)(least, options_.microbatches * load + before);
      before += load;
    }
    return least;
  }

  double value(ordered_cut const& p) const {
    switch (options_.goal) {
      case placement_goal::throughput:
        return period(p).first;
      case placement_goal::latency:
        return latency(p);
      case placement_goal::step:
        break;
    }
    return step(p);
  }

  /// Returns whether each stage fits into the memory of its device.
  bool fits(ordered_cut const& p) const {
    for (std::size_t s = 0; s < p.devices.size(); ++s)
      if (needed(p, s) > on(p.devices[s]).memory) return false;
    return true;
  }

  std::uint64_t needed(ordered_cut const& p, std::size_t s) const {
    return memory_.needed(p.cut[s], p.cut[s + 1], p.devices.size() - s - 1);
  }

  device_placement result(ordered_cut const& p, double bound) const {
    auto made = placed_by(p);
    made.bound = bound;
    std::vector<char> is_used(devices());
    for (auto const d : p.devices) is_used[d] = 1;
    for (std::uint32_t d = 0; d < devices(); ++d)
      if (!is_used[d]) made.unused.push_back(d);
    std::tie(made.period, made.bottleneck) = period(p);
    made.latency = latency(p);
    made.step = step(p);
    return made;
  }

 private:
  classed_cut classed(ordered_cut const& p) const {
    classed_cut made{p.cut, {}};
    for (auto const d : p.devices) made.classes.push_back(class_of_[d]);
    return made;
  }

  link_delay delay_of(std::uint32_t from, std::uint32_t to, std::uint64_t bytes) const {
    auto const there = link(from, to);
    return {static_cast<double>(bytes) / there.bandwidth, there.latency};
  }

  static bool has_backward(placement_row const& row) {
    auto const has = [](std::vector<stage_cost> const& cost) {
      return !cost.empty() && cost.back().backward > 0;
    };
    return has(row.units.cost) || std::ranges::any_of(row.kinds, [&](auto const& k) { return has(k.cost); });
  }

  /// Returns the stages alone.
  device_placement placed_by(ordered_cut const& p) const {
    device_placement made{
        .schedule = schedule_, .microbatches = options_.microbatches, .goal = options_.goal};
    for (std::uint32_t s = 0; s < p.devices.size(); ++s) {
      bool const is_last = s + 1 == p.devices.size();
      made.stages.push_back({p.devices[s], p.cut[s], p.cut[s + 1], time_of(p, s), needed(p, s),
                             is_last ? edge_bytes{} : crossing_.at(p.cut[s + 1])});
    }
    return made;
  }

  stage_cost time_of(ordered_cut const& p, std::uint32_t s) const {
    auto const& c = on(p.devices[s]);
    auto const from = p.cut[s], to = p.cut[s + 1];
    auto const forward = (std::max)(0.0, c.forward[to] - c.forward[from]);
    return {.forward = forward,
            .backward = (std::max)(0.0, c.passes[to] - c.passes[from] - forward),
            .input_gradient = 0,
            .weight_gradient = 0,
            .recompute = 0};
  }

  /// Returns the time for which a microbatch occupies an uplink in its busier direction.
  double uplink_load(std::uint32_t u, ordered_cut const& p) const {
    auto const& group = net_.uplinks[u];
    auto const is_inside = [&](std::uint32_t d) {
      return std::ranges::find(group.devices, d) != group.devices.end();
    };
    double out = 0, in = 0;
    for (std::size_t s = 1; s < p.devices.size(); ++s) {
      bool const from = is_inside(p.devices[s - 1]), to = is_inside(p.devices[s]);
      if (from == to) continue;
      auto const bytes = crossing_.at(p.cut[s]);
      (from ? out : in) += static_cast<double>(bytes.activation);
      (from ? in : out) += static_cast<double>(bytes.gradient);
    }
    return (std::max)(out, in) / group.bandwidth;
  }

  placement_row const& row_;
  device_network const& net_;
  placement_options const& options_;
  schedule_family schedule_;
  stage_memory memory_;
  crossing_costs crossing_;
  classified_devices alike_;
  std::vector<std::uint32_t> class_of_;
  mutable cleave::schedule made_ = {};  // for the number of stages that was asked for last
  mutable chain_step chain_;
  mutable std::vector<chain_stage> stages_;
};

}  // namespace cleave::detail
