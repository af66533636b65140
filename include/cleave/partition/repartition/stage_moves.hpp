// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/core/fixed_point.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/partition/acyclic/level.hpp"
#include "cleave/partition/acyclic/state.hpp"

namespace cleave::detail {

/// A pipeline whose units may move, and what that costs.
template <std::unsigned_integral Index>
struct stage_problem {
  acyclic_level<Index> level;
  acyclic_limits limits;  ///< parts may be empty and overfull on the way
  fixed_point scale;
  std::vector<Index> order;         ///< units, each behind those it needs
  std::vector<std::uint32_t> home;  ///< of a unit: where it was, none if it is new
  csr<Index> members;               ///< of a unit: its nodes
  std::vector<part_id> old;         ///< of a node
  std::vector<std::size_t> bytes;   ///< of a node: that move with it
  double cost_per_moved_byte = 1;
  bool none_empty = false;  ///< whether all parts must have units
};

/// How bad parts are; what comes first counts first.
struct stage_score {
  std::size_t excess = 0;  ///< bytes above the limits of memory
  std::size_t empty = 0;   ///< parts that must not be
  double objective = 0;
  std::size_t moved_bytes = 0;

  auto operator<=>(stage_score const&) const = default;
};

/// Betters parts by moves of single units, alone and one after the other; a move costs what the unit touches
/// and the number of parts.
template <std::unsigned_integral Index>
class stage_moves {
 public:
  stage_moves(stage_problem<Index> const& problem, std::vector<std::uint32_t> of, std::size_t& trials)
      : p_(problem), state_(problem.level, problem.limits, std::move(of)), trials_(trials) {
    for (Index const u : p_.order) moved_bytes_ += away(u, state_.of()[u]);
    now_ = score();
  }

  stage_score const& scored() const { return now_; }
  std::vector<std::uint32_t> const& of() const { return state_.of(); }
  std::int64_t bottleneck() const { return state_.bottleneck(); }

  /// Lets each part that pays more than `bound` or holds too much pass units on, first towards the end, then
  /// towards the beginning of the pipeline. May make the score worse.
  void level_out(std::int64_t bound) {
    auto const parts = p_.limits.parts();
    auto const pass_on = [&](std::uint32_t from, std::uint32_t to) {
      if (!too_much(from, bound)) return;
      for (Index const u : units_towards(from, to)) {
        if (!too_much(from, bound) || trials_ == 0) break;
        if (may_go(u, to)) put(u, to);
      }
    };
    for (std::uint32_t s = 0; s + 1 < parts; ++s) pass_on(s, s + 1);
    for (auto s = parts; s-- > 1;) pass_on(s, s - 1);
    now_ = score();
  }

  /// Moves that make the score better, until there is none or no trial is left.
  void improve() {
    for (bool more = true; more && trials_ > 0;) {
      more = go_home();
      while (relieve()) more = true;
    }
  }

 private:
  /// The bytes that have moved if `u` is in a part.
  std::size_t away(Index u, std::uint32_t part) const {
    std::size_t bytes = 0;
    for (Index const n : p_.members[u])
      if (p_.old[n] != no_part && index(p_.old[n]) != part) bytes += p_.bytes[n];
    return bytes;
  }
  bool too_much(std::uint32_t part, std::int64_t bound) const {
    return state_.load(part) > bound || excess(part) > 0;
  }
  std::size_t excess(std::uint32_t part) const {
    if (p_.limits.memory.empty()) return 0;
    return state_.memory(part) - (std::min)(state_.memory(part), p_.limits.memory[part]);
  }
  stage_score score() const {
    stage_score s{.moved_bytes = moved_bytes_};
    for (std::uint32_t part = 0; part < p_.limits.parts(); ++part) {
      s.excess += excess(part);
      s.empty += p_.none_empty && state_.count(part) == 0 ? 1u : 0u;
    }
    s.objective =
        p_.scale.value(state_.bottleneck()) + p_.cost_per_moved_byte * static_cast<double>(moved_bytes_);
    return s;
  }

