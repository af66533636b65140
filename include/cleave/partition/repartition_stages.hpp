// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/real.hpp"
#include "cleave/graph/dense.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/partition/balance.hpp"
#include "cleave/partition/metrics.hpp"
#include "cleave/partition/partition.hpp"
#include "cleave/partition/units.hpp"
#include "cleave/partition/validity.hpp"

namespace cleave {

struct stage_repartition_options {
  double cost_per_moved_byte = 1;     ///< in the unit of the weights
  std::vector<std::size_t> moving{};  ///< of a node: bytes that move with it; empty: `node_memory`, or one
  std::vector<char> stays{};          ///< of a node: it must not move
  std::vector<partition> starts{};    ///< parts to begin with besides the old ones and those of `balance`
  std::size_t most_trials = 0;        ///< of moves, each O(V + E); 0: as many as make some 10^8 steps
  balance_options balance{};          ///< costs, memory, pins, what must share a part
};

/// Parts numbered in the order of the pipeline, and what they cost.
struct repartitioned_stages : partition {
  std::vector<double> loads{};  ///< of a part
  double bottleneck = 0;        ///< the largest of them
  std::size_t moved_bytes = 0, moved_nodes = 0;
  double objective = 0;  ///< the bottleneck and the cost of what moves
};

/// The first thing in options that makes no sense, as a sentence, or nothing. O(V).
template <std::unsigned_integral Index>
std::optional<std::string> find_option_fault(stage_repartition_options const& o, basic_dense<Index> const& g,
                                             partition const& old, std::uint32_t k) {
  if (auto fault = find_option_fault(o.balance, g, k)) return fault;
  auto const count = [](std::size_t n) { return std::to_string(n); };
  auto const all = count(g.nodes()) + " nodes";
  if (!(o.cost_per_moved_byte >= 0) || !is_finite(o.cost_per_moved_byte))
    return "cost_per_moved_byte must be finite, not negative";
  if (old.of.size() != g.nodes())
    return "the old partition is of " + count(old.of.size()) + " nodes, the graph has " + all;
  if (!o.moving.empty() && o.moving.size() != g.nodes())
    return "moving has " + count(o.moving.size()) + " entries, the graph " + all;
  if (!o.stays.empty() && o.stays.size() != g.nodes())
    return "stays has " + count(o.stays.size()) + " entries, the graph " + all;
  for (std::size_t n = 0; n < o.stays.size(); ++n)
    if (o.stays[n] && index(old.of[n]) >= k && !is_replicable(g, n))
      return "node " + g.label(n) + " must stay, and is in none of the " + count(k) + " parts";
  return std::nullopt;
}

/// Moves units between the parts of a pipeline; `repartition_stages` is its one use.
template <std::unsigned_integral Index>
class stage_repartitioner {
 public:
  stage_repartitioner(basic_dense<Index> const& g, partition const& old, std::uint32_t k,
                      stage_repartition_options const& o)
      : g_(g), old_(old), k_(k), o_(o), limits_(o.balance), moving_(o.moving) {
    if (moving_.empty()) moving_ = limits_.node_memory;
    if (moving_.empty()) moving_.assign(g.nodes(), 1);
    for (std::size_t n = 0; n < o.stays.size(); ++n)
      if (o.stays[n] && !is_replicable(g, n)) {
        limits_.pinned.resize(g.nodes(), no_part);
        limits_.pinned[n] = old.of[n];
      }
    units_ = units_of(g, {.together = limits_.together, .backward = limits_.backward});
    order_units();
    auto const size = g.nodes() + g.operands.item.size() + 1;
    trials_ = o.most_trials > 0 ? o.most_trials : std::max<std::size_t>(64, 100'000'000 / size);
  }

