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

namespace cleave {

/// How long the actions of a stage take, in any one unit: for one microbatch, or once.
struct stage_cost {
  double forward = 1, backward = 2, input_gradient = 1, weight_gradient = 1;
  double recompute = 1;
  double unshard = 0, reduce_gradient = 0, offload = 0, reload = 0;  ///< beside the passes of the rank

  /// Messages take the time of their link, all else takes none.
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
      default:
        return 0;
    }
  }
  bool operator==(stage_cost const&) const = default;
};

}  // namespace cleave

namespace cleave::detail {

/// A time that is no number, negative or beyond `longest_cost`.
struct stage_cost_fault {
  static constexpr char subject[] = "costs: ";
  stage_id stage;
  action_kind kind;

  bool operator==(stage_cost_fault const&) const = default;
};

/// Sums of so many actions stay finite.
inline constexpr double longest_cost = 1e100;

inline std::string describe(stage_cost_fault const& f) {
  return std::string(name_of(f.kind)) + " of stage " + std::to_string(index(f.stage)) +
         " must take a time from 0 to 1e100";
}

using stage_cost_error = fault_error<stage_cost_fault>;

/// The first cost that no action can have, or nothing.
constexpr std::optional<stage_cost_fault> find_stage_cost_fault(std::span<stage_cost const> costs) {
  using enum action_kind;
  for (std::size_t s = 0; s < costs.size(); ++s)
    for (auto const kind : {forward, backward, input_gradient, weight_gradient, recompute, unshard,
                            reduce_gradient, offload, reload})
      if (auto const c = costs[s].of(kind); !(c >= 0 && c <= longest_cost))
        return stage_cost_fault{stage_id{static_cast<std::uint32_t>(s)}, kind};
  return std::nullopt;
}

}  // namespace cleave::detail

namespace cleave {

/// What the passes of a stage keep for one microbatch, in bytes. Without any, one each, so that they are
/// counted.
struct pass_bytes {
  std::uint64_t saved = 1;              ///< what F keeps until B or I
  std::uint64_t saved_for_weights = 1;  ///< what I keeps until W
  std::uint64_t input =
      0;  ///< what stays of a saved activations that is let go, until RECOMPUTE makes it again

  bool operator==(pass_bytes const&) const = default;
};

/// What moves along an edge for one microbatch, in bytes.
struct edge_bytes {
  std::uint64_t activation = 0, gradient = 0;

  bool operator==(edge_bytes const&) const = default;
};

/// The bytes of a schedule: of each stage and of each edge of its placement; one for all; none: 1 of a pass,
/// 0 of an edge.
struct schedule_bytes {
  std::vector<pass_bytes> stages = {};
  std::vector<edge_bytes> edges = {};

  bool operator==(schedule_bytes const&) const = default;

  pass_bytes of_stage(std::uint32_t s) const { return detail::one_or_each(stages).of(s); }
  edge_bytes of_edge(std::uint32_t e) const { return detail::one_or_each(edges).of(e); }
};

}  // namespace cleave

namespace cleave::detail {

/// Why bytes do not go with a schedule.
struct schedule_bytes_fault {
  static constexpr char subject[] = "bytes: ";
  enum class kind : std::uint8_t {
    stage_count,  ///< `got` numbers for `allowed` stages
    edge_count,   ///< `got` numbers for `allowed` edges
    too_many,     ///< `got` bytes, where so many actions allow `allowed`
  };
  kind what;
  std::uint64_t got = 0, allowed = 0;

  bool operator==(schedule_bytes_fault const&) const = default;
};

/// What and how to mend it.
inline std::string describe(schedule_bytes_fault const& f) {
  auto const got = std::to_string(f.got), allowed = std::to_string(f.allowed);
  switch (f.what) {
    case schedule_bytes_fault::kind::stage_count:
      return got + " numbers for " + allowed + " stages; give each stage one, all together one, or none";
    case schedule_bytes_fault::kind::edge_count:
      return got + " numbers for " + allowed + " edges; give each edge one, all together one, or none";
    case schedule_bytes_fault::kind::too_many:
      return got + " bytes for one microbatch; with so many actions, give " + allowed + " at most";
  }
  return {};
}

using schedule_bytes_error = fault_error<schedule_bytes_fault>;

/// Why bytes do not go with a placement and so many actions, or nothing: what they keep together stays below
/// 2^62. O(stages + edges).
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
