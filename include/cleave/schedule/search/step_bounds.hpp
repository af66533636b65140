// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "cleave/schedule/list/backward_choice.hpp"
#include "cleave/schedule/list/placed_step.hpp"
#include "cleave/schedule/search/one_machine.hpp"
#include "cleave/schedule/search/relaxed_step.hpp"

namespace cleave {

/// Times before which no schedule of a placed step ends, each for a reason of its own.
struct step_bounds {
  double work = 0;    ///< all passes of some rank, one after the other
  double path = 0;    ///< one microbatch there and back
  double rank = 0;    ///< until some rank can begin, its work, and what must come after
  double memory = 0;  ///< as `rank`, and a microbatch begins only when there is room for it

  double best() const { return (std::max)({work, path, rank, memory}); }
  std::string_view reason() const {
    auto const b = best();
    return b == work ? "work" : b == path ? "path" : b == rank ? "rank" : "memory";
  }
  bool operator==(step_bounds const&) const = default;
};

/// What all passes of a rank take.
inline double work_of(detail::placed_step const& step, std::size_t rank, backward_choice form) {
  double work = 0;
  for (auto const s : step.locals[rank]) {
    auto const& cost = step.stages[s].cost;
    auto const back = detail::least_backward_of(cost, form);
    work += step.microbatches * (cost.forward + back.first + back.rest);
  }
  return work;
}

}  // namespace cleave

namespace cleave::detail {

/// Of a rank: the passes that it must do, each not before it can be ready, and followed by what needs it.
inline double busy_bound(placed_step const& step, std::size_t rank, backward_choice form,
                         relaxed_step const& times) {
  std::vector<one_machine_job> jobs;
  for (auto const s : step.locals[rank]) {
    auto const& cost = step.stages[s].cost;
    auto const back = least_backward_of(cost, form);
    for (std::uint32_t k = 0; k < step.microbatches; ++k) {
      auto const& t = times.at(s, k);
      jobs.push_back({t.forward.head, cost.forward, t.forward.tail});
      jobs.push_back({t.gradient.head, back.first, t.gradient.tail});
      if (back.rest > 0) jobs.push_back({t.rest.head, back.rest, t.rest.tail});
    }
  }
  return one_machine_bound(std::move(jobs));
}

/// The bounds of a placed step. O(passes log passes + stages * (stages + edges)).
inline step_bounds bounds_of(placed_step const& step, backward_choice form = backward_choice::either) {
  step_bounds b;
  relaxed_step const free(step, form, relaxed_memory::unlimited), tight(step, form, relaxed_memory::capped);
  b.path = free.path();
  b.rank = free.longest();
  b.memory = (std::max)(tight.longest(), tight.room_bound());
  for (std::size_t r = 0; r < step.locals.size(); ++r) {
    b.work = (std::max)(b.work, work_of(step, r, form));
    b.rank = (std::max)(b.rank, busy_bound(step, r, form, free));
    b.memory = (std::max)(b.memory, busy_bound(step, r, form, tight));
  }
  return b;
}

}  // namespace cleave::detail