  repartitioned_stages run() {
    std::vector<partition> starts{old_};
    starts.insert(starts.end(), o_.starts.begin(), o_.starts.end());
    std::string refusal;
    try {
      starts.push_back(balance(g_, k_, limits_));
    } catch (infeasible_error const& e) {
      refusal = e.what();
    }
    std::optional<state> best;
    for (auto const& start : starts)
      if (auto p = settled(start)) {
        auto improved = improve(judged(std::move(*p)), trials_ / starts.size());
        if (!best || better(improved, *best)) best = std::move(improved);
      }
    if (!best || best->overfull) throw infeasible_error(refusal);
    return std::move(best->result);
  }

 private:
  struct state {
    repartitioned_stages result;
    bool overfull = false;
    std::size_t empty = 0;
  };

  static bool better(state const& a, state const& b) {
    auto const key = [](state const& s) {
      return std::tuple(s.overfull, s.empty, s.result.objective, s.result.moved_bytes);
    };
    return key(a) < key(b);
  }

  /// Units, each after those it needs; where each stands in the row.
  void order_units() {
    std::vector<std::size_t> missing(units_.size());
    for (std::size_t u = 0; u < units_.size(); ++u) {
      missing[u] = units_.needs[u].size();
      if (missing[u] == 0) order_.push_back(static_cast<Index>(u));
    }
    for (std::size_t i = 0; i < order_.size(); ++i)
      for (Index const user : units_.needed_by[order_[i]])
        if (--missing[user] == 0) order_.push_back(user);
  }

  std::uint32_t part_of(partition const& p, std::size_t unit) const {
    return index(p.of[units_.members[unit].front()]);
  }
  void put(partition& p, std::size_t unit, std::uint32_t part) const {
    for (Index const n : units_.members[unit]) p.of[n] = part_id{part};
  }

  /// The parts that a unit may be in while all others stay: the first and the last.
  std::pair<std::uint32_t, std::uint32_t> window(partition const& p, std::size_t unit) const {
    std::uint32_t low = 0, high = k_ - 1;
    for (Index const need : units_.needs[unit]) low = std::max(low, part_of(p, need));
    for (Index const user : units_.needed_by[unit]) high = std::min(high, part_of(p, user));
    return {low, high};
  }

  std::optional<std::uint32_t> pin_of(std::size_t unit) const {
    for (Index const n : units_.members[unit])
      if (!limits_.pinned.empty() && limits_.pinned[n] != no_part) return index(limits_.pinned[n]);
    return std::nullopt;
  }

  /// `p` with nodes that are new put where what they need is, if it is a partition that may be.
  std::optional<partition> settled(partition p) const {
    if (p.of.size() != g_.nodes()) return std::nullopt;
    p.parts = k_;
    for (std::size_t n = 0; n < p.of.size(); ++n)
      if (is_replicable(g_, n)) p.of[n] = no_part;
    for (Index const u : order_) {
      if (part_of(p, u) == index(no_part)) {
        std::uint32_t part = pin_of(u).value_or(0);
        for (Index const need : units_.needs[u]) part = std::max(part, part_of(p, need));
        put(p, u, part);
      }
      auto const own = part_of(p, u);
      if (own >= k_ || pin_of(u).value_or(own) != own) return std::nullopt;
      for (Index const n : units_.members[u])
        if (index(p.of[n]) != own) return std::nullopt;
      for (Index const need : units_.needs[u])
        if (part_of(p, need) > own) return std::nullopt;
    }
    return p;
  }

  state judged(partition p) const {
    state s;
    auto& r = s.result;
    static_cast<partition&>(r) = std::move(p);
    r.loads = part_loads(
        g_, r, {.cost_per_byte = limits_.cost_per_byte, .speed = limits_.speed, .link = limits_.link});
    for (double const load : r.loads) r.bottleneck = std::max(r.bottleneck, load);
    std::vector<char> used(k_, 0);
    for (std::size_t n = 0; n < r.of.size(); ++n) {
      if (r.of[n] == no_part) continue;
      used[index(r.of[n])] = 1;
      if (old_.of[n] == no_part || old_.of[n] == r.of[n]) continue;
      r.moved_bytes += moving_[n];
      ++r.moved_nodes;
    }
    r.objective = r.bottleneck + o_.cost_per_moved_byte * static_cast<double>(r.moved_bytes);
    s.overfull = find_overfull_part(g_, r, limits_.memory, limits_.node_memory).has_value();
    if (limits_.empty == empty_parts::forbidden)
      s.empty = static_cast<std::size_t>(std::ranges::count(used, 0));
    return s;
  }

