// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "cleave/core/fixed_point.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/random.hpp"
#include "cleave/core/real.hpp"
#include "cleave/graph/dense.hpp"
#include "cleave/partition/acyclic/acyclic_options.hpp"
#include "cleave/partition/acyclic/level.hpp"
#include "cleave/partition/acyclic/problem.hpp"
#include "cleave/partition/acyclic/search.hpp"
#include "cleave/partition/acyclic/step_time.hpp"
#include "cleave/partition/model/metrics.hpp"
#include "cleave/partition/slices/balance.hpp"
#include "cleave/partition/slices/lower_bound.hpp"
#include "cleave/partition/units/topological_orders.hpp"
#include "cleave/partition/units/unit_costs.hpp"
#include "cleave/partition/units/unit_memory.hpp"
#include "cleave/partition/units/units.hpp"

namespace cleave::detail {

/// Partitions one graph for devices in the order given; `partition_acyclic` is its one use.
template <std::unsigned_integral Index>
class acyclic_partitioner {
 public:
  acyclic_partitioner(basic_dense<Index> const& g, std::uint32_t k, acyclic_options const& o,
                      unit_graph<Index> const& units)
      : g_(g), k_(k), o_(o), units_(units) {}

  ordered_partition run() {
    auto start = first_partition();
    if (units_.size() == 0) return reported(std::move(start.of), start.parts, 0);
    state_limits();
    auto const bound = o_.goal == acyclic_goal::bottleneck ? load_bound(costs_) : 0;
    auto of = parts_of_units(start);
    limit_times(of);

    acyclic_search<Index> const search(level_, limits_, o_.goal, bound);
    auto best = search.valued(std::move(of));
    for (auto& start_of : other_starts(search, best.value)) best = (std::min)(best, search.valued(start_of));
    if (o_.goal == acyclic_goal::cut && rounds() == 0 && o_.effort > 0)  // slices are far from a good cut
      best = search.cycle(std::move(best), o_.limits.seed);
    std::size_t stale = 0;  // rounds in a row that found nothing better
    for (std::size_t round = 0; round < rounds() && stale < 4 && best.value > bound; ++round, ++stale) {
      auto const seed = o_.limits.seed + 2 * round;
      auto const before = best.value;
      if (auto other = search.from_above(8, seed)) best = (std::min)(best, search.cycle(*other, seed));
      best = search.cycle(std::move(best), seed + 1);
      if (best.value < before) stale = 0;
    }
    return reported(parts_of_nodes(best.of), 0, load_bound(costs_));
  }

  /// Of the partitions `starts` and of what single moves make of the best the one whose step takes least
  /// time. Devices stand as given.
  template <class StepTime>
  ordered_partition run_timed(std::vector<ordered_partition> const& starts, StepTime& time) {
    if (units_.size() == 0) return starts.front();
    state_limits();
    step_timer<Index, StepTime> timer(g_, units_, time, questions());
    std::vector<std::uint32_t> best;
    double least = std::numeric_limits<double>::infinity();
    for (auto const& start : starts) {
      auto of = parts_of_units(start);
      if (double const now = timer(of); best.empty() || now < least) {
        least = now;
        best = std::move(of);
      }
    }
    auto shortest = shortened_step(level_, limits_, std::move(best), least, timer, o_.limits.seed);
    auto r = reported(parts_of_nodes(shortest.first), 0, load_bound(costs_));
    r.step_time = shortest.second;
    return r;
  }

 private:
  using found = typename acyclic_search<Index>::found;

  std::vector<std::uint32_t> parts_of_units(partition const& p) const {
    std::vector<std::uint32_t> of(units_.size());
    for (std::size_t u = 0; u < of.size(); ++u) of[u] = index(p.of[units_.members[u].front()]);
    return of;
  }
  std::vector<part_id> parts_of_nodes(std::vector<std::uint32_t> const& of) const {
    std::vector<part_id> part(g_.nodes(), no_part);
    for (std::size_t u = 0; u < of.size(); ++u)
      for (Index const n : units_.members[u]) part[n] = part_id{of[u]};
    return part;
  }
  std::size_t questions() const { return 1 + static_cast<std::size_t>(500 * o_.effort); }

  /// Slices that balance what is to be balanced, or an error that says why there are none.
  balanced_partition first_partition() const {
    auto options = o_.limits;
    if (o_.goal == acyclic_goal::cut) {
      options.cost_per_byte = 0;
      options.random_orders = std::min<std::size_t>(options.random_orders, 8);
    }
    return balance(g_, k_, options);
  }

  void state_limits() {
    auto const& l = o_.limits;
    auto const parts =
        may_leave_gaps(l) ? k_ : static_cast<std::uint32_t>(std::min<std::size_t>(k_, units_.size()));
    costs_ = costs_of(g_, units_, parts, {l.cost_per_byte, l.speed, l.link});
    limits_.speed_of = costs_.speed_of;
    limits_.link_of = costs_.link_of;
    limits_.most.assign(parts, unreachable_load);
    limits_.may_be_empty = l.empty == empty_parts::allowed;
    for (std::uint32_t s = 0; s < parts && !l.memory.empty(); ++s) limits_.memory.push_back(l.memory[s]);

    level_.needs = units_.needs;
    level_.needed_by = units_.needed_by;
    level_.weight = costs_.weight;
    if (!l.memory.empty()) level_.memory = memory_of<Index>(g_, units_, l.node_memory);
    if (o_.goal == acyclic_goal::cut) {
      limits_.link_of.assign(parts, 0);
      auto const prices = list_cut_values(g_, units_, o_.counted, level_.touching);
      double total = 0;
      for (std::size_t v = 0; v < prices.size(); ++v)
        total += prices[v] * static_cast<double>(level_.touching[v].size());
      auto const scale = fixed_point::for_total(2 * total);
      auto& row = level_.price.emplace_back();
      for (double const price : prices) row.push_back(scale.of(price));
    } else {
      level_.touching = costs_.touching;
      level_.price = costs_.linked;
      if (level_.price.empty()) level_.price.push_back(costs_.transfer);
    }
    level_.touched = users_of(level_.touching, units_.size());
    place_pins(parts);
  }

