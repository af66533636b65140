// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/random.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/partition/model/metrics.hpp"
#include "cleave/partition/model/partition.hpp"
#include "cleave/partition/slices/balance.hpp"
#include "cleave/partition/units/topological_orders.hpp"
#include "cleave/partition/units/units.hpp"

namespace cleave {

/// Stages that are balanced over the ranks that run them.
struct ranked_stages {
  balanced_partition stages;  ///< the part of each node is its stage; loads, bottleneck and bound of stages
  std::vector<double> rank_loads;  ///< load of each rank; transfers between its own stages are free
  double bottleneck = 0;           ///< the largest load of a rank
  double bound = 0;                ///< lower bound on that of any assignment of nodes to ranks
};

}  // namespace cleave

namespace cleave::detail {

/// The load and memory of ranks, for cuts of an order of units into stages. Boundaries move one unit at a
/// time. O(values * ranks) memory.
template <std::unsigned_integral Index>
class rank_loads {
 public:
  rank_loads(unit_costs<Index> const& costs, unit_memory<Index> const& memory,
             std::vector<std::size_t> limits, std::vector<std::uint32_t> rank_of, std::uint32_t ranks,
             std::vector<Index> order)
      : costs_(costs),
        memory_(memory),
        limits_(std::move(limits)),
        rank_of_(std::move(rank_of)),
        ranks_(ranks),
        order_(std::move(order)) {}

  /// The value of a cut: first the bytes that do not fit, then what is to be small. Among cuts with equal
  /// loads of ranks, even stages are better.
  struct value {
    double excess = 0, first = 0, second = 0, unevenness = 0;

    auto operator<=>(value const&) const = default;
  };

  std::size_t units() const { return order_.size(); }
  std::vector<std::size_t> const& boundaries() const { return at_; }
  std::vector<Index> const& order() const { return order_; }

  /// Sets all boundaries. O(touches * ranks).
  void set(std::vector<std::size_t> at) {
    at_ = std::move(at);
    load_.assign(ranks_, 0);
    held_.assign(ranks_, 0);
    touches_.assign(costs_.transfer.size() * ranks_, 0);
    holds_.assign(memory_.shared.size() * ranks_, 0);
    stage_.assign(rank_of_.size(), 0);
    for (std::size_t s = 0; s + 1 < at_.size(); ++s)
      for (auto i = at_[s]; i < at_[s + 1]; ++i) {
        change(order_[i], rank_of_[s], true);
        stage_[s] += weight_of(order_[i], rank_of_[s]);
      }
  }

  /// Moves boundary `b` by one unit: up, or down. Precondition: neither stage becomes empty.
  void step(std::size_t b, bool up) {
    auto const unit = order_[up ? at_[b] : at_[b] - 1];
    auto const before = rank_of_[up ? b : b - 1], after = rank_of_[up ? b - 1 : b];
    up ? ++at_[b] : --at_[b];
    stage_[up ? b : b - 1] -= weight_of(unit, before);
    stage_[up ? b - 1 : b] += weight_of(unit, after);
    if (before == after) return;
    change(unit, before, false);
    change(unit, after, true);
  }

  std::int64_t bottleneck() const { return *std::max_element(load_.begin(), load_.end()); }

  /// Returns the bytes that exceed the limits, then the largest load and the sum of squares, or these two in
  /// the other order.
  value worth(bool squares_first) const {
    value v;
    double most = 0, squares = 0;
    for (std::uint32_t r = 0; r < ranks_; ++r) {
      auto const load = static_cast<double>(load_[r]);
      most = (std::max)(most, load);
      squares += load * load;
      if (!limits_.empty() && held_[r] > limits_[r]) v.excess += static_cast<double>(held_[r] - limits_[r]);
    }
    v.first = squares_first ? squares : most;
    v.second = squares_first ? most : squares;
    for (auto const load : stage_) v.unevenness += static_cast<double>(load) * static_cast<double>(load);
    return v;
  }

 private:
  std::int64_t weight_of(Index unit, std::uint32_t rank) const {
    return costs_.weight[costs_.speed_of[rank]][unit];
  }

