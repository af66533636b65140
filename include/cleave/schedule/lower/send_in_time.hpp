// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/core/language.hpp"
#include "cleave/core/one_or_each.hpp"
#include "cleave/core/step_index.hpp"
#include "cleave/schedule/lower/nominal_times.hpp"
#include "cleave/schedule/lower/sending_lists.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/invalid_action.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/stage_cost.hpp"

namespace cleave::inline v0_2::detail {

/// A tournament tree that finds the rank with the earliest time; the lowest rank wins ties. Source: Knuth,
/// The Art of Computer Programming, volume 3, 5.4.1.
class earliest_rank {
 public:
  static constexpr double never = std::numeric_limits<double>::infinity();

  /// All ranks begin with the time `never`. O(ranks).
  explicit earliest_rank(std::uint32_t ranks)
      : leaves_(std::bit_ceil((std::max)(ranks, 1u))), players_(std::size_t{2} * leaves_) {
    for (std::uint32_t r = 0; r < leaves_; ++r) players_[leaves_ + r].rank = r;
    for (auto n = leaves_ - 1; n > 0; --n) players_[n] = players_[std::size_t{2} * n];
  }

  /// Sets the time of a rank. O(log ranks), less if only the lower levels of the tree change.
  void set(std::uint32_t r, double time) {
    players_[leaves_ + r].time = time;
    for (auto n = (leaves_ + r) / 2; n > 0; n /= 2) {
      auto const& winner = winner_of(n);
      if (winner.rank != r && winner.rank == players_[n].rank) return;
      players_[n] = winner;
    }
  }

  /// Calls `f(rank)` for each rank with the earliest time, ascending, and sets their times to `never`.
  /// Precondition: some time is not `never`. O(log ranks) for each, less for many ranks.
  template <class F>
  void take_earliest(F f) {
    take_below(1, time(), f);
  }

  double time_of(std::uint32_t r) const { return players_[leaves_ + r].time; }
  std::uint32_t rank() const { return players_[1].rank; }
  double time() const { return players_[1].time; }

 private:
  struct player {
    double time = never;
    std::uint32_t rank = 0;
  };

  player const& winner_of(std::uint32_t n) const {
    auto const& low = players_[std::size_t{2} * n];
    auto const& high = players_[std::size_t{2} * n + 1];
    return high.time < low.time ? high : low;
  }

  template <class F>
  void take_below(std::uint32_t n, double time, F& f) {
    if (n >= leaves_) {
      players_[n].time = never;
      return f(n - leaves_);
    }
    for (auto const child : {2 * n, 2 * n + 1})
      if (players_[child].time == time) take_below(child, time, f);
    players_[n] = winner_of(n);
  }

  std::uint32_t leaves_;
  /// Inner node n holds the winner of nodes 2n and 2n + 1; the leaves are the ranks.
  std::vector<player> players_;
};

/// Adds messages to a schedule, for `send_in_time`.
class timed_sender {
 public:
  timed_sender(schedule const& s, nominal_times const& times)
      : place_(s.place),
        times_(times),
        numbers_(step_index_of(s)),
        lists_(s),
        next_(lists_.ranks()),
        ranks_(lists_.ranks()),
        ends_(numbers_.passes()) {}

  schedule take() {
    for (std::uint32_t r = 0; r < lists_.ranks(); ++r) look_at(r);
    while (end_next_passes() || begin_part_of_compound()) {
    }
    return lists_.finish();
  }

 private:
  static constexpr double never = earliest_rank::never;

  /// The ends of the passes of a stage for a microbatch: of F, and of B or I.
  struct pass_ends {
    double forward = never, gradient = never;
  };
  struct rank_state {
    double free = 0;
    std::size_t parts = 0;               ///< the number of parts of the next cell that run at once
    std::span<action const> ended = {};  ///< the parts that have just ended
  };

  /// Ends all running passes that end next, at the same instant, then sends their results. Returns false if
  /// no pass runs.
  bool end_next_passes() {
    auto const now = next_.time();
    if (now == never) return false;
    ended_.clear();
    next_.take_earliest([&](std::uint32_t r) { ended_.push_back(r); });
    for (auto const r : ended_) {
      ranks_[r].free = now;
      ranks_[r].ended = lists_.take(r, ranks_[r].parts);
      for (action const& a : ranks_[r].ended) set_end(a, now);
    }
    to_look_at_ = ended_;
    for (auto const r : ended_)
      for (action const& a : ranks_[r].ended)
        lists_.send_results(a, [&](std::uint32_t receiver) { to_look_at_.push_back(receiver); });
    for (auto const r : to_look_at_) look_at(r);
    return true;
  }

  /// All ranks wait. The first rank that can do some parts of its compound does these alone, since others may
  /// wait for their results.
  bool begin_part_of_compound() {
    for (std::uint32_t r = 0; r < lists_.ranks(); ++r) {
      if (lists_.at_end(r)) continue;
      auto const [parts, end] = go_through(r, lists_.rest_of_cell(r));
      if (parts == 0) continue;
      begin(r, parts, end);
      return true;
    }
    return false;
  }

