// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/step_index.hpp"
#include "cleave/schedule/lower/defer_receives.hpp"
#include "cleave/schedule/lower/group_messages.hpp"
#include "cleave/schedule/lower/message_graph.hpp"
#include "cleave/schedule/lower/nominal_times.hpp"
#include "cleave/schedule/lower/rank_stages.hpp"
#include "cleave/schedule/lower/reduce_gradients.hpp"
#include "cleave/schedule/lower/send_in_time.hpp"
#include "cleave/schedule/lower/send_waits.hpp"
#include "cleave/schedule/lower/sending_lists.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/invalid_action.hpp"
#include "cleave/schedule/model/pass_marks.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_dependencies.hpp"
#include "cleave/schedule/verify/verify.hpp"

namespace cleave::inline v0_2::detail {

/// The stages that a list uses next, ordered by their next use, at each cell in turn.
///
/// A backward walk over the list moves the stages of each cell to the front of a queue and records their old
/// places. The forward walk restores these places, so that the stage at the front is always the one used
/// next.
class next_uses {
 public:
  /// O(actions * (log(stages) + queue places moved)). Starts at the first cell that is not idle.
  explicit next_uses(std::span<action const> row) : stages_(row), use_(stages_.count(), never) {
    std::vector<std::size_t> cells;  // the position of each cell
    for (std::size_t i = 0; i < row.size(); i += std::size_t{1} + row[i].parts)
      if (row[i].kind != action_kind::idle) cells.push_back(i);
    moves_.reserve(row.size());
    for (std::size_t c = cells.size(); c-- > 0;) {
      auto const head = cells[c];
      if (row[head].parts == 0) move_to_front(row[head], c);
      for (std::size_t p = row[head].parts; p > 0; --p) move_to_front(row[head + p], c);
    }
  }

  rank_stages const& stages() const { return stages_; }

  /// Returns the numbers of the next `count` different stages or fewer, the soonest first. The stages of one
  /// compound are included all or not at all, even beyond `count`. O(size of the result).
  std::span<std::uint32_t const> next(std::size_t count) const {
    auto n = (std::min)(count, queue_.size());
    while (n > 0 && n < queue_.size() && use_[queue_[n]] == use_[queue_[n - 1]]) ++n;
    return std::span(queue_).first(n);
  }

  /// Moves to the next cell. Returns true only if `next` gives the same answers there as before.
  bool pass() {
    bool same = true;
    for (auto const c = cell_++; !moves_.empty() && moves_.back().cell == c; moves_.pop_back()) {
      auto const from = moves_.back().from, use = moves_.back().use;
      auto const s = queue_.front();
      use_[s] = use;
      same = same && from == 0 && use == c + 1;
      if (use == never)
        queue_.erase(queue_.begin());
      else
        std::rotate(queue_.begin(), queue_.begin() + 1,
                    queue_.begin() + static_cast<std::ptrdiff_t>(from) + 1);
    }
    // A compound may bring another stage along with the one at the front.
    return same && (queue_.size() < 2 || use_[queue_[1]] != cell_);
  }

 private:
  static constexpr std::size_t never = (std::numeric_limits<std::size_t>::max)();
  struct move {
    std::size_t cell;
    std::size_t from;  ///< the position of the stage in the queue
    std::size_t use;   ///< the cell of its next use at that time
  };

  void move_to_front(action const& a, std::size_t cell) {
    if (a.stage == no_stage) return;
    auto const s = stages_.number(a.stage);
    auto at = queue_.begin();
    if (use_[s] == never)
      at = queue_.insert(queue_.end(), s);
    else
      at = std::ranges::find(queue_, s);
    moves_.push_back({cell, static_cast<std::size_t>(at - queue_.begin()), use_[s]});
    use_[s] = cell;
    std::rotate(queue_.begin(), at, at + 1);
  }

