// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/place/device_network.hpp"
#include "cleave/place/place.hpp"
#include "cleave/place/placement.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/simulate_options.hpp"
#include "cleave/schedule/model/stage_cost.hpp"

namespace cleave::inline v0_2 {

/// How many microbatches' activations each copy of a stage keeps in training.
enum class kept_microbatches : std::uint8_t {
  /// 1 + n / w, rounded up, for a stage of w copies behind which the stages keep n microbatches in all. All
  /// copies of a stage keep the same number, so that they rarely wait for each other.
  whole_rounds,
  /// c / w, rounded up, where c counts the copies of this stage and of all behind it, as Piper does. Takes
  /// less memory; where widths differ, copies wait, and a step takes longer than the period says.
  fewest
};

/// Options of `place_replicated`. The first three describe devices that are all alike; a network takes their
/// place.
struct replication_options {
  std::uint32_t devices = 1;
  device_spec device = {};                           ///< each of them
  rank_link link = {};                               ///< between any two of them
  std::uint32_t microbatches = 1;                    ///< of a step; the width of each stage divides it
  placement_goal goal = placement_goal::throughput;  ///< throughput or step
  /// Share of the resident bytes of a stage that its copies sum after a step: 0.25 for weights beside their
  /// gradients and the two moments of Adam. 0 for inference.
  double summed = 0;
  std::vector<std::uint32_t> shards = {1};  ///< allowed numbers of devices that share each pass of a stage
  kept_microbatches kept = kept_microbatches::whole_rounds;  ///< what each copy keeps in training
};

/// A stage, and the devices that run it: `width` copies, each on `shards` devices.
struct replicated_stage {
  std::uint32_t begin = 0, end = 0;         ///< its units: from `begin` to before `end`
  std::uint32_t width = 1, shards = 1;      ///< each copy runs every `width`-th microbatch
  stage_cost time = {};                     ///< the times of its passes for one microbatch
  double sum_time = 0;                      ///< of its copies' sums, once a step
  std::uint64_t memory = 0;                 ///< bytes that each of its devices needs
  std::uint32_t kept = 0;                   ///< microbatches that each copy keeps; 0: `whole_rounds`
  edge_bytes sent = {};                     ///< what moves between it and the next stage for one microbatch
  std::vector<std::uint32_t> devices = {};  ///< of a network: the position of each copy's device

  bool operator==(replicated_stage const&) const = default;
};

/// How a slice of a row would run as a stage: what `place_replicated` tells the cost function beside the
/// slice.
struct stage_form {
  std::uint32_t width = 1;   ///< copies (degree of data parallelism)
  std::uint32_t shards = 1;  ///< devices of each copy (degree of tensor parallelism)
  std::uint32_t kept = 1;    ///< microbatches whose activations each copy keeps
};

/// The times and the memory of a slice that runs as a stage.
struct slice_cost {
  stage_cost time = {};      ///< of its passes for one microbatch
  double sum_time = 0;       ///< of the sums of its copies, once a step
  std::uint64_t memory = 0;  ///< bytes on each of its devices
};

/// Stages with copies, and the times of a microbatch and of a step.
struct replicated_placement {
  std::vector<replicated_stage> stages = {};  ///< in the order in which data flows
  std::uint32_t unused = 0;                   ///< devices without a stage
  double period = 0;  ///< time between two microbatches once the pipeline is full, with a share of the sums
  double step = 0;    ///< of all microbatches, simulated, with the sums
  placement_goal goal = placement_goal::throughput;
  std::uint32_t microbatches = 1;
  double bound = 0;  ///< no way to slice the row and to choose widths has a smaller value