  bool may_go(Index u, std::uint32_t to) const {
    auto const [first, last] = state_.range(u);
    return to >= first && to <= last;
  }
  void put(Index u, std::uint32_t to) {
    trials_ -= trials_ > 0 ? 1 : 0;
    moved_bytes_ -= away(u, state_.of()[u]);
    moved_bytes_ += away(u, to);
    state_.move(u, to);
  }
  /// Units of a part, those first that stand nearest to part `to`.
  std::vector<Index> units_towards(std::uint32_t part, std::uint32_t to) const {
    std::vector<Index> units;
    for (Index const u : p_.order)
      if (state_.of()[u] == part) units.push_back(u);
    if (to > part) std::ranges::reverse(units);
    return units;
  }

  bool attempt(Index u, std::uint32_t to) {
    auto const here = state_.of()[u];
    if (trials_ == 0 || to == here || !may_go(u, to)) return false;
    put(u, to);
    if (auto const after = score(); after < now_) {
      now_ = after;
      return true;
    }
    put(u, here);
    return false;
  }

  /// Moves `units` one after the other as far as that pays, over moves that do not. Whether it did.
  bool attempt_all(std::vector<Index> const& units, std::uint32_t to) {
    std::vector<std::pair<Index, std::uint32_t>> done;
    std::size_t kept = 0;
    for (Index const u : units) {
      if (trials_ == 0 || done.size() > 1000 + 2 * kept) break;
      if (!may_go(u, to)) continue;
      done.emplace_back(u, state_.of()[u]);
      put(u, to);
      if (auto const after = score(); after < now_) {
        now_ = after;
        kept = done.size();
      }
    }
    for (; done.size() > kept; done.pop_back()) put(done.back().first, done.back().second);
    return kept > 0;
  }

  /// Units that were in another part return there, alone or all that were in the same one.
  bool go_home() {
    bool better = false;
    std::vector<Index> out;
    for (Index const u : p_.order)
      if (p_.home[u] < p_.limits.parts() && p_.home[u] != state_.of()[u]) out.push_back(u);
    for (Index const u : out) better |= attempt(u, p_.home[u]);
    for (std::size_t i = out.size(); i-- > 0;) better |= attempt(out[i], p_.home[out[i]]);
    std::erase_if(out, [&](Index u) { return p_.home[u] == state_.of()[u]; });
    auto const way = [&](Index u) { return std::pair(state_.of()[u], p_.home[u]); };
    std::vector<std::pair<std::pair<std::uint32_t, std::uint32_t>, std::size_t>> by_way;
    for (std::size_t i = 0; i < out.size(); ++i)
      by_way.emplace_back(way(out[i]), way(out[i]).first < way(out[i]).second ? out.size() - i : i);
    std::ranges::sort(by_way);
    for (std::size_t i = 0, j = 0; i < by_way.size(); i = j) {
      std::vector<Index> units;
      auto const [from, to] = by_way[i].first;
      for (; j < by_way.size() && by_way[j].first == by_way[i].first; ++j)
        units.push_back(out[from < to ? out.size() - by_way[j].second : by_way[j].second]);
      better |= attempt_all(units, to);
    }
    return better;
  }

  /// The part that pays most, or holds too much, lets units go to a neighbour or one anywhere.
  bool relieve() {
    std::uint32_t worst = 0;
    auto const parts = p_.limits.parts();
    for (std::uint32_t part = 1; part < parts; ++part)
      if (std::pair(excess(part), state_.load(part)) > std::pair(excess(worst), state_.load(worst)))
        worst = part;
    auto const units = units_towards(worst, parts);
    if (worst + 1 < parts && attempt_all(units, worst + 1)) return true;
    if (worst > 0 && attempt_all(units_towards(worst, 0), worst - 1)) return true;
    bool better = false;
    for (Index const u : units) {
      auto const [first, last] = state_.range(u);
      for (auto to = first; to <= last && state_.of()[u] == worst; ++to) better |= attempt(u, to);
    }
    return better;
  }

  stage_problem<Index> const& p_;
  acyclic_state<Index> state_;
  std::size_t& trials_;
  std::size_t moved_bytes_ = 0;
  stage_score now_;
};

}  // namespace cleave::detail