  rank_stages stages_;
  std::vector<std::size_t> use_;  ///< by stage: the cell that uses it next
  std::vector<std::uint32_t> queue_;
  std::vector<move> moves_;  ///< the latest move is last
  std::size_t cell_ = 0;
};

/// The number of stages of a rank whose weights are gathered at the same time.
struct unshard_window {
  std::uint32_t active = 3;     ///< the next `active` stages keep their weights
  std::uint32_t lookahead = 3;  ///< the weights of the next `lookahead` stages are gathered
};

/// A compound that uses more stages than may be active.
struct window_fault {
  static constexpr char subject[] = "unshard: ";
  std::string compound;
  std::uint32_t needed = 0, active = 0;

  bool operator==(window_fault const&) const = default;
};

inline std::string describe(window_fault const& f) {
  return f.compound + " runs " + std::to_string(f.needed) + " stages together, but only " +
         std::to_string(f.active) + " may be active; allow more active stages, or split the compound";
}

using window_error = fault_error<window_fault>;

/// Returns the first compound that uses more stages than may be active, or nothing. O(actions log(parts)).
inline std::optional<window_fault> find_window_fault(std::span<action const> row, std::uint32_t active) {
  std::optional<window_fault> fault;
  each_cell(row, [&](action const& head, std::span<action const> parts) {
    if (fault || parts.size() <= active) return;
    auto const needed = rank_stages(parts).count();
    if (needed > active) fault = window_fault{cell_text(head, parts), needed, active};
  });
  return fault;
}

/// Adds UNSHARD and RESHARD to one list, for `unshard_stages`.
class unsharder {
 public:
  unsharder(std::span<action const> row, unshard_window w) : uses_(row), window_(w), row_(row) {}

  std::vector<action> take() {
    active_.assign(uses_.stages().count(), false);
    resident_.assign(uses_.stages().count(), 0);
    added_.reserve(row_.size() + row_.size() / 4);
    bool same_window = false;  // as at the previous action, so that nothing changes
    each_cell(row_, [&](action const& head, std::span<action const> parts) {
      if (head.kind == action_kind::idle) return;
      if (!same_window) open_window();
      added_.push_back(head);
      added_.insert(added_.end(), parts.begin(), parts.end());
      same_window = uses_.pass() && window_.lookahead <= window_.active;
    });
    for (auto const s : in_order_) add(action_kind::reshard, s);
    return std::move(added_);
  }

 private:
  void add(action_kind kind, std::uint32_t stage) {
    added_.push_back({kind, 0, uses_.stages()[stage], no_microbatch, no_stage});
  }

  /// Frees the weights that are not used soon, then gathers those that are. Stages that were active are not
  /// gathered again, even if they have just been freed.
  void open_window() {
    auto const resident = uses_.next(window_.active), wanted = uses_.next(window_.lookahead);
    ++window_number_;
    for (auto const s : resident) resident_[s] = window_number_;
    to_gather_.clear();
    for (auto const s : wanted)
      if (!active_[s]) to_gather_.push_back(s);
    std::erase_if(in_order_, [&](std::uint32_t s) {
      if (resident_[s] == window_number_) return false;
      active_[s] = false;
      add(action_kind::reshard, s);
      return true;
    });
    for (auto const s : to_gather_) {
      active_[s] = true;
      in_order_.push_back(s);
      add(action_kind::unshard, s);
    }
  }

  next_uses uses_;
  unshard_window window_;
  std::span<action const> row_;
  std::vector<char> active_;
  std::vector<std::size_t> resident_;  ///< by stage: the last window that kept it
  std::vector<std::uint32_t> in_order_, to_gather_;
  std::vector<action> added_;
  std::size_t window_number_ = 0;
};

/// Returns a list that gathers the weights of each stage before use and frees them when others take their
/// place.
///
/// At every action, the next `active` different stages from there on keep their weights, and those of the
/// next `lookahead` stages are gathered. The stages of a compound are gathered together, even beyond these
/// counts. Idle steps are dropped. O(actions * stages that change between actions).
/// \throws window_error
inline std::vector<action> unshard_stages(std::span<action const> row, unshard_window window = {}) {
  expects(window.active > 0 && window.lookahead > 0, "a window of one stage at least");
  if (auto fault = find_window_fault(row, window.active)) throw window_error(*std::move(fault));
  return unsharder(row, window).take();
}

/// The passes that have been done, and thus those that can be done next. A forward pass needs those of the
/// preceding stages. B and I need their own forward pass and the gradients of the following stages. W needs
/// its own I. All other actions can always be done. Precondition throughout: stages and microbatches are in
/// range.
class passes_done {
 public:
  /// Precondition: `neighbours` outlives this object. O(stages * microbatches).
  passes_done(stage_neighbours const& neighbours, std::uint32_t microbatches)
      : neighbours_(neighbours), marks_({neighbours.stages(), 0, microbatches}) {}

