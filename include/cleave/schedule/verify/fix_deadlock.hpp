// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/delivery.hpp"
#include "cleave/schedule/model/invalid_action.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_dependencies.hpp"
#include "cleave/schedule/verify/deadlock.hpp"
#include "cleave/schedule/verify/verify.hpp"

namespace cleave::inline v0_2::detail {

/// The way in which `deadlock_fixer` runs messages.
enum class fix_messages : std::uint8_t {
  meet,      ///< a send and its receive are done at once; an order that finishes so finishes under all rules
  are_kept,  ///< a send does not wait
  begin,     ///< neither end waits
};

/// Runs the lists of a schedule, for `find_deadlock_fix`. If all ranks wait, it brings forward an action that
/// one of them waits for, with everything that must precede that action. Actions are numbered rank after
/// rank.
class deadlock_fixer {
 public:
  using node = std::uint32_t;
  static constexpr node no_node = 0xffffffff;

  /// An action that is brought forward to right before another action.
  struct move {
    node what, before;
  };

  /// Keeps a reference to the schedule. Precondition: all actions are valid.
  deadlock_fixer(schedule const& s, fix_messages messages)
      : schedule_(s), dependencies_(s), messages_(messages) {
    link();
    happened_.resize(dependencies_.events());
    gathered_.resize(s.place.stages());
  }

  /// Returns the moves with which all lists finish, in order. Returns nothing if a list waits for an event
  /// that never happens.
  std::optional<std::vector<move>> run() {
    for (;;) {
      go_on();
      std::vector<node> best;
      std::uint64_t least = ~std::uint64_t{0};
      for (auto const front : front_) {
        if (front == no_node) continue;
        if (!find_requirements(front)) continue;
        if (auto const cost = cost_of(required_); cost < least) {
          least = cost;
          best = required_;
        }
      }
      if (best.empty()) break;
      bring_forward(best);
    }
    for (auto const front : front_)
      if (front != no_node) return std::nullopt;
    return std::move(moves_);
  }

 private:
  void link() {
    for (std::uint32_t r = 0; r < schedule_.ranks.size(); ++r) {
      auto const first = static_cast<node>(what_.size());
      for (action const& a : schedule_.ranks[r]) {
        auto const n = static_cast<node>(what_.size());
        what_.push_back(a);
        rank_.push_back(r);
        before_.push_back(n == first ? no_node : n - 1);
        after_.push_back(n + 1);
      }
      if (what_.size() > first) after_.back() = no_node;
      front_.push_back(what_.size() > first ? first : no_node);
    }
    mark_.resize(what_.size());
    brings_.assign(dependencies_.events(), no_node);
    for (auto n = static_cast<node>(what_.size()); n-- > 0;)
      each_event(n, [&](std::uint32_t event) { brings_[event] = n; });
  }

  bool is_end(node n) const {
    return (is_send(what_[n].kind) || is_receive(what_[n].kind)) &&
           dependencies_.message_end(what_[n]) != schedule_dependencies::none;
  }
  template <class F>
  void each_event(node n, F f) const {
    if (is_end(n))
      f(dependencies_.message_end(what_[n]));
    else if (is_compute(what_[n].kind) && dependencies_.in_range(what_[n]))
      dependencies_.each_effect(what_[n], f);
  }
  /// Returns the other end of the message if sends and receives complete together, else `no_node`.
  node partner(node n) const {
    if (messages_ != fix_messages::meet || !is_end(n)) return no_node;
    return brings_[schedule_dependencies::other_end(dependencies_.message_end(what_[n]))];
  }

  /// Calls `f(event)` for each event that must precede an action, until a call returns false.
  template <class F>
  bool each_dependency(node n, F f) const {
    action const& a = what_[n];
    if (is_compute(a.kind)) return !dependencies_.in_range(a) || dependencies_.each_dependency(a, f);
    if (!is_message(a.kind)) return true;
    auto const end = dependencies_.message_end(a);
    if (end == schedule_dependencies::none) return true;
    auto const other = schedule_dependencies::other_end(end);
    if (is_wait_send(a.kind)) return f(messages_ == fix_messages::begin ? other : end);
    if (is_send(a.kind)) return brings_[dependencies_.pass_of(a)] == no_node || f(dependencies_.pass_of(a));
    return messages_ != fix_messages::are_kept || f(other);
  }
  bool has_dependencies(node n) const {
    return each_dependency(n, [&](std::uint32_t event) { return happened_[event] != 0; });
  }

