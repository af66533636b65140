// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <bit>
#include <compare>
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
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_dependencies.hpp"

namespace cleave::inline v0_2::detail {

/// A hash table of the messages of one rank, by stage, microbatch and kind. Its size depends only on the
/// number of entries, not on these numbers.
class message_table {
 public:
  struct entry {
    action what;
    std::size_t position = 0;  ///< set by the owner of the table
    bool open = true;
    std::uint32_t next = none;  ///< the next entry of the same stage, microbatch and kind
  };

  explicit message_table(std::size_t messages = 0) {
    entries_.reserve(messages);
    grow(messages);
  }

  /// Adds an open entry. Expected O(1).
  void add(action const& a, std::size_t position) {
    if (entries_.size() * 2 >= slots_.size()) grow(entries_.size() + 1);
    entries_.push_back({a, position});
    link(static_cast<std::uint32_t>(entries_.size() - 1));
  }

  /// Returns the last added entry with the stage, peer, microbatch and flow of `a`, or null. Valid until the
  /// next entry is added. Expected O(1).
  entry* find(action const& a) {
    entry* found = nullptr;
    each(a.stage, a.microbatch, is_activation_message(a.kind), [&](entry& e) {
      if (e.what.peer == a.peer) found = &e;
    });
    return found;
  }

  /// Calls `f(entry)` for each entry of a stage, microbatch and flow, in the order of insertion. Expected
  /// O(calls).
  template <class F>
  void each(stage_id s, microbatch_id i, bool activations, F f) {
    for (auto e = slots_[slot_of(s, i, activations)]; e != none; e = entries_[e].next) f(entries_[e]);
  }

  /// Returns all entries in the order of insertion.
  std::span<entry> entries() { return entries_; }

 private:
  static constexpr std::uint32_t none = (std::numeric_limits<std::uint32_t>::max)();

  /// Returns the slot of the first entry with this key, or an empty slot.
  std::size_t slot_of(stage_id s, microbatch_id i, bool activations) const {
    auto const key = (std::uint64_t{index(s)} << 32 | index(i)) * 2 + (activations ? 1 : 0);
    auto at = static_cast<std::size_t>((key ^ key >> 29) * 0x9e3779b97f4a7c15 >> shift_);
    for (;; at = (at + 1) & (slots_.size() - 1)) {
      if (slots_[at] == none) return at;
      action const& a = entries_[slots_[at]].what;
      if (a.stage == s && a.microbatch == i && is_activation_message(a.kind) == activations) return at;
    }
  }

  void link(std::uint32_t number) {
    action const& a = entries_[number].what;
    auto* last = &slots_[slot_of(a.stage, a.microbatch, is_activation_message(a.kind))];
    while (*last != none) last = &entries_[*last].next;
    *last = number;
  }

  void grow(std::size_t messages) {
    unsigned bits = 4;
    while ((std::size_t{1} << bits) < 4 * messages) ++bits;
    shift_ = 64 - bits;
    slots_.assign(std::size_t{1} << bits, none);
    for (auto& e : entries_) e.next = none;
    for (std::uint32_t e = 0; e < entries_.size(); ++e) link(e);
  }

  std::vector<entry> entries_;
  std::vector<std::uint32_t> slots_;  ///< the first entry of each stage, microbatch and kind
  unsigned shift_ = 0;
};

/// Thrown if a send has no receive. The witness is the send.
using unreceived_error = tagged_error<struct unreceived_tag, action>;

/// Thrown if sends, receives and waits wait for each other. The witness is an action of the cycle or behind
/// it.
using message_cycle_error = tagged_error<struct message_cycle_tag, action>;

/// The precedence graph of a lowered schedule, with a topological order that is maintained while waits move
/// forward. Each action follows its predecessor in the list. A receive follows its send. The action after a
/// wait follows the receive of the awaited send. Queries look only at the nodes between two places of the
/// order.
///
/// Source: Marchetti-Spaccamela, Nanni, Rohnert, "Maintaining a topological order under edge insertions",
/// 1996.
class message_graph {
 public:
  using node = std::uint32_t;

  /// Keeps a reference to the schedule. Precondition: all actions are valid, and waits pair with sends.
  /// Expected O(actions).
  /// \throws unreceived_error, message_cycle_error
  explicit message_graph(schedule const& s) : schedule_(s) {
    number_cells();
    match_messages();
    sort();
  }

  /// Returns the node of the cell at `position` in the list of rank `r`. A wait has the node of the action
  /// after it.
  node at(std::size_t r, std::size_t position) const { return number_[first_position_[r] + position]; }
  /// Returns the node of the receive of a send.
  node receive_of(node send) const { return matching_[send]; }

  /// Returns true if `n` precedes `later`. O(nodes between).
  bool comes_before(node n, node later) {
    if (order_[n] > order_[later]) return false;
    return walk_from(n, order_[later], rank_[later]);
  }
  /// Returns true if `later` can wait for `n`, that is, if `later` does not precede `n`. O(nodes between).
  bool may_follow(node later, node n) {
    if (order_[n] < order_[later]) return true;
    walk_from(later, order_[n], no_rank);
    return seen_[n] != walk_;
  }
  /// Makes `later` wait for a receive instead of the action that waited for it before. Precondition:
  /// `may_follow(later, receive)`.
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