  /// Returns true if the action can be done now. O(neighbours of the stage).
  bool is_ready(action const& a) const {
    using enum action_kind;
    if (!is_compute(a.kind)) return true;
    auto const s = index(a.stage);
    if (a.kind == forward) return all_have(neighbours_.before(s), a.microbatch, pass_mark::forward);
    if (a.kind == weight_gradient) return marks_.is_done(s, a.microbatch, pass_mark::half);
    return marks_.is_done(s, a.microbatch, pass_mark::forward) &&
           all_have(neighbours_.after(s), a.microbatch, pass_mark::gradient);
  }

  /// Does the parts in order if all can be done, and nothing otherwise. Returns how many can be done.
  std::size_t do_all(std::span<action const> parts) {
    auto const ready = marks_.count_ready(parts, [&](action const& a) { return is_ready(a); });
    if (ready == parts.size())
      for (action const& a : parts) marks_.set_done(a);
    return ready;
  }

 private:
  bool all_have(std::span<std::uint32_t const> stages, microbatch_id m, pass_mark what) const {
    return std::ranges::all_of(stages, [&](std::uint32_t s) { return marks_.is_done(s, m, what); });
  }

  stage_neighbours const& neighbours_;
  pass_marks marks_;
};

/// Adds messages to a schedule, for `send_in_rounds`.
class round_sender {
 public:
  explicit round_sender(schedule const& s) : lists_(s), done_(lists_.neighbours(), s.microbatches) {}

  schedule take() {
    while (go_round() || split_a_compound()) {
    }
    return lists_.finish();
  }

 private:
  /// Visits each rank once. Returns true if any rank made progress.
  bool go_round() {
    bool moved = false;
    for (std::uint32_t r = 0; r < lists_.ranks(); ++r) moved |= visit(r);
    return moved;
  }

  bool visit(std::uint32_t r) {
    if (lists_.at_end(r)) return false;
    auto const rest = lists_.rest_of_cell(r);
    if (done_.do_all(rest) < rest.size()) return false;
    take(r, rest.size());
    return true;
  }

  /// All ranks wait. The first rank that can do some parts of its compound does these alone, since others may
  /// wait for their results.
  bool split_a_compound() {
    for (std::uint32_t r = 0; r < lists_.ranks(); ++r) {
      if (lists_.at_end(r)) continue;
      auto const rest = lists_.rest_of_cell(r);
      auto const ready = done_.do_all(rest);
      if (ready == 0) continue;
      done_.do_all(rest.first(ready));
      take(r, ready);
      return true;
    }
    return false;
  }

  void take(std::uint32_t r, std::size_t parts) {
    for (action const& a : lists_.take(r, parts)) lists_.send_results(a, [](std::uint32_t) {});
  }