  /// Moves that better `s`, one after the other, until there is none or no trial left.
  state improve(state s, std::size_t trials) const {
    auto const attempt = [&](partition p) {
      if (trials == 0) return false;
      --trials;
      auto next = judged(std::move(p));
      if (!better(next, s)) return false;
      s = std::move(next);
      return true;
    };
    for (bool more = true; more && trials > 0;) {
      more = false;
      while (relieve(s, attempt)) more = true;
      more |= go_home(s, attempt);
    }
    return s;
  }

  template <class Attempt>
  bool go_home(state const& s, Attempt const& attempt) const {
    bool moved = false;
    for (Index const u : order_) {
      auto const home = index(old_.of[units_.members[u].front()]);
      if (home >= k_ || part_of(s.result, u) == home) continue;
      auto const [low, high] = window(s.result, u);
      if (home < low || home > high || pin_of(u).value_or(home) != home) continue;
      partition p = s.result;
      put(p, u, home);
      moved |= attempt(std::move(p));
    }
    return moved;
  }

  /// Moves the end or the beginning of the part that pays most to a neighbour, or one of its units anywhere.
  template <class Attempt>
  bool relieve(state const& s, Attempt const& attempt) const {
    auto const& loads = s.result.loads;
    auto const most = static_cast<std::uint32_t>(std::ranges::max_element(loads) - loads.begin());
    std::vector<Index> own;
    for (Index const u : order_)
      if (part_of(s.result, u) == most) own.push_back(u);
    auto const shift = [&](std::size_t first, std::size_t last, std::uint32_t to) {
      partition p = s.result;
      for (auto i = first; i < last; ++i) {
        if (pin_of(own[i])) return false;
        put(p, own[i], to);
      }
      return attempt(std::move(p));
    };
    for (std::size_t size = 1; size < own.size(); size *= 2) {
      if (most + 1 < k_ && shift(own.size() - size, own.size(), most + 1)) return true;
      if (most > 0 && shift(0, size, most - 1)) return true;
    }
    for (std::size_t i = 0; i < own.size(); ++i) {
      auto const [low, high] = window(s.result, own[i]);
      for (auto to = low; to <= high; ++to)
        if (to != most && shift(i, i + 1, to)) return true;
    }
    return false;
  }

  basic_dense<Index> const& g_;
  partition const& old_;
  std::uint32_t k_;
  stage_repartition_options const& o_;
  balance_options limits_;
  std::vector<std::size_t> moving_;
  unit_graph<Index> units_;
  std::vector<Index> order_;
  std::size_t trials_;
};

/// New parts for a pipeline whose costs have changed: the bottleneck and the cost of the bytes that move from
/// the part where they are are small together, and all holds that `balance` holds. From the old parts, from
/// those of `balance` and from `starts`, units return home or leave the part that pays most, one or several
/// in a row, as long as that betters the sum: never worse than any of them, the old ones included if they are
/// still allowed. What has no part in `old` is new and moves for nothing.
/// \throws error, infeasible_error as `balance` does.
template <std::unsigned_integral Index>
repartitioned_stages repartition_stages(basic_dense<Index> const& g, partition const& old, std::uint32_t k,
                                        stage_repartition_options const& options = {}) {
  if (auto const fault = find_option_fault(options, g, old, k)) throw error("repartition: " + *fault);
  return stage_repartitioner<Index>(g, old, k, options).run();
}

template <weighted_graph Graph>
  requires sized_graph<Graph>
repartitioned_stages repartition_stages(Graph const& g, partition const& old, std::uint32_t k,
                                        stage_repartition_options const& options = {}) {
  return with_snapshot(g, [&](auto const& s) { return repartition_stages(s, old, k, options); });
}

}  // namespace cleave
