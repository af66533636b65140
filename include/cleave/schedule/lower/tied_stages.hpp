// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/tie.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/stage_cost.hpp"

namespace cleave {

/// Stages that hold copies of the same parameters, whose gradients are summed at the end of a step.
struct tied_stages {
  std::vector<stage_id> stages;  ///< ascending, two or more
  double time = 0;               ///< that the sum takes, in the unit of costs

  bool operator==(tied_stages const&) const = default;
};

/// One of `tied_stages` for each set of stages that hold a tie, in the order in which the sets come; `time`
/// remains to be said. What only one stage holds needs no sum. O(members log members).
inline std::vector<tied_stages> tied_stages_of(std::span<tie const> ties) {
  std::vector<tied_stages> sets;
  for (tie const& t : ties) {
    std::vector<stage_id> stages;
    for (auto const& m : t.members)
      if (m.stage != detail::no_stage) stages.push_back(m.stage);
    std::ranges::sort(stages);
    stages.erase(std::ranges::unique(stages).begin(), stages.end());
    if (stages.size() > 1) sets.push_back({std::move(stages)});
  }
  std::vector<std::size_t> order(sets.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  auto const of = [&](std::size_t i) -> std::vector<stage_id> const& { return sets[i].stages; };
  std::ranges::sort(order,
                    [&](std::size_t a, std::size_t b) { return of(a) != of(b) ? of(a) < of(b) : a < b; });
  order.erase(std::ranges::unique(order, {}, of).begin(), order.end());
  std::ranges::sort(order);
  std::vector<tied_stages> different;
  for (auto const i : order) different.push_back(std::move(sets[i]));
  return different;
}

}  // namespace cleave

namespace cleave::detail {

/// Tied stages whose gradients cannot be summed.
struct tied_stages_fault {
  enum class kind : std::uint8_t {
    too_few,        ///< one stage, or none
    not_ascending,  ///< `stage` is not greater than the one before it
    unknown_stage,  ///< `stage` is none of the schedule
    no_gradient,    ///< `stage` never does B or W
    time,           ///< is no time
  };
  kind what;
  std::size_t tie = 0;  ///< which
  stage_id stage{0};

  bool operator==(tied_stages_fault const&) const = default;
};

/// What, where and how to mend it.
inline std::string describe(tied_stages_fault const& f) {
  using enum tied_stages_fault::kind;
  auto const tie = "tie #" + std::to_string(f.tie), stage = "stage " + std::to_string(index(f.stage));
  switch (f.what) {
    case too_few:
      return tie + " has fewer than two stages; leave it out";
    case not_ascending:
      return tie + " names " + stage + " after one that is not smaller; name each once, ascending";
    case unknown_stage:
      return tie + " names " + stage + ", which does not exist";
    case no_gradient:
      return tie + " names " + stage + ", which makes no gradients: it does neither B nor W";
    case time:
      return tie + " must take a time from 0 to 1e100";
  }
  return {};
}

class tied_stages_error : public witness_error<tied_stages_fault> {
 public:
  explicit tied_stages_error(tied_stages_fault f) : witness_error("ties: " + describe(f), f) {}
};

/// The first tie whose gradients cannot be summed, or nothing. O(actions + stages of ties).
inline std::optional<tied_stages_fault> find_tied_stages_fault(schedule const& s,
                                                               std::span<tied_stages const> ties) {
  using enum tied_stages_fault::kind;
  std::vector<char> has_gradient(s.place.stages());
  for (auto const& row : s.ranks)
    each_action(row, [&](action const& a) {
      if ((a.kind == action_kind::backward || a.kind == action_kind::weight_gradient) &&
          index(a.stage) < has_gradient.size())
        has_gradient[index(a.stage)] = 1;
    });
  for (std::size_t t = 0; t < ties.size(); ++t) {
    auto const& stages = ties[t].stages;
    if (stages.size() < 2) return tied_stages_fault{too_few, t};
    for (std::size_t i = 0; i < stages.size(); ++i) {
      if (i > 0 && stages[i] <= stages[i - 1]) return tied_stages_fault{not_ascending, t, stages[i]};
      if (index(stages[i]) >= has_gradient.size()) return tied_stages_fault{unknown_stage, t, stages[i]};
      if (!has_gradient[index(stages[i])]) return tied_stages_fault{no_gradient, t, stages[i]};
    }
    if (!(ties[t].time >= 0 && ties[t].time <= longest_cost)) return tied_stages_fault{time, t, stages[0]};
  }
  return std::nullopt;
}

}  // namespace cleave::detail
