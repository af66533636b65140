// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/place/device_network.hpp"
#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_names.hpp"
#include "cleave/schedule/model/simulate_options.hpp"
#include "cleave/schedule/model/stage_cost.hpp"

namespace cleave::inline v0_2 {

/// The quantity that a placement minimizes.
enum class placement_goal : std::uint8_t {
  throughput,  ///< the period: the time between two microbatches once the pipeline is full
  latency,     ///< the time of one forward pass through all stages
  step,        ///< the simulated time of a step of a schedule
};

/// Options of `place`.
struct placement_options {
  placement_goal goal = placement_goal::throughput;
  std::uint32_t microbatches = 1;  ///< of a step; with the schedule, they say what stages keep in memory
  /// GPipe, 1F1B or ForwardOnly. If empty: 1F1B for rows with backward passes, ForwardOnly for others.
  std::optional<schedule_family> schedule = {};
  std::uint64_t effort = 30'000'000;  ///< elementary steps of the search, of some nanoseconds each
  std::uint64_t seed = 1;
};

/// A stage on its device.
struct device_stage {
  std::uint32_t device = 0;          ///< its position in the network
  std::uint32_t begin = 0, end = 0;  ///< its units: from `begin` to before `end`
  stage_cost time = {};              ///< the times of its passes on this device
  std::uint64_t memory = 0;          ///< bytes that it needs there
  edge_bytes sent = {};              ///< what moves between it and the next stage for one microbatch

  bool operator==(device_stage const&) const = default;
};

/// The device, link or uplink that limits the throughput of a placement.
struct placement_bottleneck {
  enum class kind : std::uint8_t { device, link, uplink };
  kind what = kind::device;
  std::uint32_t from = 0;  ///< the device, the sender, or the position of the uplink
  std::uint32_t to = 0;    ///< the receiver at a link

  bool operator==(placement_bottleneck const&) const = default;
};

/// Stages on devices, and the times of a microbatch and of a step there.
struct device_placement {
  std::vector<device_stage> stages = {};   ///< in the order in which data flows
  std::vector<std::uint32_t> unused = {};  ///< devices without a stage, ascending
  double period = 0;                       ///< the largest load of a device, a link or an uplink
  placement_bottleneck bottleneck = {};    ///< which one that is
  double latency = 0;                      ///< of one forward pass
  double step = 0;                         ///< of all microbatches in the schedule, simulated
  schedule_family schedule = schedule_family::forward_only;  ///< of the step
  std::uint32_t microbatches = 1;                            ///< of the step
  placement_goal goal = placement_goal::throughput;
  double bound = 0;  ///< no way to slice the row and to choose devices has a smaller value

  /// Returns the quantity that the goal minimizes.
  double value() const {
    return goal == placement_goal::throughput ? period : goal == placement_goal::latency ? latency : step;
  }
  bool is_optimal() const { return value() <= bound; }
  /// Returns an upper bound on the distance from the optimum, as a fraction of the bound: 0.03 is 3 %.
  double gap() const {
    if (is_optimal()) return 0;
    return bound > 0 ? value() / bound - 1 : std::numeric_limits<double>::infinity();
  }
};

/// Returns what limits the throughput in words: `device a`, `link from a to b` or `uplink of host`.
inline std::string bottleneck_text(placement_bottleneck const& b, device_network const& net) {
  using enum placement_bottleneck::kind;
  if (b.what == uplink) return "uplink of " + printable(net.uplinks[b.from].name, 40);
  if (b.what == device) return "device " + device_name(net, b.from);
  return "link from " + device_name(net, b.from) + " to " + device_name(net, b.to);
}

/// Returns the order in which the stages of a placement run, one rank for each stage.
inline cleave::schedule schedule_of(device_placement const& p) {
  return make_schedule(p.schedule, {.ranks = static_cast<std::uint32_t>(p.stages.size()),
                                    .stages_per_rank = 1,
                                    .microbatches = p.microbatches});
}

/// Returns the costs, links, uplinks and bytes of the stages of a placement, for `simulate`.
inline simulate_options simulate_options_of(device_placement const& p, device_network const& net) {
  simulate_options o;
  for (auto const& from : p.stages) {
    o.costs.push_back(from.time);
    for (auto const& to : p.stages)
      o.links.push_back(&from == &to ? rank_link{} : net.link(from.device, to.device));
    if (o.costs.size() < p.stages.size()) o.bytes.push_back(from.sent);
  }
  for (auto const& group : net.uplinks) {
    rank_uplink made{.bandwidth = group.bandwidth};
    for (std::uint32_t r = 0; r < p.stages.size(); ++r)
      if (std::ranges::find(group.devices, p.stages[r].device) != group.devices.end())
        made.ranks.push_back(rank_id{r});
    o.uplinks.push_back(std::move(made));
  }
  return o;
}

/// The saving by a better device or link.
struct placement_gain {
  std::string what = {};  ///< as in `10 % more bandwidth from 'a' to 'b'`
  double value = 0;       ///< the value of the goal with the change
  double saved = 0;       ///< share of the value without it: 0.05 is 5 %
};

/// Thrown if a unit of a row needs more memory than any device has.
class unit_too_large_error : public infeasible_error {
 public:
  unit_too_large_error(std::string const& message, std::size_t which)
      : infeasible_error(message), unit(which) {}
  std::size_t unit;
};

/// A stage to be timed: its device and its units.
struct stage_on_device {
  std::uint32_t device = 0, begin = 0, end = 0;
};

}  // namespace cleave