  void go_on() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < front_.size(); ++r)
        while (front_[r] != no_node && is_next(front_[r])) {
          auto const other = partner(front_[r]);
          finish(front_[r]);
          if (other != no_node) finish(other);
          moved = true;
        }
    }
  }
  bool is_next(node n) const {
    if (!has_dependencies(n)) return false;
    if (messages_ != fix_messages::meet || !is_end(n) || happened_[dependencies_.message_end(what_[n])])
      return true;
    auto const other = partner(n);
    return other != no_node && front_[rank_[other]] == other && has_dependencies(other);
  }
  void finish(node n) {
    each_event(n, [&](std::uint32_t event) { happened_[event] = 1; });
    auto const kind = what_[n].kind;
    if (kind == action_kind::unshard || kind == action_kind::reshard)
      gathered_[index(what_[n].stage)] = kind == action_kind::unshard ? 1 : 0;
    if (front_[rank_[n]] == n) front_[rank_[n]] = after_[n];
    mark_[n] = is_done;
  }

  /// Returns true if the first of two actions of a rank must stay before the second wherever that is moved.
  /// Messages of a directed pair of ranks keep their order, except with `meet`, where both ends move alike. A
  /// pass stays after the UNSHARD of its stage if the weights are not gathered yet. It also stays after
  /// offloads, reloads and recomputations of its microbatch. Other actions that are not messages stay after
  /// all earlier ones of their stage.
  bool keeps_order(node first, node second) const {
    auto const &a = what_[first], &b = what_[second];
    if (is_end(first) && is_end(second))
      return messages_ != fix_messages::meet && is_send(a.kind) == is_send(b.kind) && peer(a) == peer(b);
    if (is_message(a.kind) || is_message(b.kind) || a.stage != b.stage) return false;
    if (!is_compute(b.kind)) return true;
    if (a.kind == action_kind::unshard) return gathered_[index(a.stage)] == 0;
    return a.kind >= action_kind::offload && a.microbatch == b.microbatch;
  }
  rank_id peer(action const& a) const { return schedule_.place.rank_of[index(a.peer)]; }

  /// Lists in `required_` the actions that must still be done, up to and including `goal`, each after its own
  /// requirements. Returns false if one of them is never done or requires itself.
  bool find_requirements(node goal) {
    required_.clear();
    bool possible = true;
    to_visit_.assign(1, goal);
    while (!to_visit_.empty() && possible) {
      auto const n = to_visit_.back();
      if (mark_[n] == is_listed || mark_[n] == is_done || mark_[n] == is_open) {
        to_visit_.pop_back();
        if (mark_[n] == is_open) list(n);
        continue;
      }
      open(n);
      auto const other = partner(n);
      if (other != no_node) open(other);
      possible = visit_dependencies(n) && (other == no_node || visit_dependencies(other));
      if (messages_ == fix_messages::meet && is_end(n) && other == no_node) possible = false;
    }
    for (auto const n : touched_)
      if (mark_[n] != is_done) mark_[n] = is_new;
    touched_.clear();
    return possible;
  }
  void open(node n) {
    mark_[n] = is_open;
    touched_.push_back(n);
  }
  void list(node n) {
    auto const other = partner(n);
    // The send is listed before its receive.
    if (other != no_node && is_receive(what_[n].kind)) return list(other);
    for (auto const m : {n, other})
      if (m != no_node) {
        mark_[m] = is_listed;
        required_.push_back(m);
      }
  }
  bool visit_dependencies(node n) {
    auto const visit = [&](node m) {
      if (m == no_node || mark_[m] == is_open) return false;
      if (mark_[m] == is_new) to_visit_.push_back(m);
      return true;
    };
    for (auto m = front_[rank_[n]]; m != n && m != no_node; m = after_[m])
      if (keeps_order(m, n) && !visit(m)) return false;
    return each_dependency(n, [&](std::uint32_t event) { return happened_[event] || visit(brings_[event]); });
  }

  /// Calls `f(action, the action it moves before)` for each action that is not at its required place.
  template <class F>
  void each_move(std::vector<node> const& nodes, F f) {
    std::vector<std::pair<std::uint32_t, node>> next;  // by rank: the next action, which stays
    for (auto const n : nodes) {
      std::size_t i = 0;
      while (i < next.size() && next[i].first != rank_[n]) ++i;
      if (i == next.size()) next.push_back({rank_[n], front_[rank_[n]]});
      auto& at = next[i].second;
      while (at != no_node && mark_[at] == is_placed) at = after_[at];
      if (at != n) f(n, at);
      mark_[n] = is_placed;
    }
    for (auto const n : nodes) mark_[n] = is_new;
  }

  /// Returns the cost of bringing actions forward: the number of moved actions, and among equals the distance
  /// they move.
  std::uint64_t cost_of(std::vector<node> const& nodes) {
    std::uint64_t count = 0, steps = 0;
    each_move(nodes, [&](node n, node before) {
      ++count;
      for (auto m = before; m != n && m != no_node; m = after_[m]) ++steps;
    });
    return count << 32 | (steps & 0xffffffff);
  }

  void bring_forward(std::vector<node> const& nodes) {
    std::vector<move> moves;
    each_move(nodes, [&](node n, node before) { moves.push_back({n, before}); });
    for (auto const& m : moves) put_before(m);
    moves_.insert(moves_.end(), moves.begin(), moves.end());
  }
  void put_before(move const& m) {
    auto const [n, next] = m;
    if (before_[n] != no_node) after_[before_[n]] = after_[n];
    if (after_[n] != no_node) before_[after_[n]] = before_[n];
    before_[n] = before_[next];
    after_[n] = next;
    if (before_[next] != no_node) after_[before_[next]] = n;
    before_[next] = n;
    if (front_[rank_[n]] == next) front_[rank_[n]] = n;
  }

  enum node_mark : unsigned char { is_new, is_open, is_listed, is_placed, is_done };

  schedule const& schedule_;
  schedule_dependencies dependencies_;
  fix_messages messages_;
  std::vector<action> what_;
  std::vector<std::uint32_t> rank_;
  std::vector<node> before_, after_;  // in the current list
  std::vector<node> front_;           // by rank: the first action that is not done
  std::vector<node> brings_;          // by event: the first action that triggers it
  std::vector<char> happened_;
  std::vector<char> gathered_;  // by stage: true if its weights are gathered
  std::vector<node_mark> mark_;
  std::vector<node> required_, to_visit_, touched_;
  std::vector<move> moves_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// An action that is now further ahead in the list of its rank.
