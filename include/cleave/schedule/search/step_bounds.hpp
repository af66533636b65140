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

namespace cleave::detail {

enum class relaxed_memory : std::uint8_t { unlimited, capped };

/// A step as if each stage had a rank of its own: when each pass can begin at the earliest, and how long it
/// takes at least from its end until all is over. No schedule is better than that.
///
/// Microbatches take their turns (see `pass_lists`), so where a stage has room for n of them, the k-th begins
/// when the (k - n)-th has left.
class relaxed_step {
 public:
  struct pass_bound {
    double head = 0, tail = 0;
  };
  /// Of a stage and a microbatch. `rest`: W, or what of B is longer than I.
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
  /// One microbatch, through the longest chain of stages and back.
  double path() const { return path_; }
  /// The longest chain of passes that wait for each other.
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

  /// Each stage keeps a microbatch while it is further down and on its way back; what a rank keeps in all,
  /// over the time from its first pass to its last gradient, is no more than its room.
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
  /// How many microbatches a stage has room for: from F to the end of its gradient, and to that of W.
  struct stage_room {
    std::uint32_t to_gradient, to_rest;
  };

  void find_room(backward_choice form) {
    auto const count = [&](std::uint64_t room, std::uint64_t each) {
      auto const all = std::uint64_t{step_.microbatches};
      return static_cast<std::uint32_t>(each == 0 ? all : std::clamp<std::uint64_t>(room / each, 1, all));
    };
    std::vector<std::uint64_t> kept(step_.stages.size());  // with the stages before it on its rank
    for (auto const s : step_.order) kept[s] = kept_before(s) + step_.stages[s].bytes.saved;
    for (std::uint32_t s = 0; s < kept.size(); ++s) {
      auto const& stage = step_.stages[s];
      auto const own = form == backward_choice::whole
                           ? stage.bytes.saved
                           : (std::min)(stage.bytes.saved, stage.bytes.saved_for_weights);
      room_.push_back({count(step_.room(stage.rank), kept[s]), count(step_.room(stage.rank), own)});
    }
  }

  /// What the stages keep on the rank of `s` whose microbatch it gets.
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
    auto const let_in = [&](std::uint32_t s, std::uint32_t n) {  // who waits until this one has left
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

  /// How long a microbatch is at each stage and beyond at least, from F to the end of its gradient.
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
  std::vector<pair_bound> pairs_;  // of stage and microbatch
  std::vector<least_backward> back_;
  std::vector<stage_room> room_;
  std::vector<double> trip_;
  double path_ = 0;
};

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