  /// Adds a unit to a rank, or removes it.
  void change(Index unit, std::uint32_t rank, bool add) {
    auto const weight = weight_of(unit, rank);
    load_[rank] += add ? weight : -weight;
    for (Index const v : costs_.touched[unit]) {
      pay(v, false);
      add ? ++touches_[v * ranks_ + rank] : --touches_[v * ranks_ + rank];
      pay(v, true);
    }
    if (limits_.empty()) return;
    add ? held_[rank] += memory_.own[unit] : held_[rank] -= memory_.own[unit];
    for (Index const m : memory_.predecessors[unit]) {
      auto& count = holds_[m * ranks_ + rank];
      if (add ? count++ == 0 : --count == 0)
        add ? held_[rank] += memory_.shared[m] : held_[rank] -= memory_.shared[m];
    }
  }

  /// Adds the cost of a value to the ranks that touch it, or removes it, if there are several.
  void pay(Index v, bool add) {
    auto const* row = touches_.data() + v * ranks_;
    std::uint32_t touching = 0;
    for (std::uint32_t r = 0; r < ranks_; ++r) touching += row[r] > 0;
    for (std::uint32_t r = 0; r < ranks_ && touching > 1; ++r)
      if (row[r] > 0) load_[r] += add ? costs_.transfer_of(r)[v] : -costs_.transfer_of(r)[v];
  }

  unit_costs<Index> const& costs_;
  unit_memory<Index> const& memory_;
  std::vector<std::size_t> limits_;     // per rank; empty if unlimited
  std::vector<std::uint32_t> rank_of_;  // per stage
  std::size_t ranks_;
  std::vector<Index> order_;
  std::vector<std::size_t> at_;             // per boundary: its place in the order
  std::vector<std::int64_t> load_, stage_;  // per rank; per stage: the weight of its units
  std::vector<std::size_t> held_;
  std::vector<std::uint32_t> touches_, holds_;  // per value and rank: its units there
};

/// A local search over the boundaries of stages.
template <std::unsigned_integral Index>
class rank_search {
 public:
  rank_search(rank_loads<Index>& loads, std::int64_t bound, std::uint64_t seed)
      : loads_(loads), bound_(bound), random_(seed) {}