struct moved_action {
  rank_id rank;
  action what;
  std::size_t from, to;  ///< its index in the list before and after, parts counted

  bool operator==(moved_action const&) const = default;
};

/// Returns the move as text, such as `rank 1: '1RECV_F1' from #6 to #4`.
inline std::string describe(moved_action const& m) {
  return "rank " + std::to_string(index(m.rank)) + ": '" + action_text(m.what) + "' from #" +
         std::to_string(m.from) + " to #" + std::to_string(m.to);
}

/// A schedule that finishes, and the actions that were moved for this.
struct deadlock_free_order {
  schedule order;
  std::vector<moved_action> moved;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Builds the lists with some of the moves carried out, for `find_deadlock_fix`.
class moved_lists {
 public:
  moved_lists(schedule const& s, std::vector<deadlock_fixer::move> moves)
      : schedule_(s), moves_(std::move(moves)), carried_out_(moves_.size(), true) {}

  std::size_t moves() const { return moves_.size(); }
  void carry_out(std::size_t move, bool whether) { carried_out_[move] = whether; }

  /// Returns the lists with the chosen moves. O(actions).
  deadlock_free_order take() const {
    deadlock_free_order result{{schedule_.place, schedule_.microbatches, {}}, {}};
    std::vector<std::vector<std::size_t>> brought(count());  // by action: the moves to right before it
    std::vector<char> is_moved(count());
    for (std::size_t m = 0; m < moves_.size(); ++m)
      if (carried_out_[m]) {
        brought[moves_[m].before].push_back(m);
        is_moved[moves_[m].what] = 1;
      }
    std::size_t first = 0;
    for (std::uint32_t r = 0; r < schedule_.ranks.size(); ++r) {
      auto const& row = schedule_.ranks[r];
      auto& to = result.order.ranks.emplace_back();
      auto const bring = [&](std::size_t before) {
        for (auto const m : brought[before]) {
          auto const what = row[moves_[m].what - first];
          result.moved.push_back({rank_id{r}, what, moves_[m].what - first, to.size()});
          to.push_back(what);
        }
      };
      for (std::size_t i = 0; i < row.size(); ++i) {
        bring(first + i);
        std::size_t const parts = row[i].parts;
        bool whole = i + parts < row.size();
        for (std::size_t part = 1; part <= parts && whole; ++part)
          whole = !is_moved[first + i + part] && (part == 1 || brought[first + i + part].empty());
        if (parts > 0 && whole) {
          bring(first + i + 1);
          to.insert(to.end(), row.begin() + static_cast<std::ptrdiff_t>(i),
                    row.begin() + static_cast<std::ptrdiff_t>(i + parts + 1));
          i += parts;
        } else if (parts == 0 && !is_moved[first + i]) {
          to.push_back(row[i]);
        }
      }
      first += row.size();
    }
    return result;
  }

