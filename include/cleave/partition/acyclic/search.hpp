// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cleave/core/random.hpp"
#include "cleave/partition/acyclic/acyclic_options.hpp"
#include "cleave/partition/acyclic/coarsen.hpp"
#include "cleave/partition/acyclic/level.hpp"
#include "cleave/partition/acyclic/problem.hpp"
#include "cleave/partition/acyclic/refine_cut.hpp"
#include "cleave/partition/acyclic/refine_load.hpp"
#include "cleave/partition/acyclic/state.hpp"
#include "cleave/partition/units/topological_orders.hpp"

namespace cleave::detail {

/// Makes partitions of one level's units and betters them: what all goals of `partition_acyclic` share.
template <std::unsigned_integral Index>
class acyclic_search {
 public:
  using parts = std::vector<std::uint32_t>;

  /// A partition, and what is to be least.
  struct found {
    parts of;
    std::int64_t value = unreachable_load;
    bool operator<(found const& other) const {
      return value != other.value ? value < other.value : of < other.of;
    }
  };

  acyclic_search(acyclic_level<Index> const& finest, acyclic_limits const& limits, acyclic_goal goal,
                 std::int64_t bound)
      : finest_(finest), limits_(limits), goal_(goal), bound_(bound) {}

  std::int64_t value_of(acyclic_state<Index> const& state) const {
    return goal_ == acyclic_goal::cut ? state.cut() : state.bottleneck();
  }
  found valued(parts of) const {
    acyclic_state<Index> const state(finest_, limits_, std::move(of));
    return {state.of(), value_of(state)};
  }

  /// The best slices of one order of a level's units, if any fit and are below `below`.
  std::optional<parts> sliced(acyclic_level<Index> const& level, std::span<Index const> order,
                              std::int64_t below = unreachable_load) const {
    return goal_ == acyclic_goal::cut ? cut_slices<Index>(level, limits_, order, limits_.most[0])
                                      : load_slices<Index>(level, limits_, order, bound_, below);
  }

  /// The best of what the slices of some orders of the coarsest level become on the way down, if there is
  /// any.
  std::optional<found> from_above(std::size_t orders, std::uint64_t seed) const {
    auto const h = coarsened<Index>(finest_, {.most_weight = cluster_weight(), .seed = seed});
    auto const& coarsest = h.levels.empty() ? finest_ : h.levels.back();
    std::vector<found> best;
    splitmix dice(seed);
    for (auto const how : {unit_order::given, unit_order::breadth_first, unit_order::depth_first,
                           unit_order::on_demand, unit_order::on_demand_last})
      keep_slices(coarsest, order_of(coarsest, how, dice), best);
    while (orders-- > 0) keep_slices(coarsest, order_of(coarsest, unit_order::random, dice), best);
    if (best.empty()) return std::nullopt;
    std::sort(best.begin(), best.end());
    return valued(refined_down(h, std::move(best.front().of)));
  }

  /// Coarsens within the parts, refines on the way down and cuts the units in the order of the parts anew.
  /// Never worse.
  found cycle(found start, std::uint64_t seed) const {
    auto const h = coarsened<Index>(finest_, {.part = start.of,
                                              .enough = 20 * std::size_t{limits_.parts()},
                                              .most_weight = cluster_weight(),
                                              .seed = seed});
    auto of = start.of;
    for (auto const& cluster : h.cluster) {
      parts coarse(h.levels[static_cast<std::size_t>(&cluster - h.cluster.data())].units());
      for (std::size_t u = 0; u < of.size(); ++u) coarse[cluster[u]] = of[u];
      of = std::move(coarse);
    }
    auto better = valued(refined_down(h, std::move(of)));
    if (start.value < better.value) better = std::move(start);
    return resliced(std::move(better), seed);
  }

  /// The best slices of an order in which the parts come one after the other. Never worse.
  found resliced(found start, std::uint64_t seed) const {
    splitmix dice(seed);
    auto const how = seed % 4 == 0   ? unit_order::given
                     : seed % 4 == 1 ? unit_order::on_demand
                     : seed % 4 == 2 ? unit_order::depth_first
                                     : unit_order::random;
    auto const order = order_of(finest_, how, dice);
    std::vector<std::size_t> next(limits_.parts() + std::size_t{1});
    for (auto const p : start.of) ++next[p + std::size_t{1}];
    std::partial_sum(next.begin(), next.end(), next.begin());
    std::vector<Index> by_part(order.size());
    for (Index const u : order) by_part[next[start.of[u]]++] = u;
    auto of = sliced(finest_, by_part, start.value);
    if (!of) return start;
    auto better = valued(std::move(*of));
    return better.value < start.value ? std::move(better) : std::move(start);
  }

  std::vector<Index> order_of(acyclic_level<Index> const& level, unit_order how, splitmix& dice) const {
    std::vector<Index> rank;
    if (how == unit_order::random) {
      rank = shuffled_ranks<Index>(level.units(), dice);
    } else {
      rank.resize(level.units());
      std::iota(rank.begin(), rank.end(), Index{});
    }
    return ordered_units<Index>(level.needs, level.needed_by, how, rank, level.window, limits_.parts());
  }

 private:
  /// A cluster may be a part of a part only, lest it could not move.
  std::int64_t cluster_weight() const {
    auto const& weight = finest_.weight[0];
    auto const sum = std::accumulate(weight.begin(), weight.end(), std::int64_t{});
    return sum / limits_.parts() / 16;
  }

  void keep_slices(acyclic_level<Index> const& level, std::vector<Index> const& order,
                   std::vector<found>& best) const {
    if (auto of = sliced(level, order)) {
      acyclic_state<Index> state(level, limits_, std::move(*of));
      refine(state);
      best.push_back({state.of(), value_of(state)});
    }
  }

  void refine(acyclic_state<Index>& state) const {
    goal_ == acyclic_goal::cut ? refine_cut(state) : refine_load(state);
  }

  /// Refines on each level from the coarsest to the finest; `of` are the parts of the coarsest.
  parts refined_down(acyclic_hierarchy<Index> const& h, parts of) const {
    for (auto at = h.levels.size();; --at) {
      auto const& level = at == 0 ? finest_ : h.levels[at - 1];
      acyclic_state<Index> state(level, limits_, std::move(of));
      refine(state);
      of = state.of();
      if (at == 0) return of;
      auto const& cluster = h.cluster[at - 1];
      parts fine(cluster.size());
      for (std::size_t u = 0; u < fine.size(); ++u) fine[u] = of[cluster[u]];
      of = std::move(fine);
    }
  }

  acyclic_level<Index> const& finest_;
  acyclic_limits const& limits_;
  acyclic_goal goal_;
  std::int64_t bound_;
};

}  // namespace cleave::detail
