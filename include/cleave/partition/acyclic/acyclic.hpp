// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/graph/check_graph_concepts.hpp"
#include "cleave/graph/concepts.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/partition/acyclic/acyclic_options.hpp"
#include "cleave/partition/acyclic/detail/partitioner.hpp"
#include "cleave/partition/model/partition.hpp"
#include "cleave/partition/slices/balance.hpp"
#include "cleave/partition/units/units.hpp"

namespace cleave::inline v0_2::detail {

/// Returns `limits` with the devices reordered: part i gets device `order[i]`.
inline balance_options in_device_order(balance_options limits, std::vector<std::uint32_t> const& order) {
  auto const turned = [&](auto& values) {
    if (values.same()) return;
    auto const of = values;
    std::vector<std::decay_t<decltype(of[0])>> list;
    for (auto const device : order) list.push_back(of[device]);
    values = std::move(list);
  };
  turned(limits.speed);
  turned(limits.link);
  turned(limits.memory);
  return limits;
}

/// Returns for each of `k` devices the first device with the same speed, link and memory.
inline std::vector<std::uint32_t> device_kinds(balance_options const& l, std::uint32_t k) {
  auto const alike = [](auto const& values, std::size_t a, std::size_t b) {
    return values.same() || values[a] == values[b];
  };
  std::vector<std::uint32_t> kind(k);
  for (std::uint32_t d = 0; d < k; ++d)
    for (kind[d] = 0;
         !(alike(l.speed, kind[d], d) && alike(l.link, kind[d], d) && alike(l.memory, kind[d], d));)
      ++kind[d];
  return kind;
}

/// Device orders to try; the given order comes first.
struct device_orders {
  std::vector<std::vector<std::uint32_t>> list;
  bool all = true;  ///< true if the list contains every distinct order
};

/// Returns all distinct orders of the devices if there are at most `most`. Otherwise returns the given order
/// and the orders that swap two devices, near ones first, up to four million entries in all. Identical
/// devices are never swapped.
inline device_orders device_orders_near(std::vector<std::uint32_t> const& given,
                                        std::vector<std::uint32_t> const& kind, std::size_t most) {
  device_orders found{{given}};
  auto& orders = found.list;
  auto kinds = kind;  // of each position
  std::ranges::sort(kinds);
  do {
    auto order = given;
    std::vector<char> used(kind.size());
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      std::uint32_t device = 0;
      while (used[device] != 0 || kind[device] != kinds[i]) ++device;
      used[device] = 1;
      order[i] = device;
    }
    bool same = true;
    for (std::size_t i = 0; i < kinds.size(); ++i) same &= kind[order[i]] == kind[given[i]];
    if (!same) orders.push_back(std::move(order));
  } while (given.size() <= 256 && orders.size() <= most && std::next_permutation(kinds.begin(), kinds.end()));
  if (given.size() <= 256 && orders.size() <= most) return found;
  found.all = false;
  orders.assign(1, given);
  for (std::size_t apart = 1; apart < given.size(); ++apart)
    for (std::size_t i = 0; i + apart < given.size(); ++i)
      if (kind[given[i]] != kind[given[i + apart]] && orders.size() * given.size() < 4'000'000) {
        orders.push_back(given);
        std::swap(orders.back()[i], orders.back()[i + apart]);
      }
  return found;
}

/// Searches for the best device order: tries each order with little effort, and the best three with the full
/// effort.
template <std::unsigned_integral Index>
class device_order_search {
 public:
  device_order_search(basic_snapshot_arrays<Index> const& g, std::uint32_t k, acyclic_options const& o,
                      unit_graph<Index> const& units)
      : g_(g), k_(k), o_(o), units_(units) {}

  ordered_partition run() {
    std::vector<std::uint32_t> given(k_);
    std::iota(given.begin(), given.end(), 0u);
    auto const kind = device_kinds(o_.limits, k_);
    std::vector<attempt> best;
    for (bool more = true; more;) {
      auto const from = best.empty() ? given : best.front().order;
      auto const orders = device_orders_near(from, kind, most_orders);
      bool better = false;
      for (auto const& order : orders.list) {
        auto const known = [&](attempt const& a) { return a.order == order; };
        if (std::ranges::any_of(best, known)) continue;
        auto made = tried(order, 0);
        if (!made) continue;
        better |= best.empty() || less(*made, best.front());
        auto const as_good = [&](attempt const& a) { return !less(a, *made) && !less(*made, a); };
        if (std::ranges::any_of(best, as_good)) continue;  // usually they differ in a device that is not used
        best.insert(
            std::ranges::upper_bound(best, *made, [&](auto const& a, auto const& b) { return less(a, b); }),
            std::move(*made));
        if (best.size() > kept) best.pop_back();
      }
      more = better && !orders.all;
    }
    if (best.empty()) return acyclic_partitioner<Index>(g_, k_, o_, units_).run();  // throws the reason
    for (auto const& a : std::vector<attempt>(best))
      if (auto made = tried(a.order, o_.effort); made && less(*made, best.front()))
        best.front() = std::move(*made);
    return std::move(best.front().result);
  }

 private:
  static constexpr std::size_t most_orders = 64, kept = 3;

  struct attempt {
    std::vector<std::uint32_t> order;
    ordered_partition result;
  };

