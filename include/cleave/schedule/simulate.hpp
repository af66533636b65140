// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/schedule/action.hpp"
#include "cleave/schedule/deadlock.hpp"
#include "cleave/schedule/kept_passes.hpp"
#include "cleave/schedule/schedule.hpp"
#include "cleave/schedule/schedule_needs.hpp"
#include "cleave/schedule/stage_cost.hpp"

namespace cleave {

/// How long the parts of a compound take. Either way other ranks see its results when all of it is done.
enum class compound_time : std::uint8_t {
  one_after_the_other,  ///< each waits for what it needs itself
  longest_part,         ///< together, once all of them can begin
};

/// Times in any one unit.
struct simulate_options {
  std::vector<stage_cost> costs = {};  ///< of each stage; one for all; none: 1 for F, I and W, and 2 for B
  double hop = 0;                      ///< from the end of a pass until another rank can use its result
  compound_time compounds = compound_time::one_after_the_other;
};

/// When a rank is at an action of its list.
struct time_span {
  double begin = 0, end = 0;

  bool operator==(time_span const&) const = default;
};

/// A schedule in time.
struct schedule_times {
  double makespan = 0;
  std::vector<double> busy, first, last;      ///< of a rank: computing; when it begins, and when it ends
  std::vector<std::vector<time_span>> spans;  ///< of each action, as the lists have them
  std::vector<kept_passes> most_kept;         ///< of a rank
  /// Where ranks wait for ever; empty where all come to their ends. Times are then of what was done.
  std::vector<waiting_action> waiting;

  bool operator==(schedule_times const&) const = default;
};

/// Runs every list in order, each pass as soon as its rank is free and what it needs is there; messages move
/// beside, from when both ends have begun. `simulate` is its one use.
class time_walk {
 public:
  time_walk(schedule const& s, simulate_options const& options)
      : schedule_(s), options_(options), needs_(s), events_(needs_.events()), ranks_(s.ranks.size()) {
    times_.busy.resize(s.ranks.size());
    times_.first.resize(s.ranks.size());
    times_.last.resize(s.ranks.size());
    for (auto const& row : s.ranks) times_.spans.emplace_back(row.size());
  }

  schedule_times run() {
    for (auto r = static_cast<std::uint32_t>(ranks_.size()); r-- > 0;) awake_.push_back(r);
    while (!awake_.empty()) {
      auto const r = awake_.back();
      awake_.pop_back();
      while (ranks_[r].position < schedule_.ranks[r].size() && step(r)) {
      }
    }
    for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
      times_.last[r] = ranks_[r].free;
      times_.makespan = std::max(times_.makespan, ranks_[r].free);
      if (ranks_[r].position < schedule_.ranks[r].size()) note_waiting(r);
    }
    return std::move(times_);
  }

 private:
  static constexpr double never = -1;
  static constexpr std::uint32_t nobody = 0xffffffff;
  struct event {
    double here = never, there = never;  // seen on its rank, and on others
    std::uint32_t waiter = nobody;
  };
  struct rank_state {
    std::size_t position = 0, compound_end = 0, compound_begin = 0;
    double free = 0;
    bool has_begun = false;              // to compute
    std::uint32_t next_waiter = nobody;  // at the same event
  };

  /// Whether the next action of rank `r` is done now.
  bool step(std::uint32_t r) {
    auto& rank = ranks_[r];
    action const& a = schedule_.ranks[r][rank.position];
    bool const is_head = a.kind == action_kind::overlap || a.parts > 0;
    if (is_head && options_.compounds == compound_time::longest_part) return run_together(r);
    if (is_head) {
      rank.compound_begin = rank.position + 1;
      rank.compound_end = std::min(schedule_.ranks[r].size(), rank.position + 1 + a.parts);
    } else if (!run_alone(r, a)) {
      return false;
    }
    ++rank.position;
    if (rank.position == rank.compound_end && rank.compound_begin < rank.compound_end) {
      for (auto i = rank.compound_begin; i < rank.compound_end; ++i) tell(schedule_.ranks[r][i], rank.free);
      rank.compound_begin = rank.compound_end = 0;
    }
    return true;
  }

  bool run_alone(std::uint32_t r, action const& a) {
    auto& rank = ranks_[r];
    auto begin = rank.free;
    if (!can_begin(r, a, begin)) return false;
    double const time = is_compute(a.kind) ? cost_of(a) : 0;
    occupy(r, rank.position, {begin, begin + time}, time);
    show(a, rank.free);
    if (rank.compound_end == 0) tell(a, rank.free);
    return true;
  }

  bool run_together(std::uint32_t r) {
    auto& rank = ranks_[r];
    std::span const row(schedule_.ranks[r]);
    auto const parts =
        row.subspan(rank.position + 1)
            .first(std::min<std::size_t>(row[rank.position].parts, row.size() - rank.position - 1));
    auto begin = rank.free;
    double time = 0;
    for (action const& a : parts) {
      if (!can_begin(r, a, begin)) return false;
      time = std::max(time, is_compute(a.kind) ? cost_of(a) : 0);
    }
    occupy(r, rank.position, {begin, begin + time}, time);
    for (action const& a : parts) {
      times_.spans[r][++rank.position] = {begin, begin + (is_compute(a.kind) ? cost_of(a) : 0)};
      show(a, rank.free);
    }
    for (action const& a : parts) tell(a, rank.free);
    ++rank.position;
    return true;
  }

