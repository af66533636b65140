// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/core/language.hpp"
#include "cleave/schedule/list/backward_choice.hpp"
#include "cleave/schedule/list/placed_step.hpp"

namespace cleave::inline v0_2::detail {

enum class relaxed_memory : std::uint8_t { unlimited, capped };

/// A relaxation of a step in which each stage has a rank of its own. Gives for each pass the earliest start
/// (head), and the least time from its end to the end of the step (tail). No schedule is better.
///
/// Microbatches run in order (see `pass_lists`). If a stage has room for n of them, the k-th begins after the
/// (k - n)-th has left.
class relaxed_step {
 public:
  struct pass_bound {
    double head = 0, tail = 0;
  };
  /// Bounds of a stage and a microbatch. `rest` is W, or the excess of B over I.
  struct pair_bound {
    pass_bound forward, gradient, rest;
  };

  /// O(passes + stages * (stages + edges)).
  relaxed_step(placed_step const& step, backward_choice form, relaxed_memory memory)
      : step_(step), pairs_(step.stages.size() * step.microbatches) {
    for (auto const& s : step.stages) back_.push_back(least_backward_of(s.cost, form));
    if (memory == relaxed_memory::capped)
      find_room(form);
    else
      room_.assign(step.stages.size(), {step.microbatches, step.microbatches});
    for (std::uint32_t k = 0; k < step.microbatches; ++k) find_heads(k);
    for (std::uint32_t k = step.microbatches; k-- > 0;) find_tails(k);
    measure_trips();
  }

  pair_bound const& at(std::uint32_t s, std::uint32_t k) const {
    return pairs_[s * std::size_t{step_.microbatches} + k];
  }
  /// Returns the time of one microbatch through the longest chain of stages and back.
  double path() const { return path_; }
  /// Returns the length of the longest chain of passes that wait for each other.
  double longest() const {
    double most = 0;
    for (std::uint32_t s = 0; s < step_.stages.size(); ++s)
      for (std::uint32_t k = 0; k < step_.microbatches; ++k) {
        auto const& p = at(s, k);
        most = (std::max)({most, p.forward.head + step_.stages[s].cost.forward + p.forward.tail,
                           p.rest.head + back_[s].rest + p.rest.tail});
      }
    return most;
  }

  /// Returns a bound from memory over time. Each stage keeps a microbatch until its gradient is done; the
  /// kept bytes of a rank, integrated over time, cannot exceed its room times the time from its first pass to
  /// its last gradient.
  double room_bound() const {
    double most = 0;
    for (std::size_t r = 0; r < step_.locals.size(); ++r) {
      auto const& locals = step_.locals[r];
      if (locals.empty() || step_.room(r) == 0) continue;
      double kept = 0, head = at(locals[0], 0).forward.head, tail = at(locals[0], 0).gradient.tail;
      for (auto const s : locals) {
        kept += static_cast<double>(step_.stages[s].bytes.saved) * step_.microbatches * trip_[s];
        head = (std::min)(head, at(s, 0).forward.head);
        tail = (std::min)(tail, at(s, step_.microbatches - 1).gradient.tail);
      }
      most = (std::max)(most, head + kept / static_cast<double>(step_.room(r)) + tail);
    }
    return most;
  }

 private:
  /// The number of microbatches that fit in a stage: from F to the end of its gradient, and to the end of W.
  struct stage_room {
    std::uint32_t to_gradient, to_rest;
  };

  void find_room(backward_choice form) {
    auto const count = [&](std::uint64_t room, std::uint64_t each) {
      auto const all = std::uint64_t{step_.microbatches};
      return static_cast<std::uint32_t>(each == 0 ? all : std::clamp<std::uint64_t>(room / each, 1, all));
    };
    std::vector<std::uint64_t> kept(
        step_.stages.size());  // with those of the earlier stages on the same rank
    for (auto const s : step_.order) kept[s] = kept_before(s) + step_.stages[s].bytes.saved;
    for (std::uint32_t s = 0; s < kept.size(); ++s) {
      auto const& stage = step_.stages[s];
      auto const own = form == backward_choice::whole
                           ? stage.bytes.saved
                           : (std::min)(stage.bytes.saved, stage.bytes.saved_for_weights);
      room_.push_back({count(step_.room(stage.rank), kept[s]), count(step_.room(stage.rank), own)});
    }
  }

  /// Returns the bytes kept on the rank of `s` by its predecessors when `s` gets a microbatch.
  std::uint64_t kept_before(std::uint32_t s) const {
    std::vector<char> is_before(step_.stages.size());
    is_before[s] = 1;
    std::uint64_t kept = 0;
    for (auto it = step_.order.rbegin(); it != step_.order.rend(); ++it) {
      if (!is_before[*it]) continue;
      for (auto const e : step_.stages[*it].before) is_before[step_.feeding(e)] = 1;
      if (*it != s && step_.stages[*it].rank == step_.stages[s].rank) kept += step_.stages[*it].bytes.saved;
    }
    return kept;
  }

  pair_bound& pair(std::uint32_t s, std::uint32_t k) {
    return pairs_[s * std::size_t{step_.microbatches} + k];
  }