  bool less(attempt const& a, attempt const& b) const {
    if (a.result.balanced != b.result.balanced) return a.result.balanced;
    return o_.goal == acyclic_goal::cut ? a.result.cut < b.result.cut
                                        : a.result.bottleneck < b.result.bottleneck;
  }

  std::optional<attempt> tried(std::vector<std::uint32_t> const& order, double effort) const {
    auto options = o_;
    options.effort = effort;
    if (effort == 0) options.limits.random_orders = std::min<std::size_t>(options.limits.random_orders, 8);
    options.limits = in_device_order(o_.limits, order);
    try {
      attempt made{order, acyclic_partitioner<Index>(g_, k_, options, units_).run()};
      for (auto& device : made.result.device) device = order[device];
      return made;
    } catch (infeasible_error const&) {
      return std::nullopt;
    }
  }

  basic_snapshot_arrays<Index> const& g_;
  std::uint32_t k_;
  acyclic_options const& o_;
  unit_graph<Index> const& units_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Partitions the nodes of `g` into at most k parts whose graph is acyclic, and minimizes the largest load or
/// the cut.
///
/// Parts are numbered so that every edge, except those of backward nodes, leads to a part of the same or a
/// higher number. `options.goal` selects the objective. The constraints of `balance` apply: memory, fixed
/// nodes, nodes that must share a part, and devices of different speed and link. With the goal `cut`, no part
/// takes more than (1 + `epsilon`) times an even share of the compute time. The share is rounded up if all
/// weights are integers and speeds are equal. If even slices that only balance the time exceed this limit,
/// their largest time becomes the limit, and `balanced` is false.
///
/// The search starts from the best slices of many topological orders, so the bottleneck is never above that
/// of `balance`. It then coarsens level by level with clusters that form no cycle. On each level, it moves
/// single clusters between parts without breaking the order of the parts. Finally the units, part after part,
/// are sliced again. Herrmann et al., SISC 41(4), 2019; Moreira, Popp, Schulz, J. Heuristics 26, 2020. The
/// same options and seed give the same result on every platform.
///
/// Complexity: that of `balance`, and O((V + E) log V) for each round. All rounds together visit about two
/// million units and edges, times `effort`.
///
/// \param g        the graph
/// \param k        the number of parts
/// \param options  the goal, the constraints and the effort
/// \returns        the part of each node, with loads, cut and a lower bound on the bottleneck
/// \throws error if weights, options or their sums are invalid; the message names the node.
/// \throws infeasible_error if memory limits or fixed nodes cannot be satisfied, like `balance`.
template <std::unsigned_integral Index>
ordered_partition partition_acyclic(basic_snapshot_arrays<Index> const& g, std::uint32_t k,
                                    acyclic_options const& options = {}) {
  if (auto const fault = detail::find_option_fault(options, g, k))
    throw error("partition_acyclic: " + *fault);
  auto const units =
      detail::units_of(g, {.together = options.limits.together, .backward = options.limits.backward});
  if (options.devices == device_order::any)
    return detail::device_order_search<Index>(g, k, options, units).run();
  return detail::acyclic_partitioner<Index>(g, k, options, units).run();
}

/// Minimizes the time of a step as reported by `step_time`, for example by a simulated schedule.
///
/// The search evaluates the partitions found for other goals, then moves clusters of nodes between the parts
/// of the best one. `step_time` is called about 500 times in all, times `effort`. It must return equal times
/// for equal partitions. Devices stand in the given order.
///
/// \param step_time  called with a `partition const&`; returns the time of a step, in any unit
/// \throws error if weights, options or their sums are invalid, or if `step_time` returns a negative number
///   or NaN.
template <std::unsigned_integral Index, class StepTime>
  requires std::is_invocable_r_v<double, StepTime&, partition const&>
ordered_partition partition_acyclic(basic_snapshot_arrays<Index> const& g, std::uint32_t k,
                                    acyclic_options options, StepTime step_time) {
  options.devices = device_order::given;
  std::vector<ordered_partition> starts{partition_acyclic(g, k, options)};
  options.goal = acyclic_goal::cut;
  for (double const epsilon : {0.03, 0.1, 0.3}) {
    options.epsilon = epsilon;
    starts.push_back(partition_acyclic(g, k, options));
  }
  options.goal = acyclic_goal::bottleneck;
  starts.push_back(partition_acyclic(g, k, options));
  auto const units =
      detail::units_of(g, {.together = options.limits.together, .backward = options.limits.backward});
  return detail::acyclic_partitioner<Index>(g, k, options, units).run_timed(starts, step_time);
}

/// Partitions a user's own graph. Parts are given by node position in `nodes()`.
template <std::unsigned_integral Index = std::uint32_t, weighted_graph Graph>
  requires sized_graph<Graph>
ordered_partition partition_acyclic(Graph const& g, std::uint32_t k, acyclic_options const& options = {}) {
  return partition_acyclic(snapshot_of<Index>(g), k, options);
}

/// Rejects graphs without weights or sizes with a readable compile-time message.
template <std::unsigned_integral Index = std::uint32_t, detail::uncosted_graph Graph>
detail::refused partition_acyclic(Graph const&, std::uint32_t, acyclic_options const& = {}) {
  detail::refuse_costs<Graph>();
}

}  // namespace cleave