  /// Returns a message as its receiver names it.
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
    auto const position_of_receive = [&](action const& send) {
      if (auto const* receive = receives.find(as_receive(send))) return receive->position;
      throw unreceived_error(
          "send budget: '" + action_text(send) + "' has no receive; let the other rank receive it", send);
    };
    for (node n = 0; n < what_.size(); ++n)
      if (is_send(what_[n].kind)) matching_[n] = static_cast<node>(position_of_receive(what_[n]));
    for (std::uint32_t r = 0; r < schedule_.ranks.size(); ++r)
      for (std::size_t i = 0; i < schedule_.ranks[r].size(); ++i) {
        action const& a = schedule_.ranks[r][i];
        if (!is_wait_send(a.kind)) continue;
        auto const receive = position_of_receive(a);
        auto const next = at(r, i);
        if (next < what_.size() && rank_[next] == r) released_[receive] = next;
      }
  }

  /// Calls `f(next)` for each node that waits for `n`.
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
      action const& at = what_[static_cast<std::size_t>(waiting - missing.begin())];
      throw message_cycle_error(
          "send budget: sends, receives and waits make '" + action_text(at) + "' wait forever", at);
    }
    order_.resize(what_.size());
    for (std::uint32_t i = 0; i < in_order_.size(); ++i) order_[in_order_[i]] = i;
    seen_.assign(what_.size(), 0);
  }

  /// Marks the nodes that follow `from`, up to place `last` of the order. Stops and returns true at the first
  /// node of rank `goal`.
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

  /// Moves `later` and its followers behind `n` in the order. Precondition: `n` is behind `later`.
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
  std::vector<std::size_t> first_position_;  ///< by rank: an index into `number_`
  std::vector<node> number_;                 ///< by position: its node
  std::vector<action> what_;
  std::vector<std::uint32_t> rank_;
  std::vector<node> matching_;  ///< of a send: its receive
  std::vector<node> released_;  ///< of a receive: the action after the wait for its send
  std::vector<node> in_order_;
  std::vector<std::uint32_t> order_;  ///< by node: its place in `in_order_`
  std::vector<std::uint64_t> seen_;   ///< by node: the last walk that reached it
  std::vector<node> to_visit_;
  std::uint64_t walk_ = 0;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// A directed pair of ranks, which one communicator can serve.
struct rank_edge {
  rank_id from, to;

  auto operator<=>(rank_edge const&) const = default;
};

/// Pairs of ranks that can be connected at the same time: no rank is in two edges of a round.
using edge_round = std::vector<rank_edge>;

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the pairs of ranks with an edge between their stages in either direction. Each pair occurs once,
/// the lower rank first; pairs ascend. O(edges log edges). \throws stage_placement_error
inline std::vector<rank_edge> rank_pairs(stage_placement const& p) {
  if (auto const f = find_stage_placement_fault(p)) throw stage_placement_error(*f);
  std::vector<rank_edge> pairs;
  for (auto const& e : p.edges) {
    auto const [low, high] = std::minmax(p.rank_of[index(e.from)], p.rank_of[index(e.to)]);
    if (low != high) pairs.push_back({low, high});
  }
  std::ranges::sort(pairs);
  pairs.erase(std::ranges::unique(pairs).begin(), pairs.end());
  return pairs;
}

/// The rounds in which each rank takes part, as bit sets.
class rounds_of_ranks {
 public:
  explicit rounds_of_ranks(std::uint32_t ranks) : taken_(ranks) {}

  /// Returns the first round in which neither rank takes part, and marks both. O(rounds / 64).
  std::size_t take(rank_edge e) {
    auto& one = taken_[index(e.from)];
    auto& other = taken_[index(e.to)];
    for (std::size_t word = 0;; ++word) {
      if (one.size() <= word) one.resize(word + 1);
      if (other.size() <= word) other.resize(word + 1);
      auto const both = one[word] | other[word];
      if (~both == 0) continue;
      auto const bit = static_cast<std::size_t>(std::countr_one(both));
      one[word] |= std::uint64_t{1} << bit;
      other[word] |= std::uint64_t{1} << bit;
      return 64 * word + bit;
    }
  }

 private:
  std::vector<std::vector<std::uint64_t>> taken_;  // by rank
};

/// Returns all pairs of ranks in rounds, each in the first round in which neither of its ranks takes part. If
/// a rank has at most d peers, there are at most 2 d - 1 rounds. All ranks can then warm up connections or
/// set up communicators one round at a time. O(edges log edges + pairs * rounds / 64).
/// \throws stage_placement_error
inline std::vector<edge_round> edge_matchings(stage_placement const& p) {
  std::vector<edge_round> rounds;
  rounds_of_ranks taken(p.ranks);
  for (auto const pair : rank_pairs(p)) {
    auto const round = taken.take(pair);
    if (round == rounds.size()) rounds.emplace_back();
    rounds[round].push_back(pair);
  }
  return rounds;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns rounds of directed pairs: each round of undirected pairs of ranks, then the same round reversed.
/// No rank is in two edges of a round. PyTorch makes one communicator per edge.
/// O(edges log edges + pairs * rounds / 64).
/// \throws stage_placement_error
inline std::vector<edge_round> directed_rounds(stage_placement const& p) {
  std::vector<edge_round> rounds;
  for (auto& round : detail::edge_matchings(p)) {
    auto back = round;
    for (auto& e : back) std::swap(e.from, e.to);
    rounds.push_back(std::move(round));
    rounds.push_back(std::move(back));
  }
  return rounds;
}

}  // namespace cleave