 private:
  std::size_t count() const {
    std::size_t actions = 0;
    for (auto const& row : schedule_.ranks) actions += row.size();
    return actions;
  }

  schedule const& schedule_;
  std::vector<deadlock_fixer::move> moves_;
  std::vector<char> carried_out_;
};

/// Undoes, last first, each move that is not needed.
inline deadlock_free_order with_fewest_moves(moved_lists lists, delivery_rules const& rules) {
  verify_options const options{.delivery = rules.delivery, .buffers = rules.buffers, .groups = rules.groups};
  auto best = lists.take();
  auto const faults = schedule_faults(best.order, options).size();
  for (auto m = lists.moves(); m-- > 0;) {
    lists.carry_out(m, false);
    auto shorter = lists.take();
    if (!find_deadlock(shorter.order, rules) && schedule_faults(shorter.order, options).size() <= faults)
      best = std::move(shorter);
    else
      lists.carry_out(m, true);
  }
  return best;
}

/// The maximum effort of `find_deadlock_fix` for undoing moves, as moves times actions.
inline constexpr std::uint64_t max_fix_work = std::uint64_t{1} << 26;

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the schedule in an order that finishes under these rules, or nothing if an action waits for an
/// event that never happens. A schedule that already finishes is returned unchanged.
///
/// The lists are run. When all ranks wait, the method brings forward an action that one of them waits for,
/// together with its dependencies. It chooses the action that takes the fewest moves. Each directed pair of
/// ranks keeps the order of its sends, and receives follow that order. Afterwards, actions are moved back to
/// their old places as long as the schedule still finishes. No remaining move is then superfluous. This step
/// is skipped if moves times actions exceed `max_fix_work`. A compound is dissolved if an action moves
/// between its parts. A rank may keep more saved activations than before.
///
/// O(actions + moves · (ranks · dependencies of the waiting actions + actions)).
/// \throws invalid_action_error, stage_placement_error, schedule_count_error
inline std::optional<deadlock_free_order> find_deadlock_fix(schedule const& s,
                                                            delivery_rules const& rules = {}) {
  detail::require_valid_actions(s);
  if (!find_deadlock(s, rules)) return deadlock_free_order{s, {}};
  std::optional<std::vector<detail::deadlock_fixer::move>> moves;
  if (rules.delivery == delivery::async)
    moves = detail::deadlock_fixer(s, detail::fix_messages::begin).run();
  else if (rules.delivery == delivery::buffered && rules.buffers == any_number)
    moves = detail::deadlock_fixer(s, detail::fix_messages::are_kept).run();
  // If messages cannot keep their order, or may block each other, both ends are moved into one common order.
  if (!moves) moves = detail::deadlock_fixer(s, detail::fix_messages::meet).run();
  if (!moves) return std::nullopt;
  std::uint64_t const work = moves->size() * count_actions(s);
  detail::moved_lists lists(s, std::move(*moves));
  return work > detail::max_fix_work ? lists.take() : detail::with_fewest_moves(std::move(lists), rules);
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Thrown if no order of the actions avoids a deadlock. The witness is the deadlock.
using deadlock_fix_error = tagged_error<struct deadlock_fix_tag, deadlock>;

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the same as `find_deadlock_fix`.
/// \throws deadlock_fix_error if no order finishes, and as `find_deadlock_fix`
inline deadlock_free_order fix_deadlock(schedule const& s, delivery_rules const& rules = {}) {
  if (auto repaired = find_deadlock_fix(s, rules)) return *std::move(repaired);
  auto const d = *find_deadlock(s, rules);
  throw detail::deadlock_fix_error("repair: ranks wait for actions that are never done: " + describe(d) +
                                       "; schedule_faults names what is missing",
                                   d);
}

}  // namespace cleave
