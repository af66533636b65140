// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "cleave/core/language.hpp"

namespace cleave::detail {

/// Something that one machine does: not before `head`, and `tail` later than it ends all can be over.
struct one_machine_job {
  double head = 0, time = 0, tail = 0;
};

/// When all is over at best, if the machine may leave a job and come back to it: it always does the one of
/// the longest tail. So this is a lower bound where it may not. Jackson's preemptive rule; Carlier, EJOR 11
/// (1982). O(jobs log jobs).
inline double one_machine_bound(std::vector<one_machine_job> jobs) {
  std::ranges::sort(jobs, [](auto const& a, auto const& b) { return a.head < b.head; });
  auto const by_tail = [](one_machine_job const& a, one_machine_job const& b) { return a.tail < b.tail; };
  std::vector<one_machine_job> ready;
  double now = 0, over = 0;
  for (std::size_t next = 0; next < jobs.size() || !ready.empty();) {
    if (ready.empty()) now = (std::max)(now, jobs[next].head);
    for (; next < jobs.size() && jobs[next].head <= now; ++next) {
      ready.push_back(jobs[next]);
      std::ranges::push_heap(ready, by_tail);
    }
    auto& job = ready.front();
    double const until = now + job.time;
    if (next < jobs.size() && jobs[next].head < until) {
      job.time = until - jobs[next].head;
      now = jobs[next].head;
      continue;
    }
    now = until;
    over = (std::max)(over, now + job.tail);
    std::ranges::pop_heap(ready, by_tail);
    ready.pop_back();
  }
  return over;
}

}  // namespace cleave::detail