  void place_pins(std::uint32_t parts) {
    std::vector<part_id> pinned(units_.size(), no_part);
    bool any = false;
    for (std::size_t n = 0; n < o_.limits.pinned.size(); ++n)
      if (o_.limits.pinned[n] != no_part && units_.of[n] != none<Index>) {
        pinned[units_.of[n]] = o_.limits.pinned[n];
        any = true;
      }
    if (!any) return;
    splitmix unused(0);
    acyclic_search<Index> const search(level_, limits_, o_.goal, 0);
    auto const order = search.order_of(level_, unit_order::breadth_first, unused);
    level_.window = reach_of_pins<Index>(units_.needs, order, pinned, parts).window;
  }

  /// Of a cut no part may take more than an even share and `epsilon` more; where even the slices `of`, which
  /// were made for nothing else, take more, what they take.
  void limit_times(std::vector<std::uint32_t> const& of) {
    if (o_.goal != acyclic_goal::cut) return;
    double sum = 0;
    bool whole = true;
    for (std::size_t n = 0; n < g_.nodes(); ++n)
      if (units_.of[n] != none<Index>) {
        sum += g_.weight[n];
        whole &= g_.weight[n] == static_cast<double>(rounded(g_.weight[n]));
      }
    auto share = sum / speed_sum();
    if (whole && o_.limits.speed.empty() && share < 0x1p52) {
      auto const units = static_cast<std::int64_t>(share);
      share = static_cast<double>(units) + (static_cast<double>(units) < share ? 1 : 0);
    }
    auto most = static_cast<std::int64_t>((1 + o_.epsilon) * share * power_of_two(costs_.scale.exponent));
    std::vector<std::int64_t> time(limits_.parts());
    for (std::size_t u = 0; u < of.size(); ++u) time[of[u]] += costs_.weight[costs_.speed_of[of[u]]][u];
    auto const least = (std::ranges::max)(time);
    balanced_ = least <= most;
    limits_.most.assign(limits_.parts(), (std::max)(most, least));
  }
  double speed_sum() const {
    double sum = 0;
    for (std::uint32_t s = 0; s < limits_.parts(); ++s)
      sum += o_.limits.speed.empty() ? 1 : o_.limits.speed[s];
    return sum;
  }

  /// How often a partition is made anew: as far as that is some million units and touches in all.
  std::size_t rounds() const {
    auto const size = static_cast<double>(units_.size() + level_.touching.item.size());
    return static_cast<std::size_t>((std::min)(32.0, o_.effort * 2e6 / size));
  }

  std::vector<std::vector<std::uint32_t>> other_starts(acyclic_search<Index> const& search,
                                                       std::int64_t below) const {
    std::vector<std::vector<std::uint32_t>> starts;
    splitmix unused(0);
    if (o_.goal != acyclic_goal::cut) return starts;
    for (auto const how : o_.limits.orders)
      if (auto of = search.sliced(level_, search.order_of(level_, how, unused), below))
        starts.push_back(std::move(*of));
    return starts;
  }

  ordered_partition reported(std::vector<part_id> of, std::uint32_t parts, std::int64_t bound) const {
    ordered_partition r;
    r.of = std::move(of);
    r.parts = parts;
    for (auto const p : r.of)
      if (p != no_part) r.parts = (std::max)(r.parts, index(p) + 1);
    std::vector<double> speed, link;
    auto const& l = o_.limits;
    for (std::uint32_t s = 0; s < r.parts; ++s) {
      speed.push_back(l.speed.empty() ? 1 : l.speed[s]);
      link.push_back(l.link.empty() ? 1 : l.link[s]);
      r.device.push_back(s);
    }
    r.loads = part_loads(g_, r, {l.cost_per_byte, speed, link});
    r.times = part_weights(g_, r);
    double sum = 0;
    for (std::size_t s = 0; s < r.times.size(); ++s) sum += r.times[s], r.times[s] /= speed[s];
    for (double const load : r.loads) r.bottleneck = (std::max)(r.bottleneck, load);
    for (double const time : r.times)
      if (sum > 0) r.imbalance = (std::max)(r.imbalance, time * speed_sum() / sum - 1);
    r.bound = (std::min)(costs_.scale.value(bound), r.bottleneck);
    r.cut = counted_cut(r);
    r.balanced = balanced_;
    return r;
  }
  double counted_cut(partition const& p) const {
    double sum = 0;
    each_crossing(g_, p, [&](Index v, part_id from, std::span<part_id const> readers) {
      double const bytes = g_.bytes.empty() ? 0 : static_cast<double>(g_.bytes[v]);
      if (o_.counted == cut_measure::received_values) sum += static_cast<double>(readers.size());
      if (o_.counted == cut_measure::received_bytes) sum += bytes * static_cast<double>(readers.size());
      if (o_.counted == cut_measure::edge_bytes)
        for (Index const user : g_.users[v])
          if (p.of[user] != from && p.of[user] != no_part && !is_replicable(g_, user)) sum += bytes;
    });
    return sum;
  }

  basic_dense<Index> const& g_;
  std::uint32_t k_;
  acyclic_options const& o_;
  unit_graph<Index> const& units_;
  unit_costs<Index> costs_;
  acyclic_level<Index> level_;
  acyclic_limits limits_;
  bool balanced_ = true;
};

}  // namespace cleave::detail
