// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/one_or_each.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/placement.hpp"

namespace cleave::inline v0_2 {

/// The duration of each action of a stage, in any one unit: per microbatch, or once for actions without one.
struct stage_cost {
  double forward = 1, backward = 2, input_gradient = 1, weight_gradient = 1;
  double recompute = 1;
  /// Durations of the actions that run concurrently with the passes of the rank.
  double unshard = 0, reduce_gradient = 0, offload = 0, reload = 0;
  /// Duration of an OVERLAP_F_B of a forward pass of this stage and a backward pass B of any stage. If empty,
  /// the durations of both passes and `simulate_options::compounds` determine it.
  std::optional<double> overlapped = {};

  /// Returns the duration of an action of kind `k`, and 0 for messages, idle steps, waits and whatever has no
  /// duration of its own. The time of a message is that of its link.
  constexpr double of(action_kind k) const {
    switch (k) {
      case action_kind::forward:
        return forward;
      case action_kind::backward:
        return backward;
      case action_kind::input_gradient:
        return input_gradient;
      case action_kind::weight_gradient:
        return weight_gradient;
      case action_kind::recompute:
        return recompute;
      case action_kind::unshard:
        return unshard;
      case action_kind::reduce_gradient:
        return reduce_gradient;
      case action_kind::offload:
        return offload;
      case action_kind::reload:
        return reload;
      case action_kind::overlap:
        return overlapped.value_or(0);
      default:
        return 0;
    }
  }
  bool operator==(stage_cost const&) const = default;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// A cost that is NaN, negative or above `longest_cost`.
struct stage_cost_fault {
  static constexpr char subject[] = "costs: ";
  stage_id stage;
  action_kind kind;

  bool operator==(stage_cost_fault const&) const = default;
};

/// The largest allowed cost. Sums over all actions of a schedule stay finite.
inline constexpr double longest_cost = 1e100;

inline std::string describe(stage_cost_fault const& f) {
  return std::string(name_of(f.kind)) + " of stage " + std::to_string(index(f.stage)) +
         " must take a time from 0 to 1e100";
}

using stage_cost_error = fault_error<stage_cost_fault>;

/// Returns the durations of a stage on a rank of some speed.
constexpr stage_cost at_speed(stage_cost c, double speed) {
  for (auto* const duration : {&c.forward, &c.backward, &c.input_gradient, &c.weight_gradient, &c.recompute,
                               &c.unshard, &c.reduce_gradient, &c.offload, &c.reload})
    *duration /= speed;
  if (c.overlapped) *c.overlapped /= speed;
  return c;
}

/// Returns the first cost out of range, or nothing.
constexpr std::optional<stage_cost_fault> find_stage_cost_fault(std::span<stage_cost const> costs) {
  using enum action_kind;
  for (std::size_t s = 0; s < costs.size(); ++s)
    for (auto const kind : {forward, backward, input_gradient, weight_gradient, recompute, unshard,
                            reduce_gradient, offload, reload, overlap})
      if (auto const c = costs[s].of(kind); !(c >= 0 && c <= longest_cost))
        return stage_cost_fault{stage_id{static_cast<std::uint32_t>(s)}, kind};
  return std::nullopt;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// The bytes that the passes of a stage keep for one microbatch. With the defaults of 1, byte counts are
/// counts of passes.
struct pass_bytes {
  std::uint64_t saved = 1;              ///< saved activations, kept from F to B or I
  std::uint64_t saved_for_weights = 1;  ///< kept from I to W
  /// The stage's input, kept instead of `saved` from F to RECOMPUTE.
  std::uint64_t input = 0;

  bool operator==(pass_bytes const&) const = default;
};

/// The bytes that move along an edge for one microbatch.
struct edge_bytes {
  std::uint64_t activation = 0, gradient = 0;

  bool operator==(edge_bytes const&) const = default;
};

/// The byte counts of a schedule. Each list has one entry per stage or per edge of the placement, or one for
/// all. If empty, a pass keeps 1 byte and an edge moves 0.
struct schedule_bytes {
  std::vector<pass_bytes> stages = {};
  std::vector<edge_bytes> edges = {};

  bool operator==(schedule_bytes const&) const = default;

  pass_bytes of_stage(std::uint32_t s) const { return detail::one_or_each(stages).of(s); }
  edge_bytes of_edge(std::uint32_t e) const { return detail::one_or_each(edges).of(e); }
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Byte counts that do not fit a schedule.
struct schedule_bytes_fault {
  static constexpr char subject[] = "bytes: ";
  enum class kind : std::uint8_t {
    stage_count,  ///< `got` entries were given for `allowed` stages
    edge_count,   ///< `got` entries were given for `allowed` edges
    too_many,     ///< `got` bytes exceed `allowed`, the maximum for this number of actions
  };
  kind what;
  std::uint64_t got = 0, allowed = 0;

  bool operator==(schedule_bytes_fault const&) const = default;
};

/// Returns a sentence that names the fault and a remedy.
inline std::string describe(schedule_bytes_fault const& f) {
  auto const got = std::to_string(f.got), allowed = std::to_string(f.allowed);
  switch (f.what) {
    case schedule_bytes_fault::kind::stage_count:
      return got + " byte counts for " + allowed + " stages; give one per stage, one for all, or none";
    case schedule_bytes_fault::kind::edge_count:
      return got + " byte counts for " + allowed + " edges; give one per edge, one for all, or none";
    case schedule_bytes_fault::kind::too_many:
      return got + " bytes for one microbatch; for this number of actions, give " + allowed + " at most";
  }
  return {};
}

using schedule_bytes_error = fault_error<schedule_bytes_fault>;

/// Returns the reason why byte counts do not fit a placement and a number of actions, or nothing. The limits
/// keep all sums below 2^62. O(stages + edges).
inline std::optional<schedule_bytes_fault> find_schedule_bytes_fault(schedule_bytes const& b,
                                                                     stage_placement const& p,
                                                                     std::uint64_t actions) {
  using enum schedule_bytes_fault::kind;
  if (!one_or_each(b.stages).covers(p.stages()))
    return schedule_bytes_fault{stage_count, b.stages.size(), p.stages()};
  if (!one_or_each(b.edges).covers(p.edges.size()))
    return schedule_bytes_fault{edge_count, b.edges.size(), p.edges.size()};
  std::uint64_t most = 0;
  for (auto const& s : b.stages) most = (std::max)({most, s.saved, s.saved_for_weights, s.input});
  for (auto const& e : b.edges) most = (std::max)({most, e.activation, e.gradient});
  std::uint64_t const allowed = (std::uint64_t{1} << 62) / std::max<std::uint64_t>(actions, 1);
  if (most > allowed) return schedule_bytes_fault{too_many, most, allowed};
  return std::nullopt;
}

}  // namespace cleave::detail
