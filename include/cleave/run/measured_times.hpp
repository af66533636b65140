// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/run/executor.hpp"
#include "cleave/run/rank_program.hpp"
#include "cleave/schedule/schedule.hpp"
#include "cleave/schedule/schedule_times.hpp"
#include "cleave/schedule/simulate/kept_passes.hpp"

namespace cleave {

/// What one rank has run, and when.
struct measured_rank {
  rank_program const& program;
  std::vector<instruction_time> times;  ///< of its instructions, as its executor tells them
};

/// Where the cells of a list begin in it, and after the last its end. O(actions).
inline std::vector<std::size_t> cell_places(std::span<action const> row) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < row.size(); i += std::size_t{1} + row[i].parts) places.push_back(i);
  places.push_back(row.size());
  return places;
}

/// The step that ranks have run, in time, to be drawn beside what `simulate` says of it: in units of so many
/// nanoseconds, each rank from the beginning of its own step. Passes, OFFLOAD, RELOAD and RECOMPUTE take
/// time; all else none, and nothing is said of causes. `ranks` are in order, those of `s` as it was run.
/// O(actions). Precondition: a program and its times for each rank of `s`.
inline schedule_times measured_times(schedule const& s, std::span<measured_rank const> ranks,
                                     double unit = 1) {
  expects(ranks.size() == s.ranks.size(), "measured_times: each rank of the schedule");
  schedule_times made;
  made.most_kept = most_kept_passes(s);
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    auto const& row = s.ranks[r];
    auto const& instructions = ranks[r].program.instructions;
    expects(ranks[r].times.size() == instructions.size(), "measured_times: a time for each instruction");
    auto const cells = cell_places(row);
    auto& spans = made.spans.emplace_back(row.size());
    made.causes.emplace_back(row.size(), no_action);
    double busy = 0, first = std::numeric_limits<double>::infinity(), last = 0;
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      auto const& call = instructions[i].call;
      if (instructions[i].pass == rank_instruction::none || call.cell + std::size_t{1} >= cells.size())
        continue;
      auto const begin = row.begin() + static_cast<std::ptrdiff_t>(cells[call.cell]);
      auto const end = row.begin() + static_cast<std::ptrdiff_t>(cells[call.cell + std::size_t{1}]);
      auto const at = std::find(begin, end, call.of);
      if (at == end) continue;
      time_span const span{static_cast<double>(ranks[r].times[i].begin) / unit,
                           static_cast<double>(ranks[r].times[i].end) / unit};
      spans[static_cast<std::size_t>(at - row.begin())] = span;
      if (is_compute(call.of.kind) || call.of.kind == action_kind::recompute) busy += span.end - span.begin;
      first = std::min(first, span.begin);
      last = std::max(last, span.end);
    }
    made.busy.push_back(busy);
    made.first.push_back(std::min(first, last));
    made.last.push_back(last);
    made.makespan = std::max(made.makespan, last);
  }
  return made;
}

}  // namespace cleave