  /// Lets an idle rank begin its next cell if all dependencies are met. Actions that take no time are done at
  /// once.
  void look_at(std::uint32_t r) {
    if (next_.time_of(r) != never) return;
    while (!lists_.at_end(r)) {
      auto const rest = lists_.rest_of_cell(r);
      auto const [parts, end] = go_through(r, rest);
      if (parts < rest.size()) return;
      bool const computes = std::ranges::any_of(rest, [](action const& a) { return is_compute(a.kind); });
      if (computes || end > ranks_[r].free) return begin(r, parts, end);
      lists_.take(r, parts);
    }
  }

  void begin(std::uint32_t r, std::size_t parts, double end) {
    ranks_[r].parts = parts;
    next_.set(r, end);
  }

  struct progress {
    std::size_t parts;
    double end;
  };
  /// Returns how many parts can be done in order, and when they will end. Later parts may depend on earlier
  /// parts; other ranks do not see these results yet.
  progress go_through(std::uint32_t r, std::span<action const> parts) {
    auto end = ranks_[r].free;
    if (parts.size() == 1) {
      auto const begin = (std::max)(end, ready(parts[0]));
      return begin == never ? progress{0, end} : progress{1, begin + cost_of(parts[0])};
    }
    before_.clear();
    for (action const& a : parts) {
      auto const begin = (std::max)(end, ready(a));
      if (begin == never) break;
      end = begin + cost_of(a);
      before_.push_back(is_compute(a.kind) ? ends_of(a) : pass_ends{});
      set_end(a, end);
    }
    for (auto i = before_.size(); i-- > 0;)
      if (is_compute(parts[i].kind)) ends_of(parts[i]) = before_[i];
    return {before_.size(), end};
  }

  /// Returns the time at which all dependencies of an action are met, or `never` if that is not yet known.
  double ready(action const& a) const {
    using enum action_kind;
    if (!is_compute(a.kind)) return 0;
    auto const s = index(a.stage);
    if (a.kind == weight_gradient) return ends_[numbers_.pass(s, a.microbatch)].gradient;
    auto const& neighbours = lists_.neighbours();
    double at = 0;
    if (a.kind == forward) {
      for (auto const feeder : neighbours.before(s))
        at = (std::max)(at, ends_[numbers_.pass(feeder, a.microbatch)].forward + latency(feeder, s));
      return at;
    }
    at = ends_[numbers_.pass(s, a.microbatch)].forward;
    for (auto const reader : neighbours.after(s))
      at = (std::max)(at, ends_[numbers_.pass(reader, a.microbatch)].gradient + latency(reader, s));
    return at;
  }

  /// Returns the time of a message between two stages.
  double latency(std::uint32_t from, std::uint32_t to) const {
    auto const sender = place_.rank_of[from], receiver = place_.rank_of[to];
    if (sender == receiver) return 0;
    auto const pair = std::size_t{index(sender)} * place_.ranks + index(receiver);
    return times_.base_latency + one_or_each(times_.latencies).of(pair);
  }
  /// Returns the time for which the rank is busy. Other actions run concurrently with passes.
  double cost_of(action const& a) const {
    if (!is_compute(a.kind) && a.kind != action_kind::recompute) return 0;
    return one_or_each(times_.costs).of(index(a.stage)).of(a.kind);
  }

  pass_ends& ends_of(action const& a) { return ends_[numbers_.pass(a.stage, a.microbatch)]; }
  void set_end(action const& a, double end) {
    using enum action_kind;
    if (a.kind == forward)
      ends_of(a).forward = end;
    else if (a.kind == backward || a.kind == input_gradient)
      ends_of(a).gradient = end;
  }

  stage_placement const& place_;
  nominal_times const& times_;
  step_index numbers_;
  sending_lists lists_;
  earliest_rank next_;  ///< by running rank: the end of its current cell
  std::vector<rank_state> ranks_;
  std::vector<pass_ends> ends_;  ///< by stage and microbatch
  std::vector<std::uint32_t> ended_, to_look_at_;
  std::vector<pass_ends> before_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns a schedule with sends and receives in the order of time. Simulates all lists with the given times:
/// each pass runs as soon as its rank is free and its inputs have arrived.
///
/// All passes and messages get one global order, by the ends of passes and the departures of messages. Each
/// rank lists its share of this order. A send follows the pass that makes its value, or its whole compound
/// unless a part of it needs another rank's answer. A receive precedes the pass that runs while the message
/// arrives.
///
/// Because the order is global, the schedule finishes with any delivery, any queues and any actual durations
/// of passes. With the given times, no pass waits for its turn to receive. If sends do not block, the
/// schedule takes exactly as long as the one without messages. Idle steps are dropped.
/// O(actions * log ranks).
/// \throws invalid_action_error, nominal_time_error, stuck_error, schedule_count_error
inline schedule send_in_time(schedule const& s, nominal_times const& times = {}) {
  detail::require_valid_actions(s);
  detail::require_nominal_times(times, s.place);
  require_counts(1, (std::max)(s.place.stages(), 1u), (std::max)(s.microbatches, 1u));
  return detail::timed_sender(s, times).take();
}

}  // namespace cleave