  void occupy(std::uint32_t r, std::size_t position, time_span t, double time) {
    auto& rank = ranks_[r];
    if (time > 0 && !std::exchange(rank.has_begun, true)) times_.first[r] = t.begin;
    times_.spans[r][position] = t;
    times_.busy[r] += time;
    rank.free = t.end;
  }

  double cost_of(action const& a) const {
    if (!needs_.in_range(a) || options_.costs.empty()) return stage_cost{}.of(a.kind);
    return options_.costs[options_.costs.size() == 1 ? 0 : index(a.stage)].of(a.kind);
  }

  /// `f(event)` for what an action cannot begin without.
  template <class F>
  void each_need(action const& a, F f) const {
    if (!needs_.in_range(a)) return;
    if (is_compute(a.kind)) {
      needs_.each_need(a, f);
    } else if (is_wait_send(a.kind)) {
      if (auto const end = needs_.message_end(a); end != schedule_needs::none)
        f(end) && f(schedule_needs::other_end(end));
    }
  }

  /// Moves `begin` to when all is there that `a` needs; or waits for something.
  bool can_begin(std::uint32_t r, action const& a, double& begin) {
    bool ready = true;
    each_need(a, [&](std::uint32_t e) {
      double const seen = seen_at(r, e);
      if (seen < 0) {
        ranks_[r].next_waiter = std::exchange(events_[e].waiter, r);
        return ready = false;
      }
      begin = std::max(begin, seen);
      return true;
    });
    return ready;
  }

  /// When rank `r` can use what an event is about. A message takes its time from when both ends have begun.
  double seen_at(std::uint32_t r, std::uint32_t e) const {
    auto const& at = events_[e];
    if (needs_.is_end_of_message(e)) return at.there < 0 ? never : at.there + options_.hop;
    if (needs_.rank_of(e) == rank_id{r}) return at.here;
    return at.there < 0 ? never : at.there + options_.hop;
  }

  template <class F>
  void each_effect(action const& a, F f) const {
    if (!needs_.in_range(a)) return;
    if (is_compute(a.kind)) {
      needs_.each_effect(a, f);
    } else if (is_send(a.kind) || is_receive(a.kind)) {
      if (auto const end = needs_.message_end(a); end != schedule_needs::none) f(end);
    }
  }

  void show(action const& a, double now) {
    each_effect(a, [&](std::uint32_t e) { events_[e].here = now; });
  }

  void tell(action const& a, double now) {
    each_effect(a, [&](std::uint32_t e) {
      events_[e].there = now;
      for (auto r = std::exchange(events_[e].waiter, nobody); r != nobody; r = ranks_[r].next_waiter)
        awake_.push_back(r);
    });
  }

  void note_waiting(std::uint32_t r) {
    auto const at = ranks_[r].position;
    auto const& row = schedule_.ranks[r];
    waiting_action w{rank_id{r}, at, row[at], rank_id{r}, row[at]};
    bool found = false;
    for (auto i = at; i < std::min(row.size(), at + 1 + row[at].parts) && !found; ++i)
      each_need(row[i], [&](std::uint32_t e) {
        if (seen_at(r, e) >= 0) return true;
        w.at = row[i];
        w.position = i;
        w.for_what = needs_.action_of(e);
        w.for_rank = schedule_.place.rank_of[index(w.for_what.stage)];
        found = true;
        return false;
      });
    times_.waiting.push_back(w);
  }

  schedule const& schedule_;
  simulate_options const& options_;
  schedule_needs needs_;
  std::vector<event> events_;
  std::vector<rank_state> ranks_;
  std::vector<std::uint32_t> awake_;
  schedule_times times_;
};

/// A time that no hop takes.
class hop_error : public witness_error<double> {
 public:
  explicit hop_error(double hop) : witness_error("simulate: a hop must take a time from 0 to 1e100", hop) {}
};

/// When every action of a schedule runs, whether it computes only or has messages too. Precondition: costs
/// for every stage, for all at once, or none. O(actions).
/// \throws stage_cost_error, hop_error, placement_error, schedule_count_error
inline schedule_times simulate(schedule const& s, simulate_options const& options = {}) {
  expects(options.costs.size() <= 1 || options.costs.size() == s.place.stages(),
          "simulate: costs for every stage, or for all at once");
  if (auto const f = find_stage_cost_fault(options.costs)) throw stage_cost_error(*f);
  if (!(options.hop >= 0 && options.hop <= longest_cost)) throw hop_error(options.hop);
  auto times = time_walk(s, options).run();
  times.most_kept = most_kept_passes(s);
  return times;
}

}  // namespace cleave
