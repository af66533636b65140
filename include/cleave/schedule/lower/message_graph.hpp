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
#include "cleave/core/ids.hpp"
#include "cleave/schedule/lower/message_table.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/action_text.hpp"
#include "cleave/schedule/model/schedule.hpp"

namespace cleave::detail {

/// A send that nothing receives.
class unreceived_error : public witness_error<action> {
 public:
  explicit unreceived_error(action const& send)
      : witness_error(
            "send budget: '" + action_text(send) + "' has no receive; let the other rank receive it", send) {}
};

/// Sends, receives and waits that wait for each other. The witness: an action of the cycle, or behind it.
class message_cycle_error : public witness_error<action> {
 public:
  explicit message_cycle_error(action const& at)
      : witness_error("send budget: sends, receives and waits make '" + action_text(at) + "' wait for ever",
                      at) {}
};

/// What comes before what in a lowered schedule: each action after the one before it in its list, a receive
/// after its send, and what follows the wait for a send after the receive of it. Waits may come earlier later
/// on; an order of all actions is kept up, so that questions look only at what lies in between.
///
/// Marchetti-Spaccamela, Nanni, Rohnert: Maintaining a topological order under edge insertions, 1996.
class message_graph {
 public:
  using node = std::uint32_t;

  /// Precondition: no stray action, waits pair with sends. Expected O(actions).
  /// \throws unreceived_error, message_cycle_error
  explicit message_graph(schedule const& s) : schedule_(s) {
    number_cells();
    match_messages();
    sort();
  }

  /// The node of the cell at `position` of the list of rank `r`; of a wait, the node of what follows it.
  node at(std::size_t r, std::size_t position) const { return number_[first_position_[r] + position]; }
  node receive_of(node send) const { return matching_[send]; }

  /// Whether `n` is done before anything on the rank of `later`, up to `later` itself, can be. O(those
  /// between).
  bool comes_before(node n, node later) {
    if (order_[n] > order_[later]) return false;
    return walk_from(n, order_[later], rank_[later]);
  }
  /// Whether `later` can be made to wait for `n`: it does not come before it. O(those between).
  bool may_follow(node later, node n) {
    if (order_[n] < order_[later]) return true;
    walk_from(later, order_[n], no_rank);
    return seen_[n] != walk_;
  }
  /// Lets `later` wait for a receive that follows its send. Precondition: `may_follow(later, receive)`.
  void let_follow(node later, node receive) {
    released_[receive] = later;
    if (order_[receive] > order_[later]) move_behind(later, receive);
  }

 private:
  static constexpr node none = (std::numeric_limits<node>::max)();
  static constexpr std::uint32_t no_rank = (std::numeric_limits<std::uint32_t>::max)();

  void number_cells() {
    std::size_t actions = 0;
    for (auto const& row : schedule_.ranks) actions += row.size() + 1;
    number_.reserve(actions);
    for (std::uint32_t r = 0; r < schedule_.ranks.size(); ++r) {
      first_position_.push_back(number_.size());
      auto const& row = schedule_.ranks[r];
      std::size_t parts_left = 0;
      for (std::size_t i = 0; i < row.size(); ++i) {
        auto const next = static_cast<node>(what_.size());
        number_.push_back(next);
        if (parts_left > 0) {
          --parts_left;
        } else if (!is_wait_send(row[i].kind)) {
          parts_left = row[i].parts;
          what_.push_back(row[i]);
          rank_.push_back(r);
        }
      }
      number_.push_back(static_cast<node>(what_.size()));
    }
    matching_.assign(what_.size(), none);
    released_.assign(what_.size(), none);
  }

  /// A message as its receiver names it.
  static action as_receive(action a) {
    bool const activation = is_activation_message(a.kind);
    std::swap(a.stage, a.peer);
    a.kind = activation ? action_kind::receive_activation : action_kind::receive_gradient;
    return a;
  }

