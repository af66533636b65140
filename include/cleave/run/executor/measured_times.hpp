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

namespace cleave {

/// What one rank has run, and when.
struct measured_rank {
  rank_program const& program;
  std::vector<detail::instruction_time> times;  ///< of its instructions, as its executor tells them
};

}  // namespace cleave

namespace cleave::detail {

/// Where the cells of a list begin in it, and after the last its end. O(actions).
inline std::vector<std::size_t> cell_places(std::span<action const> row) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < row.size(); i += std::size_t{1} + row[i].parts) places.push_back(i);
  places.push_back(row.size());
  return places;
}

/// Ranks that count from moments of their own, in one time: each begins as early as lets no pass begin before
/// what it reads has been made. O(ranks * edges * microbatches).
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

namespace cleave {

/// The step that ranks have run, in time, to be drawn beside what `simulate` says of it: in units of so many
/// nanoseconds, in one time (`align_ranks`). Passes, OFFLOAD, RELOAD and RECOMPUTE take
/// time; all else none, and nothing is said of causes. `ranks` are in order, those of `s` as it was run.
/// O(actions). Precondition: a program and its times for each rank of `s`.
inline schedule_times measured_times(schedule const& s, std::span<measured_rank const> ranks,
                                     double unit = 1) {
  expects(ranks.size() == s.ranks.size(), "measured_times: each rank of the schedule");
  schedule_times made;
  made.most_kept = detail::most_kept_passes(s);
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    auto const& row = s.ranks[r];
    auto const& instructions = ranks[r].program.instructions;
    expects(ranks[r].times.size() == instructions.size(), "measured_times: a time for each instruction");
    auto const cells = detail::cell_places(row);
    auto& spans = made.spans.emplace_back(row.size());
    made.causes.emplace_back(row.size(), detail::no_action);
    double busy = 0, first = std::numeric_limits<double>::infinity(), last = 0;
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
      if (is_compute(call.of.kind) || call.of.kind == action_kind::recompute) busy += span.end - span.begin;
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