  sending_lists lists_;
  passes_done done_;
};

/// Returns a schedule with sends and receives, in PyTorch's order of messages. Visits the ranks in turn,
/// repeatedly, and takes the next action of each rank if its dependencies are met.
///
/// A result for a stage on another rank is sent right after the action that makes it, or after its whole
/// compound. It is the next thing that the other rank receives. All messages thus have one global order, so
/// that the schedule finishes whether or not sends wait for receives. Idle steps take a turn, but are
/// dropped.
///
/// Parts of a compound may depend on earlier parts. A compound is split where a part depends on another
/// rank's answer to an earlier part. O(actions + rounds * ranks), with at most as many rounds as actions.
/// \throws invalid_action_error, stuck_error
inline schedule send_in_rounds(schedule const& s) {
  require_valid_actions(s);
  require_counts(1, (std::max)(s.place.stages(), 1u), (std::max)(s.microbatches, 1u));
  return round_sender(s).take();
}

/// A send that would exceed the limit of sends in flight, where no earlier send can be waited for.
struct send_limit_fault {
  static constexpr char subject[] = "send budget: ";
  std::uint32_t rank = 0;
  std::uint32_t limit = 0;
  action send = {};
  std::vector<action> pending = {};

  bool operator==(send_limit_fault const&) const = default;
};

inline std::string describe(send_limit_fault const& f) {
  std::string pending;
  for (action const& a : f.pending) pending += (pending.empty() ? "" : ", ") + action_text(a);
  return "rank " + std::to_string(f.rank) + " may have " + std::to_string(f.limit) +
         " sends in flight and cannot wait for any of [" + pending + "] before '" + action_text(f.send) +
         "'; raise the limit or change the order";
}

using send_limit_error = fault_error<send_limit_fault>;

/// Moves waits forward, for `limit_sends`.
class send_limiter {
 public:
  send_limiter(schedule const& s, std::uint32_t limit) : before_(s), graph_(s), limit_(limit) {}

  schedule take() {
    schedule limited = before_;
    for (std::uint32_t r = 0; r < limited.ranks.size(); ++r) limited.ranks[r] = limit_rank(r);
    return limited;
  }

 private:
  struct pending_send {
    action what;
    message_graph::node receive;
  };

  std::vector<action> limit_rank(std::uint32_t r) {
    auto const& row = before_.ranks[r];
    std::vector<action> limited;
    limited.reserve(row.size());
    pending_.clear();
    for (std::size_t i = 0; i < row.size(); ++i) {
      action const& a = row[i];
      if (is_send(a.kind)) {
        auto const here = graph_.at(r, i);
        if (pending_.size() >= limit_) limited.push_back(wait_earlier(r, a, here));
        pending_.push_back({a, graph_.receive_of(here)});
      } else if (is_wait_send(a.kind)) {
        auto const send =
            std::ranges::find_if(pending_, [&](auto const& p) { return wait_for(p.what) == a; });
        if (send == pending_.end()) continue;  // its wait was brought forward
        pending_.erase(send);
      }
      limited.push_back(a);
    }
    return limited;
  }

  /// Returns the wait to insert before `send`. It is the first whose send has certainly been received by
  /// then, or else the first that causes no deadlock.
  action wait_earlier(std::uint32_t r, action const& send, message_graph::node here) {
    auto const received = std::ranges::find_if(
        pending_, [&](pending_send const& p) { return graph_.comes_before(p.receive, here); });
    auto const chosen =
        received != pending_.end() ? received : std::ranges::find_if(pending_, [&](pending_send const& p) {
          return graph_.may_follow(here, p.receive);
        });
    if (chosen == pending_.end()) {
      std::vector<action> all;
      for (auto const& p : pending_) all.push_back(p.what);
      throw send_limit_error({r, limit_, send, std::move(all)});
    }
    graph_.let_follow(here, chosen->receive);
    auto const wait = wait_for(chosen->what);
    pending_.erase(chosen);
    return wait;
  }