  void match_messages() {
    message_table receives(what_.size() / 4);
    for (node n = 0; n < what_.size(); ++n)
      if (is_receive(what_[n].kind)) receives.add(what_[n], n);
    for (node n = 0; n < what_.size(); ++n) {
      if (!is_send(what_[n].kind)) continue;
      auto const* receive = receives.find(as_receive(what_[n]));
      if (!receive) throw unreceived_error(what_[n]);
      matching_[n] = static_cast<node>(receive->position);
    }
    for (std::uint32_t r = 0; r < schedule_.ranks.size(); ++r)
      for (std::size_t i = 0; i < schedule_.ranks[r].size(); ++i) {
        action const& a = schedule_.ranks[r][i];
        if (!is_wait_send(a.kind)) continue;
        auto const* receive = receives.find(as_receive(a));
        if (!receive) throw unreceived_error(a);
        auto const next = at(r, i);
        if (next < what_.size() && rank_[next] == r) released_[receive->position] = next;
      }
  }

  /// `f(next)` for each node that waits for `n`.
  template <class F>
  void each_next(node n, F f) const {
    if (n + 1 < what_.size() && rank_[n + 1] == rank_[n]) f(n + 1);
    if (is_send(what_[n].kind)) f(matching_[n]);
    if (released_[n] != none) f(released_[n]);
  }

  void sort() {
    std::vector<std::uint32_t> missing(what_.size());
    for (node n = 0; n < what_.size(); ++n) each_next(n, [&](node next) { ++missing[next]; });
    for (node n = 0; n < what_.size(); ++n)
      if (missing[n] == 0) in_order_.push_back(n);
    for (std::size_t i = 0; i < in_order_.size(); ++i)
      each_next(in_order_[i], [&](node next) {
        if (--missing[next] == 0) in_order_.push_back(next);
      });
    if (in_order_.size() < what_.size()) {
      auto const waiting = std::ranges::find_if(missing, [](std::uint32_t n) { return n > 0; });
      throw message_cycle_error(what_[static_cast<std::size_t>(waiting - missing.begin())]);
    }
    order_.resize(what_.size());
    for (std::uint32_t i = 0; i < in_order_.size(); ++i) order_[in_order_[i]] = i;
    seen_.assign(what_.size(), 0);
  }

  /// Marks what comes after `from` and not after place `last` of the order. Stops with true at the first node
  /// of rank `goal`.
  bool walk_from(node from, std::uint32_t last, std::uint32_t goal) {
    ++walk_;
    to_visit_.assign(1, from);
    seen_[from] = walk_;
    while (!to_visit_.empty()) {
      auto const n = to_visit_.back();
      to_visit_.pop_back();
      if (rank_[n] == goal) return true;
      each_next(n, [&](node next) {
        if (order_[next] > last || seen_[next] == walk_) return;
        seen_[next] = walk_;
        to_visit_.push_back(next);
      });
    }
    return false;
  }

  /// Puts `later` and what comes after it behind `n` in the order, which stood behind `later`.
  void move_behind(node later, node n) {
    walk_from(later, order_[n], no_rank);
    std::vector<node> moved;
    auto place = order_[later];
    for (auto i = order_[later], last = order_[n]; i <= last; ++i) {
      auto const m = in_order_[i];
      if (seen_[m] == walk_)
        moved.push_back(m);
      else
        put(m, place++);
    }
    for (auto const m : moved) put(m, place++);
  }
  void put(node n, std::uint32_t place) {
    in_order_[place] = n;
    order_[n] = place;
  }

  schedule const& schedule_;
  std::vector<std::size_t> first_position_;  ///< of a rank, in `number_`
  std::vector<node> number_;                 ///< by position
  std::vector<action> what_;
  std::vector<std::uint32_t> rank_;
  std::vector<node> matching_;  ///< of a send: its receive
  std::vector<node> released_;  ///< of a receive: what follows the wait for its send
  std::vector<node> in_order_;
  std::vector<std::uint32_t> order_;  ///< of a node: its place in `in_order_`
  std::vector<std::uint64_t> seen_;   ///< by which walk last
  std::vector<node> to_visit_;
  std::uint64_t walk_ = 0;
};

}  // namespace cleave::detail
