// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/one_or_each.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/simulate_options.hpp"
#include "cleave/schedule/model/stage_cost.hpp"

namespace cleave::inline v0_2 {

/// The expected durations of passes and messages, in any one unit. The order of messages is optimised for
/// them. It is valid and free of deadlocks for any actual durations.
struct nominal_times {
  /// One per stage, or one for all stages. If empty, F, I and W take 1 and B takes 2.
  std::vector<stage_cost> costs = {};
  double base_latency = 0.125;  ///< of each message between two ranks
  /// Added to that: one per pair of ranks, that from r to q at index r · ranks + q, or one for all.
  std::vector<double> latencies = {};

  bool operator==(nominal_times const&) const = default;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Invalid times.
struct nominal_time_fault {
  static constexpr char subject[] = "times: ";
  enum class kind : std::uint8_t {
    cost_count,  ///< `at` costs were given for `allowed` stages
    cost,        ///< a cost of stage `at` is out of range
    base_latency,
    latency_count,  ///< `at` latencies were given for `allowed` pairs of ranks
    latency,        ///< latency `at` is out of range
  };
  kind what;
  std::uint64_t at = 0, allowed = 0;

  bool operator==(nominal_time_fault const&) const = default;
};

/// Returns a sentence that names the fault and a remedy.
inline std::string describe(nominal_time_fault const& f) {
  using enum nominal_time_fault::kind;
  auto const at = std::to_string(f.at);
  switch (f.what) {
    case cost_count:
      return at + " costs for " + std::to_string(f.allowed) +
             " stages; give one per stage, one for all, or none";
    case cost:
      return "each cost of stage " + at + " must be a time from 0 to 1e100";
    case base_latency:
      return "base_latency must be a time from 0 to 1e100";
    case latency_count:
      return at + " latencies for " + std::to_string(f.allowed) +
             " pairs of ranks; give one per pair, one for all, or none";
    case latency:
      return "latency #" + at + " must be a time from 0 to 1e100";
  }
  return {};
}

using nominal_time_error = fault_error<nominal_time_fault>;

/// Returns the first fault of the times for a placement, or nothing. O(costs + latencies).
inline std::optional<nominal_time_fault> find_nominal_time_fault(nominal_times const& t,
                                                                 stage_placement const& p) {
  using enum nominal_time_fault::kind;
  auto const stages = p.stages();
  auto const pairs = std::uint64_t{p.ranks} * p.ranks;
  if (!one_or_each(t.costs).covers(stages)) return nominal_time_fault{cost_count, t.costs.size(), stages};
  if (auto const f = find_stage_cost_fault(t.costs)) return nominal_time_fault{cost, index(f->stage)};
  if (!(t.base_latency >= 0 && t.base_latency <= longest_cost)) return nominal_time_fault{base_latency};
  if (!one_or_each(t.latencies).covers(pairs))
    return nominal_time_fault{latency_count, t.latencies.size(), pairs};
  for (std::size_t i = 0; i < t.latencies.size(); ++i)
    if (!(t.latencies[i] >= 0 && t.latencies[i] <= longest_cost)) return nominal_time_fault{latency, i};
  return std::nullopt;
}

/// Checks the times for a placement. \throws nominal_time_error
inline void require_nominal_times(nominal_times const& t, stage_placement const& p) {
  if (auto const f = find_nominal_time_fault(t, p)) throw nominal_time_error(*f);
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the times that a simulation has if no message waits for another one on its link. For `lower`, so
/// that the order of messages suits links of unlike speed. Precondition: the options are valid for `p`.
/// O(ranks² + edges).
inline nominal_times nominal_times_of(simulate_options const& o, stage_placement const& p) {
  nominal_times made{.costs = o.costs, .base_latency = o.base_latency};
  if (o.links.empty()) return made;
  for (std::size_t i = 0; i < std::size_t{p.ranks} * p.ranks; ++i)
    made.latencies.push_back(detail::one_or_each(o.links).of(i).latency);
  std::vector<double> moving(made.latencies.size());
  auto const move = [&](rank_id from, rank_id to, std::uint64_t bytes) {
    auto const pair = std::size_t{index(from)} * p.ranks + index(to);
    auto const time = static_cast<double>(bytes) / detail::one_or_each(o.links).of(pair).bandwidth;
    moving[pair] = (std::max)(moving[pair], time);
  };
  for (std::size_t e = 0; e < p.edges.size(); ++e) {
    auto const from = p.rank_of[index(p.edges[e].from)], to = p.rank_of[index(p.edges[e].to)];
    auto const bytes = detail::one_or_each(o.bytes).of(e);
    move(from, to, bytes.activation);
    move(to, from, bytes.gradient);
  }
  for (std::size_t i = 0; i < moving.size(); ++i) made.latencies[i] += moving[i];
  return made;
}

}  // namespace cleave