  schedule const& before_;
  message_graph graph_;
  std::uint32_t limit_;
  std::vector<pending_send> pending_;
};

/// Returns a schedule in which no rank has more than `limit` sends in flight. Before a send that would exceed
/// the limit, the wait for an earlier send is brought forward.
///
/// The chosen wait is the earliest whose receive precedes this point anyway, so that the wait costs nothing;
/// or else the earliest that causes no deadlock. Lower ranks come first. O(actions * limit), plus the actions
/// between each wait and its new place.
/// \throws invalid_action_error, send_wait_error, unreceived_error, message_cycle_error, send_limit_error
inline schedule limit_sends(schedule const& s, std::uint32_t limit) {
  require_valid_actions(s);
  require_send_waits(s);
  return send_limiter(s, limit).take();
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// The order of messages. Neither order can deadlock, with any communicator.
enum class message_order : std::uint8_t {
  timed,   ///< by the times at which passes end, so that no pass waits
  rounds,  ///< PyTorch's order: each rank in turn takes its next action
};

/// The messages that begin together.
enum class message_grouping : std::uint8_t {
  none,
  adjacent,  ///< neighbouring messages, unless a pass would wait; see `group_messages`
};

/// The time at which receives are posted.
enum class receive_time : std::uint8_t {
  at_once,   ///< as soon as the other rank sends
  deferred,  ///< when the received value is needed
};

/// The behaviour of sends in the communicator that will be used.
enum class send_manner : std::uint8_t {
  posted,    ///< the rank continues at once
  blocking,  ///< may block the rank, or all messages of a pair of ranks, until the other rank receives
};

/// The number of next stages whose weights are gathered ahead.
struct unshard_ahead {
  enum class policy : std::uint8_t {
    full,       ///< `max_active_stages`
    automatic,  ///< rank + 2, but at most `max_active_stages`
    /// The numbers in `stages`.
    by_rank,
  };
  policy how = policy::full;
  std::vector<std::int64_t> stages = {};  ///< by rank, each from 1 to `max_active_stages`
};

/// The options of `lower`, which turns a schedule of passes into one that can be run.
struct lower_options {
  message_order messages = message_order::timed;
  nominal_times times = {};  ///< for the timed order
  receive_time receives = receive_time::at_once;
  receive_order order = receive_order::as_sent;  ///< for deferred receives
  send_manner sends = send_manner::posted;
  std::int64_t max_active_stages = 3;  ///< stages of a rank whose weights are gathered at a time; 1 or more
  unshard_ahead lookahead = {};
  reduction_wait reductions = reduction_wait::at_once;
  std::optional<std::int64_t> max_outstanding_sends = {};  ///< per rank, 0 or more; no limit if empty
  message_grouping grouping = message_grouping::none;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// An invalid option and its value.
struct lower_option_fault {
  static constexpr char subject[] = "lower: ";
  enum class kind : std::uint8_t {
    active_stages,      ///< `got` is not positive
    lookahead_ranks,    ///< `got` numbers were given for `allowed` ranks
    lookahead,          ///< `got` for `rank` is not in [1, `allowed`]
    outstanding_sends,  ///< `got` is negative
    lowered_already,    ///< a look-ahead for a schedule that is already lowered
  };
  kind what;
  std::int64_t got = 0, allowed = 0;
  std::size_t rank = 0;

  bool operator==(lower_option_fault const&) const = default;
};

/// Returns a sentence that names the fault, its place and a remedy.
inline std::string describe(lower_option_fault const& f) {
  using enum lower_option_fault::kind;
  auto const got = std::to_string(f.got), allowed = std::to_string(f.allowed);
  switch (f.what) {
    case active_stages:
      return "max_active_stages is " + got + "; give 1 or more";
    case lookahead_ranks:
      return "lookahead has " + got + " numbers for " + allowed + " ranks; give each rank one";
    case lookahead:
      return "lookahead of rank " + std::to_string(f.rank) + " is " + got + "; give 1 to " + allowed +
             ", the active stages";
    case outstanding_sends:
      return "max_outstanding_sends is " + got + "; give 0 or more, or none";
    case lowered_already:
      return "lookahead must be full for a schedule that is already lowered; set it when lowering";
  }
  return {};
}

using lower_option_error = fault_error<lower_option_fault>;

/// Returns the first option that is invalid for `ranks` ranks, or nothing. O(ranks).
inline std::optional<lower_option_fault> find_lower_option_fault(lower_options const& o, std::size_t ranks) {
  using enum lower_option_fault::kind;
  if (o.max_active_stages < 1) return lower_option_fault{active_stages, o.max_active_stages};
  if (o.lookahead.how == unshard_ahead::policy::by_rank) {
    auto const& stages = o.lookahead.stages;
    if (stages.size() != ranks)
      return lower_option_fault{lookahead_ranks, static_cast<std::int64_t>(stages.size()),
                                static_cast<std::int64_t>(ranks)};
    for (std::size_t r = 0; r < ranks; ++r)
      if (stages[r] < 1 || stages[r] > o.max_active_stages)
        return lower_option_fault{lookahead, stages[r], o.max_active_stages, r};
  }
  if (o.max_outstanding_sends && *o.max_outstanding_sends < 0)
    return lower_option_fault{outstanding_sends, *o.max_outstanding_sends};
  return std::nullopt;
}

/// Returns the number of next stages whose weights rank `r` gathers. Precondition: the options are valid.
/// O(1).
inline std::int64_t lookahead_of(lower_options const& o, std::size_t r) {
  switch (o.lookahead.how) {
    case unshard_ahead::policy::full:
      break;
    case unshard_ahead::policy::automatic:
      return (std::min)(static_cast<std::int64_t>(r) + 2, o.max_active_stages);
    case unshard_ahead::policy::by_rank:
      return o.lookahead.stages[r];
  }
  return o.max_active_stages;
}

/// Returns the schedule with UNSHARD and RESHARD on every rank. \throws window_error
inline schedule unshard_stages(schedule s, lower_options const& options) {
  auto const count = [](std::int64_t n) {
    return static_cast<std::uint32_t>(std::min<std::int64_t>(n, (std::numeric_limits<std::uint32_t>::max)()));
  };
  for (std::size_t r = 0; r < s.ranks.size(); ++r)
    s.ranks[r] = unshard_stages(s.ranks[r], {.active = count(options.max_active_stages),
                                             .lookahead = count(lookahead_of(options, r))});
  return s;
}

/// Limits the sends of a lowered schedule as the options say.
/// \throws as the other `limit_sends`
inline schedule limit_sends(schedule s, lower_options const& options) {
  if (!options.max_outstanding_sends) return s;
  auto const limit = std::min<std::int64_t>(*options.max_outstanding_sends, most_actions);
  s = limit_sends(s, static_cast<std::uint32_t>(limit));
  require_send_waits(s);
  return s;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns a schedule that can be run, made from a schedule of passes. It adds messages, the waits for sends,
/// the gathering and freeing of weights, and the reduction of gradients.
///
/// Messages follow the order of time (`send_in_time`). With PyTorch's order (`message_order::rounds`) and
/// otherwise equal options, the lists equal those of PyTorch, with two exceptions for deferred receives.
/// Messages of a directed pair of ranks keep their order. If sends block, receives are not deferred, because
/// the schedule might deadlock.
///
/// O(actions * log ranks), plus the cost of `limit_sends`.
/// \throws lower_option_error, nominal_time_error, schedule_error, window_error, send_wait_error,
///   send_limit_error
inline schedule lower(schedule const& s, lower_options const& options = {}) {
  if (auto fault = detail::find_lower_option_fault(options, s.ranks.size()))
    throw detail::lower_option_error(*fault);
  detail::require_nominal_times(options.times, s.place);
  detail::require_schedule(s, {.passes = passes_of(s)});
  auto lowered = detail::reduce_gradients(detail::unshard_stages(s, options), options.reductions);
  lowered = options.messages == message_order::timed ? send_in_time(lowered, options.times)
                                                     : detail::send_in_rounds(lowered);
  lowered = add_send_waits(std::move(lowered));
  if (options.receives == receive_time::deferred && options.sends == send_manner::posted)
    lowered = detail::defer_receives(lowered, options.order);
  lowered = detail::limit_sends(std::move(lowered), options);
  return options.grouping == message_grouping::adjacent ? group_messages(std::move(lowered)) : lowered;
}

}  // namespace cleave
