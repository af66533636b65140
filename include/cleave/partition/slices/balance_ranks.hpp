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
#include "cleave/core/row_cuts.hpp"
#include "cleave/graph/check_graph_concepts.hpp"
#include "cleave/graph/concepts.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/partition/model/metrics.hpp"
#include "cleave/partition/model/partition.hpp"
#include "cleave/partition/slices/balance.hpp"
#include "cleave/partition/units/topological_orders.hpp"
#include "cleave/partition/units/units.hpp"

namespace cleave::inline v0_2 {

/// Stages that are balanced over the ranks that run them.
struct ranked_stages {
  balanced_partition stages;  ///< the part of each node is its stage; loads, bottleneck and bound of stages
  std::vector<double> rank_loads;  ///< load of each rank; transfers between its own stages are free
  double bottleneck = 0;           ///< the largest load of a rank
  double bound = 0;                ///< lower bound on the bottleneck of any assignment of nodes to ranks
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

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
  std::size_t ranks() const { return ranks_; }
  std::vector<std::size_t> const& boundaries() const { return at_; }
  std::vector<Index> const& order() const { return order_; }

  /// Sets all boundaries. O(touches * ranks).
  void set(std::vector<std::size_t> at) {
    at_ = std::move(at);
    load_.assign(ranks_, 0);
    held_.assign(ranks_, 0);
    touches_.assign(costs_.transfer.size() * ranks_, 0);
    touching_.assign(costs_.transfer.size(), 0);
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

  /// Returns the value of the cut: the bytes that exceed the limits, then the largest load and the sum of
  /// squares, or these two in the other order. O(ranks + stages).
  value worth(bool squares_first) const {
    auto v = worth_of_ranks(squares_first);
    v.unevenness = unevenness();
    return v;
  }

  /// Lowers `least` to the value of the cut if that is less; returns true if so. O(ranks), and O(stages) more
  /// among cuts with equal loads of ranks.
  bool improves(value& least, bool squares_first) const {
    auto now = worth_of_ranks(squares_first);
    if (!(now < least)) return false;
    now.unevenness = unevenness();
    if (!(now < least)) return false;
    least = now;
    return true;
  }

 private:
  std::int64_t weight_of(Index unit, std::uint32_t rank) const {
    return costs_.weight[costs_.speed_of[rank]][unit];
  }

  /// Returns the value of the cut with an unevenness of 0, which it cannot fall below.
  value worth_of_ranks(bool squares_first) const {
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
    return v;
  }

  double unevenness() const {
    double squares = 0;
    for (auto const load : stage_) squares += static_cast<double>(load) * static_cast<double>(load);
    return squares;
  }

  /// Adds a unit to a rank, or removes it.
  void change(Index unit, std::uint32_t rank, bool add) {
    auto const weight = weight_of(unit, rank);
    load_[rank] += add ? weight : -weight;
    for (Index const v : costs_.touched[unit]) touch(v, rank, add);
    if (limits_.empty()) return;
    add ? held_[rank] += memory_.own[unit] : held_[rank] -= memory_.own[unit];
    for (Index const m : memory_.predecessors[unit]) {
      auto& count = holds_[m * ranks_ + rank];
      if (add ? count++ == 0 : --count == 0)
        add ? held_[rank] += memory_.shared[m] : held_[rank] -= memory_.shared[m];
    }
  }

  /// Counts one unit more or less of a rank that touches a value. The value costs each rank that touches it,
  /// if there are several.
  void touch(Index v, std::uint32_t rank, bool add) {
    auto* const row = touches_.data() + v * ranks_;
    if (add ? row[rank]++ > 0 : --row[rank] > 0) return;
    auto const pay = [&](std::uint32_t r) {
      load_[r] += add ? costs_.transfer_of(r)[v] : -costs_.transfer_of(r)[v];
    };
    auto const others = add ? touching_[v]++ : --touching_[v];
    if (others == 0) return;
    pay(rank);
    for (std::uint32_t r = 0; r < ranks_ && others == 1; ++r)
      if (r != rank && row[r] > 0) pay(r);
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
  std::vector<std::uint32_t> touching_;         // per value: the ranks that touch it
};

/// A local search over the boundaries of stages.
template <std::unsigned_integral Index>
class rank_search {
 public:
  rank_search(rank_loads<Index>& loads, std::int64_t bound, std::uint64_t seed)
      : loads_(loads), bound_(bound), random_(seed) {}

  /// Improves the boundaries `start` and leaves the best ones in the loads.
  void run(std::vector<std::size_t> start) {
    auto const cuts = number_of_cuts(loads_.units(), start.size() - 1);
    if (cuts <= 100'000 && cuts * static_cast<double>(loads_.ranks()) <= 1e7)
      return try_all(std::move(start));
    loads_.set(std::move(start));
    auto best = loads_.boundaries();
    auto reached = loads_.worth(false);
    auto const attempt = [&] {
      for (bool const squares_first : {true, false}) descend(squares_first);
      if (!loads_.improves(reached, false)) return false;
      best = loads_.boundaries();
      return true;
    };
    attempt();
    // Restarts are limited by the work of one, so that large graphs take seconds.
    auto const most = std::clamp<std::size_t>(200'000 / (loads_.units() + 1), 4, 200);
    for (std::size_t idle = 0; idle < most && !done(reached);) {
      loads_.set(idle % 4 < 3 ? shaken(best) : random_boundaries());
      idle = attempt() ? 0 : idle + 1;
    }
    loads_.set(best);
  }

 private:
  bool done(typename rank_loads<Index>::value const& v) const {
    return v.excess == 0 && v.first <= 1.0005 * static_cast<double>(bound_);
  }

  /// Leaves the best of all cuts in the loads; among equals the first one, beginning with `start`.
  void try_all(std::vector<std::size_t> start) {
    loads_.set(start);
    auto reached = loads_.worth(false);
    auto best = start;
    auto at = first_row_cut<std::size_t>(loads_.units(), start.size() - 1);
    loads_.set(at);
    do {
      // The first boundary that changes moves up by one unit; those behind it move down, next to it.
      for (std::size_t b = 1; b + 1 < at.size(); ++b)
        while (loads_.boundaries()[b] != at[b]) loads_.step(b, loads_.boundaries()[b] < at[b]);
      if (loads_.improves(reached, false)) best = at;
    } while (next_row_cut(at));
    loads_.set(std::move(best));
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
        if (loads_.improves(least, squares_first)) best = loads_.boundaries()[b];
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

  /// Returns random boundaries. Each stage gets at least one unit, and an equal share on average.
  std::vector<std::size_t> random_boundaries() {
    auto at = loads_.boundaries();
    auto const stages = at.size() - 1;
    for (std::size_t b = 1; b < stages; ++b) {
      auto const mean = (at.back() - at[b - 1]) / (stages - b + 1);
      auto const last = at.back() - (stages - b);  // the later stages need a unit each
      at[b] = (std::min)(last, at[b - 1] + 1 + random_.below(2 * mean - 1));
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

namespace cleave::inline v0_2 {

/// Cuts `g` into the stages of ranks that run several stages each, minimising the largest load of a rank.
/// Among equals, stages of equal weight are preferred. `rank_of` has the rank of each stage.
///
/// The load of a rank is the weight of the nodes of its stages divided by its speed, plus the cost of each
/// byte that enters or leaves the rank. The options of `balance` apply: `speed`, `memory` and `link` are per
/// rank, and `orders`, `random_orders` and `seed` choose the stages from which the search starts. `fixed`,
/// `relayed` and empty parts are not supported.
///
/// The search takes the order of `balance`, starts at its stages and moves one boundary at a time to its best
/// place. It ends within 0.05 % of the bound, or when restarts from shifted and from random boundaries gain
/// nothing. If there are at most 100,000 cuts of that order (with more than 100 ranks, 10^7 / ranks), all are
/// tried. If each rank has one stage, the result is that of `balance`. A rank without a stage has load 0.
///
/// Complexity: that of `balance`, plus O((V + E) * (ranks + stages)) for each sweep over the boundaries. A
/// descent takes at most 50 sweeps; large graphs have fewer restarts. Memory O(values * ranks).
///
/// \throws error            as `balance`, and if a rank of `rank_of` is not below `ranks`
/// \throws infeasible_error if the graph has fewer units than stages, or no cut was found that fits into
/// memory
template <std::unsigned_integral Index>
ranked_stages balance_ranks(basic_snapshot_arrays<Index> const& g, std::span<rank_id const> rank_of,
                            std::uint32_t ranks, balance_options const& options = {}) {
  if (!options.fixed.empty() || options.relayed || options.empty == empty_parts::allowed)
    detail::raise(
        error("balance_ranks: `fixed`, `relayed` and empty parts are not supported; leave them out"));
  if (rank_of.empty() || ranks == 0)
    detail::raise(error("balance_ranks: there are no stages; give at least one rank"));
  if (ranks > g.nodes() + 65'536)  // reject before allocating tables of that size
    detail::raise(error("balance_ranks: there are " + std::to_string(ranks) +
                        " ranks, but the graph has only " + std::to_string(g.nodes()) +
                        " nodes; use fewer ranks"));
  for (std::size_t s = 0; s < rank_of.size(); ++s)
    if (index(rank_of[s]) >= ranks)
      detail::raise(error("balance_ranks: stage " + std::to_string(s) + " is on rank " +
                          std::to_string(index(rank_of[s])) + ", but there " +
                          (ranks == 1 ? "is only 1 rank" : "are only " + std::to_string(ranks) + " ranks")));
  if (auto const fault = detail::find_option_fault(options, g, ranks))
    detail::raise(error("balance_ranks: " + *fault));

  auto start = options;
  start.speed = detail::option_of_stages(options.speed, rank_of);
  start.link = detail::option_of_stages(options.link, rank_of);
  start.memory = detail::option_of_stages(options.memory, rank_of);
  auto const stages = static_cast<std::uint32_t>(rank_of.size());
  ranked_stages result{balance(g, stages, start), {}, 0, 0};
  auto const units = detail::units_of(g, {.together = options.together, .backward = options.backward});
  if (units.size() < stages)
    detail::raise(
        infeasible_error("the number of stages is " + std::to_string(stages) +
                         ", but the number of nodes to place is " + std::to_string(units.size()) +
                         " (nodes that must share a stage count once); use a schedule with fewer stages"));

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
  std::ranges::sort(by_stage, {}, [&](Index unit) { return std::pair(stage_of(unit), unit); });
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
    detail::raise(infeasible_error(
        "no cut into the stages of " + std::to_string(ranks) +
        " ranks was found that fits into their memory; raise the limits, or use more ranks"));

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
  result.bound = (std::min)(costs.scale.value(bound), result.bottleneck);
  return result;
}

/// Cuts a user's graph. \throws the errors of `balance_ranks` for a snapshot, and of `snapshot_of`
template <std::unsigned_integral Index = std::uint32_t, weighted_graph Graph>
  requires sized_graph<Graph>
ranked_stages balance_ranks(Graph const& g, std::span<rank_id const> rank_of, std::uint32_t ranks,
                            balance_options const& options = {}) {
  return balance_ranks(snapshot_of<Index>(g), rank_of, ranks, options);
}

template <std::unsigned_integral Index = std::uint32_t, detail::uncosted_graph Graph>
detail::refused balance_ranks(Graph const&, std::span<rank_id const>, std::uint32_t,
                              balance_options const& = {}) {
  detail::refuse_costs<Graph>();
}
}  // namespace cleave
