// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/core/step_index.hpp"
#include "cleave/run/executor/detail/executor.hpp"
#include "cleave/run/program/rank_program.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_times.hpp"
#include "cleave/schedule/model/simulate_options.hpp"

namespace cleave::inline v0_2 {

/// The program of one rank and its measured times.
struct measured_rank {
  rank_program program;
  std::vector<detail::instruction_time> times;  ///< of each instruction, from `executor::times`
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the index of each cell of a list, followed by the size of the list. A cell is an action with its
/// parts. O(actions).
inline std::vector<std::size_t> cell_places(std::span<action const> row) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < row.size(); i += std::size_t{1} + row[i].parts) places.push_back(i);
  places.push_back(row.size());
  return places;
}

/// Aligns ranks whose clocks have different origins. Shifts each rank by the least time such that no pass
/// begins before its inputs have been made. O(ranks * edges * microbatches).
inline void align_ranks(schedule const& s, schedule_times& t) {
  struct pass_span {
    std::size_t rank = 0;
    time_span when;
  };
  auto const numbers = step_index_of(s);
  std::vector<pass_span> forward(numbers.passes()), gradient(forward.size());
  for (std::size_t r = 0; r < s.ranks.size(); ++r)
    for (std::size_t i = 0; i < s.ranks[r].size(); ++i) {
      auto const& a = s.ranks[r][i];
      if (!is_compute(a.kind) || a.kind == action_kind::weight_gradient) continue;
      auto& passes = a.kind == action_kind::forward ? forward : gradient;
      passes[numbers.pass(a.stage, a.microbatch)] = {r, t.spans[r][i]};
    }
  std::vector<double> later(s.ranks.size());
  auto const follow = [&](pass_span const& made, pass_span const& read) {
    later[read.rank] = (std::max)(later[read.rank], later[made.rank] + made.when.end - read.when.begin);
  };
  for (std::size_t round = 0; round < s.ranks.size(); ++round)
    for (auto const& e : s.place.edges)
      for (std::uint32_t m = 0; m < s.microbatches; ++m) {
        auto const from = numbers.pass(e.from, microbatch_id{m}), to = numbers.pass(e.to, microbatch_id{m});
        if (forward[from].rank == forward[to].rank) continue;
        follow(forward[from], forward[to]);
        if (gradient[to].when.end > 0) follow(gradient[to], gradient[from]);
      }
  t.makespan = 0;
  for (std::size_t r = 0; r < s.ranks.size(); ++r) {
    for (auto& span : t.spans[r])
      if (span.end > span.begin) span.begin += later[r], span.end += later[r];
    t.first[r] += later[r];
    t.last[r] += later[r];
    t.makespan = (std::max)(t.makespan, t.last[r]);
  }
}
}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Converts the measured times of a step into the form that `simulate` returns, to compare the two. Passes,
/// OFFLOAD, RELOAD and RECOMPUTE take time; all other actions take none. Causes are not determined. The
/// ranks' clocks are aligned so that no pass begins before its inputs are made. O(actions).
///
/// \param s      the schedule that was run
/// \param ranks  program and times of each rank of `s`, in order
/// \param unit   length of a time unit in nanoseconds
inline schedule_times measured_times(schedule const& s, std::span<measured_rank const> ranks,
                                     double unit = 1) {
  expects(ranks.size() == s.ranks.size(), "measured_times: one entry per rank of the schedule");
  schedule_times made;
  made.most_kept = detail::most_kept_passes(s);
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    auto const& row = s.ranks[r];
    auto const& instructions = ranks[r].program.instructions;
    expects(ranks[r].times.size() == instructions.size(), "measured_times: a time for each instruction");
    auto const cells = detail::cell_places(row);
    auto& spans = made.spans.emplace_back(row.size());
    made.causes.emplace_back(row.size(), detail::no_action);
    double busy = 0, first = std::numeric_limits<double>::infinity(), last = 0, counted = 0;
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      auto const& call = instructions[i].call;
      if (instructions[i].pass == detail::rank_instruction::none ||
          call.cell + std::size_t{1} >= cells.size())
        continue;
      auto const begin = row.begin() + static_cast<std::ptrdiff_t>(cells[call.cell]);
      auto const end = row.begin() + static_cast<std::ptrdiff_t>(cells[call.cell + std::size_t{1}]);
      auto const at = std::find(begin, end, call.of);
      if (at == end) continue;
      time_span const span{static_cast<double>(ranks[r].times[i].begin) / unit,
                           static_cast<double>(ranks[r].times[i].end) / unit};
      spans[static_cast<std::size_t>(at - row.begin())] = span;
      if (is_compute(call.of.kind) || call.of.kind == action_kind::recompute) {
        busy += (std::max)(0., span.end - (std::max)(span.begin, counted));  // parts that run as one overlap
        counted = (std::max)(counted, span.end);
      }
      first = (std::min)(first, span.begin);
      last = (std::max)(last, span.end);
    }
    made.busy.push_back(busy);
    made.first.push_back((std::min)(first, last));
    made.last.push_back(last);
  }
  detail::align_ranks(s, made);
  return made;
}

}  // namespace cleave
