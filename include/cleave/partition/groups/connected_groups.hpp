// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <utility>
#include <vector>

#include "cleave/graph/csr.hpp"
#include "cleave/graph/joined_sets.hpp"
#include "cleave/partition/groups/capability_units.hpp"

namespace cleave::detail {

/// Merges supported units along values wherever that closes no cycle; `connected_groups` is its one use.
///
/// Each group, and each unit in none, has a height: above all that need it. So two groups with an edge from
/// one to the other may be merged if no other path leads from the upper one to the lower, and that path would
/// stay between their heights, where it is searched.
template <std::unsigned_integral Index>
class group_contraction {
 public:
  group_contraction(capability_units<Index> const& u, std::size_t effort)
      : u_(u),
        effort_(effort),
        sets_(u.size()),
        height_(u.size()),
        below_(u.size()),
        above_(u.size()),
        seen_(u.size()) {}

  /// Of each unit a unit that stands for its group.
  std::vector<Index> run() {
    for (std::size_t n = u_.size(); n-- > 0;) {
      link(static_cast<Index>(n));
      if (u_.supported[n]) merge_below(static_cast<Index>(n));
    }
    std::vector<Index> group(u_.size());
    for (std::size_t n = 0; n < group.size(); ++n) group[n] = sets_[n];
    return group;
  }

 private:
  /// One end of a search for a path.
  struct side {
    std::vector<std::vector<Index>> const* next;
    std::vector<Index> rest;
    std::size_t mark, steps = 0;
  };

  void link(Index n) {
    ++stamp_;
    for (Index const user : u_.needed_by[n]) {
      Index const to = sets_[user];
      if (std::exchange(seen_[to], stamp_) == stamp_) continue;
      below_[n].push_back(to);
      above_[to].push_back(n);
      height_[n] = (std::max)(height_[n], height_[to] + 1);
    }
  }

  /// Merges into `g` the groups directly below it, one after the other, where that is legal.
  void merge_below(Index g) {
    std::vector<Index> targets;
    for (Index const to : tidy(below_, g))
      if (u_.supported[to]) targets.push_back(to);
    for (Index const to : targets)
      if (!other_path(g, to)) g = merge(g, to);
  }

  /// The groups that list `g` of `table` names, each once.
  std::vector<Index> const& tidy(std::vector<std::vector<Index>>& table, Index g) {
    auto& list = table[g];
    ++stamp_;
    std::size_t kept = 0;
    for (Index const x : list) {
      Index const root = sets_[x];
      if (root != g && std::exchange(seen_[root], stamp_) != stamp_) list[kept++] = root;
    }
    list.resize(kept);
    return list;
  }

  /// Whether a path of two edges or more leads from `from` to `to`, or the search for one takes too long:
  /// from both ends, the side that has looked at fewer edges next, until they meet or one has seen all it
  /// can.
  bool other_path(Index from, Index to) {
    auto const low = height_[to], high = height_[from];
    if (high == low + 1) return false;
    auto const marks = stamp_ += 2;
    side down{&below_, {from}, marks - 1}, up{&above_, {to}, marks};
    stamp_ += 1;
    seen_[from] = down.mark;
    seen_[to] = up.mark;
    while (down.steps + up.steps <= effort_) {
      side& s = down.steps <= up.steps ? down : up;
      if (s.rest.empty()) return false;
      Index const x = s.rest.back();
      s.rest.pop_back();
      for (Index const y : (*s.next)[x]) {
        Index const root = sets_[y];
        ++s.steps;
        bool const direct = (x == from && root == to) || (x == to && root == from);
        if (direct || seen_[root] == s.mark) continue;
        if (seen_[root] == (s.mark == marks ? marks - 1 : marks)) return true;
        if (height_[root] <= low || height_[root] >= high) continue;
        seen_[root] = s.mark;
        s.rest.push_back(root);
      }
    }
    return true;
  }

  /// One group of `upper` and `lower`, with the height that is needed: no more than that of `upper`, so only
  /// who is above `lower` may have to be lifted.
  Index merge(Index upper, Index lower) {
    auto const height = (std::max)(height_[lower], height_beside(upper, lower));
    lifted_.clear();
    if (height > height_[lower]) {
      height_[lower] = height;
      lift_above(lower, upper);
    }
    sets_.join(upper, lower);
    Index const whole = sets_[upper], part = whole == upper ? lower : upper;
    for (auto* table : {&below_, &above_}) {
      auto &to = (*table)[whole], &from = (*table)[part];
      if (to.size() < from.size()) to.swap(from);
      to.insert(to.end(), from.begin(), from.end());
      from = {};
    }
    height_[whole] = height;
    while (!lifted_.empty()) {
      Index const x = lifted_.back();
      lifted_.pop_back();
      lift_above(x, whole);
    }
    return whole;
  }

  /// The height that `upper` needs for what is below it, `lower` apart. What is not merged yet stands at the
  /// end, where one as high as there can be is soon found.
  std::size_t height_beside(Index upper, Index lower) {
    auto& list = below_[upper];
    std::size_t height = 0;
    for (std::size_t i = list.size(); i-- > 0 && height < height_[upper];) {
      Index const root = sets_[list[i]];
      if (root == upper && i + 1 == list.size()) list.pop_back();
      if (root != upper && root != lower) height = (std::max)(height, height_[root] + 1);
    }
    return height;
  }

  /// Lifts the groups directly above `g` that are no higher than it, and notes them; not `other`.
  void lift_above(Index g, Index other) {
    for (Index const y : tidy(above_, g))
      if (y != other && height_[y] <= height_[g]) {
        height_[y] = height_[g] + 1;
        lifted_.push_back(y);
      }
  }

  capability_units<Index> const& u_;
  std::size_t effort_;
  joined_sets<Index> sets_;
  std::vector<std::size_t> height_;
  std::vector<std::vector<Index>> below_, above_;  // of a group: units of the groups next to it
  std::vector<std::size_t> seen_;
  std::size_t stamp_ = 0;
  std::vector<Index> lifted_;
};

/// Merges supported units along values until no two with a value between them can be merged. The supported
/// units of the answer are the groups.
///
/// The first walk merges what the recorded merge walk would, were its reach always exact; further ones see
/// what later merges made possible. A walk is near-linear where paths that part two neighbours are short; it
/// gives up a merge rather than look at more than `effort` edges for it.
template <std::unsigned_integral Index>
capability_units<Index> connected_groups(capability_units<Index> u, std::size_t effort) {
  for (;;) {
    auto merged = contracted_units(u, group_contraction<Index>(u, effort).run());
    if (merged.size() == u.size()) return merged;
    u = std::move(merged);
  }
}

}  // namespace cleave::detail