  double value() const { return goal == placement_goal::step ? step : period; }
  bool is_optimal() const { return value() <= bound; }
  /// Returns the number of chains: the least common multiple of the widths. Chain c runs the microbatches
  /// c, c + chains, …, each stage on its copy number c mod width.
  std::uint32_t chains() const {
    std::uint32_t n = 1;
    for (auto const& s : stages) n = std::lcm(n, s.width);
    return n;
  }
  /// Returns the first rank of a stage: its copy r is on the rank r behind it. A copy is one rank, whatever
  /// the number of its devices.
  std::uint32_t first_rank(std::size_t stage) const {
    std::uint32_t rank = 0;
    for (std::size_t s = 0; s < stage; ++s) rank += stages[s].width;
    return rank;
  }
};

/// Returns the ranks of the stages of all chains: stage s of chain c is stage c · stages + s.
inline stage_placement stage_placement_of(replicated_placement const& p) {
  auto const n = static_cast<std::uint32_t>(p.stages.size());
  stage_placement made{p.first_rank(n), {}, {}};
  for (std::uint32_t c = 0; c < p.chains(); ++c) {
    for (std::uint32_t s = 0; s < n; ++s)
      made.rank_of.push_back(rank_id{p.first_rank(s) + c % p.stages[s].width});
    for (auto const e : chain_edges(n, c * n)) made.edges.push_back(e);
  }
  return made;
}

/// Returns, for a stage of a placement, one stage of the schedule for each copy. Their gradients are to be
/// summed after a step. All other stages of the schedule that run there share the parameters of one of them.
inline std::vector<stage_id> copies_of(replicated_placement const& p, std::uint32_t stage) {
  std::vector<stage_id> made;
  for (std::uint32_t r = 0; r < p.stages[stage].width; ++r)
    made.push_back(stage_id{r * static_cast<std::uint32_t>(p.stages.size()) + stage});
  return made;
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns whether some stage has backward passes.
inline bool is_trained(std::vector<replicated_stage> const& stages) {
  return std::ranges::any_of(stages, [](auto const& s) { return s.time.backward > 0; });
}

/// Returns how many microbatches each copy of each stage is to keep.
inline std::vector<std::uint32_t> kept_by(kept_microbatches rule, std::vector<replicated_stage> const& stages,
                                          std::uint32_t microbatches) {
  std::vector<std::uint32_t> kept(stages.size(), 1);
  if (!is_trained(stages)) return kept;
  std::uint32_t in_flight = 0;
  for (auto s = stages.size(); s-- > 0;) {
    auto const width = stages[s].width;
    kept[s] = 1 + (in_flight + width - 1) / width;
    in_flight = rule == kept_microbatches::whole_rounds ? kept[s] * width : in_flight + width;
    kept[s] = (std::min)(kept[s], microbatches / width);
  }
  return kept;
}

/// Returns how many microbatches each copy of each stage of a placement keeps.
inline std::vector<std::uint32_t> kept_of(replicated_placement const& p) {
  auto kept = kept_by(kept_microbatches::whole_rounds, p.stages, p.microbatches);
  for (std::size_t s = 0; s < kept.size(); ++s)
    if (p.stages[s].kept > 0) kept[s] = p.stages[s].kept;
  return kept;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the order in which the copies run: 1F1B, where each copy takes turns with the others of its stage,
/// or forward passes alone. Of each chain it has the microbatches divided by the number of chains.
inline schedule schedule_of(replicated_placement const& p) {
  auto const chains = p.chains(), n = static_cast<std::uint32_t>(p.stages.size());
  auto const kept = detail::kept_of(p);
  bool const is_trained = detail::is_trained(p.stages);
  schedule made{stage_placement_of(p), p.microbatches / chains, {}};
  for (std::uint32_t s = 0; s < n; ++s)
    for (std::uint32_t copy = 0; copy < p.stages[s].width; ++copy) {
      auto const own = p.microbatches / p.stages[s].width;
      auto& row = made.ranks.emplace_back();
      auto const add = [&](action_kind what, std::uint32_t number) {
        auto const m = number * p.stages[s].width + copy;
        row.push_back(
            {.kind = what, .stage = stage_id{m % chains * n + s}, .microbatch = microbatch_id{m / chains}});
      };
      for (std::uint32_t i = 0; i < own + kept[s]; ++i) {
        if (is_trained && i >= kept[s]) add(action_kind::backward, i - kept[s]);
        if (i < own) add(action_kind::forward, i);
      }
    }
  return made;
}

/// Returns the costs, the link and the bytes of the schedule of a placement, for `simulate`. The sums of
/// copies are not among them.
inline simulate_options simulate_options_of(replicated_placement const& p, rank_link const& link) {
  simulate_options o{.links = {link}};
  for (std::uint32_t c = 0; c < p.chains(); ++c)
    for (std::size_t s = 0; s < p.stages.size(); ++s) {
      o.costs.push_back(p.stages[s].time);
      if (s + 1 < p.stages.size()) o.bytes.push_back(p.stages[s].sent);
    }
  return o;
}

/// Does the same for the links between the devices of the network that it was placed on.
inline simulate_options simulate_options_of(replicated_placement const& p, device_network const& net) {
  auto o = simulate_options_of(p, rank_link{});
  o.links = net.links;
  if (net.links.size() <= 1) return o;
  o.links.clear();
  std::vector<std::uint32_t> device_of;  // of each rank
  for (auto const& s : p.stages) device_of.insert(device_of.end(), s.devices.begin(), s.devices.end());
  for (auto const from : device_of)
    for (auto const to : device_of) o.links.push_back(from == to ? rank_link{} : net.link(from, to));
  return o;
}

}  // namespace cleave