  /// Improves the boundaries `start` and leaves the best ones in the loads.
  void run(std::vector<std::size_t> start) {
    if (has_few_cuts(start)) return try_all(std::move(start));
    loads_.set(std::move(start));
    auto best = loads_.boundaries();
    auto reached = loads_.worth(false);
    auto const attempt = [&] {
      for (bool const squares_first : {true, false}) descend(squares_first);
      if (auto const now = loads_.worth(false); now < reached) {
        reached = now;
        best = loads_.boundaries();
        return true;
      }
      return false;
    };
    attempt();
    // Restarts are limited by the work of one, so that large graphs take seconds.
    auto const most = std::clamp<std::size_t>(300'000 / (loads_.units() + 1), 4, 60);
    for (std::size_t idle = 0; idle < most && !done(reached);) {
      loads_.set(shaken(best));
      idle = attempt() ? 0 : idle + 1;
    }
    loads_.set(best);
  }

 private:
  bool done(typename rank_loads<Index>::value const& v) const {
    return v.excess == 0 && v.first <= 1.0005 * static_cast<double>(bound_);
  }

  /// Returns true if there are at most 2,000 cuts into as many stages.
  bool has_few_cuts(std::vector<std::size_t> const& at) const {
    double count = 1;
    for (std::size_t i = 1; i + 1 < at.size(); ++i)
      count *= static_cast<double>(loads_.units() - i) / static_cast<double>(i);
    return count <= 2000;
  }

  /// Leaves the best of all cuts in the loads; among equals the first one, beginning with `start`.
  void try_all(std::vector<std::size_t> start) {
    loads_.set(start);
    auto reached = loads_.worth(false);
    auto best = start;
    std::vector<std::size_t> at(start.size());
    std::iota(at.begin(), at.end(), std::size_t{});
    at.back() = loads_.units();
    do {
      loads_.set(at);
      if (auto const now = loads_.worth(false); now < reached) {
        reached = now;
        best = at;
      }
    } while (next_cut(at));
    loads_.set(std::move(best));
  }

  /// Advances to the next cut in lexicographic order; returns false after the last.
  static bool next_cut(std::vector<std::size_t>& at) {
    for (auto i = at.size() - 1; i-- > 1;)
      if (at[i] + (at.size() - 1 - i) < at.back()) {
        for (auto place = ++at[i]; ++i < at.size() - 1;) at[i] = ++place;
        return true;
      }
    return false;
  }

  /// Moves each boundary to its best place between its neighbours until none moves.
  void descend(bool squares_first) {
    auto const inner = loads_.boundaries().size() - 1;
    for (int sweep = 0; sweep < 50; ++sweep) {
      bool moved = false;
      for (std::size_t b = 1; b < inner; ++b) moved |= place(b, squares_first);
      if (!moved) break;
    }
  }

  /// Moves boundary `b` to its best place; returns whether it moved.
  bool place(std::size_t b, bool squares_first) {
    auto const low = loads_.boundaries()[b - 1] + 1, high = loads_.boundaries()[b + 1] - 1;
    auto const from = loads_.boundaries()[b];
    auto best = from;
    auto least = loads_.worth(squares_first);
    auto const walk = [&](std::size_t to) {
      while (loads_.boundaries()[b] != to) {
        loads_.step(b, loads_.boundaries()[b] < to);
        if (auto const now = loads_.worth(squares_first); now < least) {
          least = now;
          best = loads_.boundaries()[b];
        }
      }
    };
    walk(low);
    walk(high);
    while (loads_.boundaries()[b] != best) loads_.step(b, loads_.boundaries()[b] < best);
    return best != from;
  }

  /// Returns the boundaries with one to three of them moved to a random place between their neighbours.
  std::vector<std::size_t> shaken(std::vector<std::size_t> at) {
    if (at.size() < 3) return at;
    for (auto moves = 1 + random_.below(3); moves-- > 0;) {
      auto const b = 1 + random_.below(at.size() - 2);
      at[b] = at[b - 1] + 1 + random_.below(at[b + 1] - at[b - 1] - 1);
    }
    return at;
  }

  rank_loads<Index>& loads_;
  std::int64_t bound_;
  splitmix random_;
};

/// Returns an option per stage, from one per rank.
template <class T>
per_part<T> option_of_stages(per_part<T> const& of_ranks, std::span<rank_id const> rank_of) {
  if (of_ranks.same()) return of_ranks;
  std::vector<T> all;
  for (auto const r : rank_of) all.push_back(of_ranks[index(r)]);
  return per_part<T>(std::move(all));
}

}  // namespace cleave::detail

namespace cleave {

/// Cuts `g` into the stages of ranks that run several stages each, minimising the largest load of a rank.
/// Among equals, stages of equal weight are preferred. `rank_of` has the rank of each stage.
///
/// The load of a rank is the weight of the nodes of its stages divided by its speed, plus the cost of each
/// byte that enters or leaves the rank. The options of `balance` apply: `speed`, `memory` and `link` are per
/// rank, and `orders`, `random_orders` and `seed` choose the stages from which the search starts. `fixed`,
/// `relayed` and empty parts are not supported.
///
/// The search takes the order of `balance`, starts at its stages and moves one boundary at a time to its best
/// place. If there are at most 2,000 cuts of that order, all are tried. If each rank has one stage, the
/// result is that of `balance`.
///
/// Complexity: that of `balance`, plus O((V + E) * ranks) for each of some ten to thousand sweeps. Memory
/// O(values * ranks).
///
/// \throws error            as `balance`, and if a rank of `rank_of` is not below `ranks`
/// \throws infeasible_error if the graph has fewer units than stages, or no cut was found that fits into
/// memory
template <std::unsigned_integral Index>
ranked_stages balance_ranks(basic_snapshot_arrays<Index> const& g, std::span<rank_id const> rank_of,
                            std::uint32_t ranks, balance_options const& options = {}) {
  if (!options.fixed.empty() || options.relayed || options.empty == empty_parts::allowed)
    throw error("balance_ranks: `fixed`, `relayed` and empty parts are not supported; leave them out");
  if (rank_of.empty() || ranks == 0)
    throw error("balance_ranks: there are no stages; give at least one rank");
  for (std::size_t s = 0; s < rank_of.size(); ++s)
    if (index(rank_of[s]) >= ranks)
      throw error("balance_ranks: stage " + std::to_string(s) + " is on rank " +
                  std::to_string(index(rank_of[s])) + ", but there are only " + std::to_string(ranks) +
                  " ranks");
  if (auto const fault = detail::find_option_fault(options, g, ranks))
    throw error("balance_ranks: " + *fault);

  auto start = options;
  start.speed = detail::option_of_stages(options.speed, rank_of);
  start.link = detail::option_of_stages(options.link, rank_of);
  start.memory = detail::option_of_stages(options.memory, rank_of);
  auto const stages = static_cast<std::uint32_t>(rank_of.size());
  ranked_stages result{balance(g, stages, start), {}, 0, 0};
  auto const units = detail::units_of(g, {.together = options.together, .backward = options.backward});
  if (units.size() < stages)
    throw infeasible_error("the graph has " + std::to_string(units.size()) +
                           " nodes to place, but there are " + std::to_string(stages) +
                           " stages; use a schedule with fewer stages");

  auto const costs = costs_of(g, units, ranks, {options.cost_per_byte, options.speed, options.link});
  detail::unit_memory<Index> memory;
  std::vector<std::size_t> limits;
  if (!options.memory.empty()) {
    memory = detail::memory_of<Index>(g, units, options.node_memory);
    for (std::uint32_t r = 0; r < ranks; ++r) limits.push_back(options.memory[r]);
  }
  auto const stage_of = [&](Index unit) { return index(result.stages.of[units.members[unit].front()]); };
  std::vector<Index> by_stage(units.size()), rank(units.size());
  std::iota(by_stage.begin(), by_stage.end(), Index{});
  std::ranges::stable_sort(by_stage, {}, stage_of);
  for (Index i = 0; i < by_stage.size(); ++i) rank[by_stage[i]] = i;
  auto order = detail::ordered_units<Index>(units.predecessors, units.successors, unit_order::given, rank);
  std::vector<std::size_t> at(stages + std::size_t{1});
  for (auto const unit : order) ++at[stage_of(unit) + std::size_t{1}];
  std::partial_sum(at.begin(), at.end(), at.begin());

  std::vector<std::uint32_t> rank_numbers;
  for (auto const r : rank_of) rank_numbers.push_back(index(r));
  auto const bound = detail::load_bound(costs);
  detail::rank_loads<Index> loads(costs, memory, std::move(limits), rank_numbers, ranks, std::move(order));
  auto several = rank_numbers;
  std::ranges::sort(several);
  if (std::ranges::adjacent_find(several) == several.end())
    loads.set(std::move(at));
  else
    detail::rank_search<Index>(loads, bound, options.seed).run(std::move(at));
  if (loads.worth(false).excess > 0)
    throw infeasible_error(
        "no cut into the stages of " + std::to_string(ranks) +
        " ranks was found that fits into their memory; raise the limits, or use more ranks");

  partition on_ranks{std::vector<part_id>(g.nodes(), no_part), ranks};
  for (std::uint32_t s = 0; s < stages; ++s)
    for (auto i = loads.boundaries()[s]; i < loads.boundaries()[s + 1]; ++i)
      for (Index const n : units.members[loads.order()[i]]) {
        result.stages.of[n] = part_id{s};
        on_ranks.of[n] = part_id{rank_numbers[s]};
      }
  result.stages.loads = part_loads(g, result.stages, {options.cost_per_byte, start.speed, start.link});
  result.stages.bottleneck = *std::ranges::max_element(result.stages.loads);
  result.stages.bound = (std::min)(result.stages.bound, result.stages.bottleneck);
  result.stages.unsized = detail::unsized_cut_values(g, result.stages);
  result.rank_loads = part_loads(g, on_ranks, {options.cost_per_byte, options.speed, options.link});
  result.bottleneck = *std::ranges::max_element(result.rank_loads);
  result.bound = costs.scale.value((std::min)(bound, loads.bottleneck()));
  return result;
}

/// Cuts a user's graph.
template <std::unsigned_integral Index = std::uint32_t, weighted_graph Graph>
  requires sized_graph<Graph>
ranked_stages balance_ranks(Graph const& g, std::span<rank_id const> rank_of, std::uint32_t ranks,
                            balance_options const& options = {}) {
  return balance_ranks(snapshot_of<Index>(g), rank_of, ranks, options);
}
}  // namespace cleave