  void find_heads(std::uint32_t k) {
    for (auto const s : step_.order) {
      auto& head = pair(s, k).forward.head;
      if (k > 0) head = at(s, k - 1).forward.head + step_.stages[s].cost.forward;
      if (auto const n = room_[s].to_gradient; k >= n)
        head = (std::max)(head, at(s, k - n).gradient.head + back_[s].first);
      if (auto const n = room_[s].to_rest; k >= n)
        head = (std::max)(head, at(s, k - n).rest.head + back_[s].rest);
      for (auto const e : step_.stages[s].before) {
        auto const from = step_.feeding(e);
        head = (std::max)(
            head, at(from, k).forward.head + step_.stages[from].cost.forward + step_.forward[e].delay);
      }
    }
    for (auto it = step_.order.rbegin(); it != step_.order.rend(); ++it) {
      auto const s = *it;
      auto& [forward, gradient, rest] = pair(s, k);
      gradient.head = forward.head + step_.stages[s].cost.forward;
      if (k > 0) gradient.head = (std::max)(gradient.head, at(s, k - 1).gradient.head + back_[s].first);
      for (auto const e : step_.stages[s].after) {
        auto const from = step_.fed(e);
        gradient.head = (std::max)(gradient.head,
                                   at(from, k).gradient.head + back_[from].first + step_.backward[e].delay);
      }
      rest.head = gradient.head + back_[s].first;
      if (k > 0) rest.head = (std::max)(rest.head, at(s, k - 1).rest.head + back_[s].rest);
    }
  }

  void find_tails(std::uint32_t k) {
    auto const m = step_.microbatches;
    auto const let_in =
        [&](std::uint32_t s,
            std::uint32_t n) {  // a later pass that must wait until this one has freed its memory
          return k + std::uint64_t{n} < m ? step_.stages[s].cost.forward + at(s, k + n).forward.tail : 0.0;
        };
    for (auto const s : step_.order) {
      auto& [forward, gradient, rest] = pair(s, k);
      rest.tail = let_in(s, room_[s].to_rest);
      if (k + 1 < m) rest.tail = (std::max)(rest.tail, back_[s].rest + at(s, k + 1).rest.tail);
      gradient.tail = (std::max)(back_[s].rest + rest.tail, let_in(s, room_[s].to_gradient));
      if (k + 1 < m) gradient.tail = (std::max)(gradient.tail, back_[s].first + at(s, k + 1).gradient.tail);
      for (auto const e : step_.stages[s].before) {
        auto const to = step_.feeding(e);
        gradient.tail =
            (std::max)(gradient.tail, step_.backward[e].delay + back_[to].first + at(to, k).gradient.tail);
      }
    }
    for (auto it = step_.order.rbegin(); it != step_.order.rend(); ++it) {
      auto const s = *it;
      auto& [forward, gradient, rest] = pair(s, k);
      forward.tail = back_[s].first + gradient.tail;
      if (k + 1 < m)
        forward.tail = (std::max)(forward.tail, step_.stages[s].cost.forward + at(s, k + 1).forward.tail);
      for (auto const e : step_.stages[s].after) {
        auto const to = step_.fed(e);
        forward.tail = (std::max)(
            forward.tail, step_.forward[e].delay + step_.stages[to].cost.forward + at(to, k).forward.tail);
      }
    }
  }

  /// Computes the least time of a microbatch at each stage and beyond, from F to the end of its gradient.
  void measure_trips() {
    trip_.resize(step_.stages.size());
    for (auto it = step_.order.rbegin(); it != step_.order.rend(); ++it) {
      auto const s = *it;
      double beyond = 0;
      for (auto const e : step_.stages[s].after)
        beyond = (std::max)(beyond, step_.forward[e].delay + trip_[step_.fed(e)] + step_.backward[e].delay);
      trip_[s] = step_.stages[s].cost.forward + beyond + back_[s].first;
      path_ = (std::max)(path_, trip_[s] + back_[s].rest);
    }
  }

  placed_step const& step_;
  std::vector<pair_bound> pairs_;  // indexed by stage and microbatch
  std::vector<least_backward> back_;
  std::vector<stage_room> room_;
  std::vector<double> trip_;
  double path_ = 0;
};

/// A job on one machine: it begins at `head` or later, and the schedule ends at least `tail` after the job.
struct one_machine_job {
  double head = 0, time = 0, tail = 0;
};

/// Returns the least makespan of jobs on one machine with preemption, which bounds the non-preemptive
/// makespan. The ready job with the longest tail always runs. Jackson's preemptive rule; Carlier, EJOR 11
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

namespace cleave::inline v0_2 {

/// Lower bounds on the makespan of a placed step, each for a different reason.
struct step_bounds {
  double work = 0;  ///< the total time of all passes of some rank
  double path = 0;  ///< one microbatch through all stages and back
  double rank = 0;  ///< for some rank: the time before it can begin, its work, and the time that must follow
  double memory = 0;  ///< as `rank`, where a microbatch begins only once there is memory for it

  /// Returns the largest of the bounds.
  double best() const { return (std::max)({work, path, rank, memory}); }
  /// Returns the name of the largest bound.
  std::string_view reason() const {
    auto const b = best();
    return b == work ? "work" : b == path ? "path" : b == rank ? "rank" : "memory";
  }
  bool operator==(step_bounds const&) const = default;
};

/// Returns the total time of all passes of a rank.
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

namespace cleave::inline v0_2::detail {

/// Returns a bound from one rank: it runs its passes one at a time, each with its head and tail.
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

/// Returns the lower bounds of a placed step. O(passes log passes + stages * (stages + edges)).
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
