// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/bytes.hpp"  // 16_GiB
#include "cleave/core/error.hpp"
#include "cleave/core/fixed_point.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/language.hpp"
#include "cleave/core/random.hpp"
#include "cleave/core/real.hpp"
#include "cleave/graph/check_graph_concepts.hpp"
#include "cleave/graph/concepts.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/flow/local_flow.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/partition/model/metrics.hpp"
#include "cleave/partition/model/partition.hpp"
#include "cleave/partition/slices/slicing.hpp"
#include "cleave/partition/units/mirrored_backward_order.hpp"
#include "cleave/partition/units/topological_orders.hpp"
#include "cleave/partition/units/units.hpp"

namespace cleave::inline v0_2 {

/// Defines whether parts may be empty.
enum class empty_parts : std::uint8_t {
  forbidden,  ///< exactly min(k, units) parts, none of them empty
  allowed,    ///< up to k parts; fewer if additional transfers would cost more than the parts save
};

/// Options of `balance`. Nodes are positions in `nodes()`. Arrays with an entry per node may be empty if
/// there is nothing to specify.
struct balance_options {
  double cost_per_byte = 1;        ///< cost of moving one byte, in the unit of the weights
  per_part<std::size_t> memory{};  ///< bytes of state, constants and `node_memory` that each part can hold
  per_part<double> speed{};        ///< weight that each part processes per unit of time
  per_part<double> link{};         ///< factor on each part's transfer costs; 0 for a host that pays none
  bool relayed = false;  ///< values pass through all parts between producer and readers, as in runtimes
                         ///< in which each part sends to the next one only; these parts pay too
  std::vector<std::vector<std::size_t>> together{};  ///< sets of nodes that must share a part
  std::vector<char> backward{};            ///< per node: nonzero if its edges do not restrict the order
  std::vector<part_id> fixed{};            ///< per node: its part, or no_part
  std::vector<std::size_t> node_memory{};  ///< per node: bytes that its part holds in addition to state
  std::vector<std::size_t> rank{};         ///< per node: priority in `unit_order::given`, smallest first
  std::vector<unit_order> orders{unit_order::given, unit_order::breadth_first, unit_order::depth_first,
                                 unit_order::on_demand, unit_order::on_demand_last};
  std::size_t random_orders = 64;  ///< random orders tried in addition, limited to a million units in all;
                                   ///< with backward nodes a quarter more
  std::uint64_t seed = 1;          ///< seed of the random orders
  empty_parts empty = empty_parts::forbidden;
};

/// A partition with its loads and a lower bound.
struct balanced_partition : partition {
  std::vector<double> loads{};  ///< load of each part
  double bottleneck = 0;        ///< the largest load
  double bound = 0;  ///< lower bound on the bottleneck of any assignment to k parts, contiguous or not
  unit_order order = unit_order::given;  ///< the first tried order with these slices
  std::size_t unsized = 0;  ///< values of unknown size that cross between parts; they count as free

  /// Returns an upper bound on the distance from the optimum, as a fraction of the bound: 0.03 is 3 %.
  double gap() const {
    if (bottleneck <= bound) return 0;
    return bound > 0 ? bottleneck / bound - 1 : std::numeric_limits<double>::infinity();
  }
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns true if an empty part may precede a nonempty one. This matters only if parts differ. Otherwise
/// more parts than units are useless.
inline bool may_leave_gaps(balance_options const& o) {
  return o.empty == empty_parts::allowed &&
         !(o.speed.same() && o.memory.same() && o.link.same() && o.fixed.empty());
}

/// Returns a sentence about the first invalid option, if any. O(V).
template <std::unsigned_integral Index>
std::optional<std::string> find_option_fault(balance_options const& o, basic_snapshot_arrays<Index> const& g,
                                             std::uint32_t k) {
  auto const count = [](std::size_t n) { return std::to_string(n); };
  if (k == 0) return "k is 0; pass at least 1";
  if (may_leave_gaps(o) && k > g.nodes() + 65'536)  // reject before allocating tables of that size
    return count(k) + " parts are requested, but the graph has only " + count(g.nodes()) +
           " nodes; request fewer parts";
  if (o.relayed && o.empty == empty_parts::allowed)
    return "`relayed` needs parts that are not empty, which would pass values on; set empty to "
           "empty_parts::forbidden";
  if (o.orders.empty() && o.random_orders == 0)
    return "`orders` is empty and `random_orders` is 0; give at least one order";
  if (g.weight.size() != g.nodes())
    return "the graph has no node weights; add weight(n) to its adapter, or fill the array `weight` of its "
           "snapshot";
  if (!g.bytes.empty() && g.bytes.size() != g.values())
    return "bytes has " + count(g.bytes.size()) + " entries, but the graph has " + count(g.values()) +
           " values";
  if (auto const n = find_bad_weight(g))
    return "the weight of node " + g.label(*n) + " is " + std::to_string(g.weight[*n]) +
           ": weights must be finite and not negative";
  if (!(o.cost_per_byte >= 0) || !is_finite(o.cost_per_byte))
    return "cost_per_byte is " + std::to_string(o.cost_per_byte) + ": it must be finite and not negative";
  if (!o.speed.covers(k)) return count(o.speed.size()) + " speeds are given for " + count(k) + " parts";
  for (std::size_t s = 0; s < o.speed.size(); ++s)
    if (!(o.speed[s] > 0) || !is_finite(o.speed[s]))
      return "the speed of part " + count(s) + " is " + std::to_string(o.speed[s]) +
             ": it must be finite and above 0";
  if (!o.link.covers(k)) return count(o.link.size()) + " links are given for " + count(k) + " parts";
  for (std::size_t s = 0; s < o.link.size(); ++s)
    if (!(o.link[s] >= 0) || !is_finite(o.link[s]))
      return "the link of part " + count(s) + " is " + std::to_string(o.link[s]) +
             ": it must be finite and not negative";
  if (!o.memory.covers(k))
    return count(o.memory.size()) + " memory limits are given for " + count(k) + " parts";
  auto const wrong_size = [&](std::size_t size) { return size != 0 && size != g.nodes(); };
  auto const size_fault = [&](char const* what, std::size_t size) {
    return std::string(what) + " has " + count(size) + " entries, but the graph has " + count(g.nodes()) +
           " nodes";
  };
  if (wrong_size(o.backward.size())) return size_fault("backward", o.backward.size());
  if (wrong_size(o.fixed.size())) return size_fault("fixed", o.fixed.size());
  if (wrong_size(o.node_memory.size())) return size_fault("node_memory", o.node_memory.size());
  if (wrong_size(o.rank.size())) return size_fault("rank", o.rank.size());
  for (std::size_t n = 0; n < o.fixed.size(); ++n)
    if (o.fixed[n] != no_part && index(o.fixed[n]) >= k)
      return "node " + g.label(n) + " is fixed to part " + count(index(o.fixed[n])) +
             ", but there are only " + count(k) + " parts";
  for (auto const& set : o.together)
    for (auto const n : set)
      if (n >= g.nodes())
        return "`together` names node #" + count(n) + ", but the graph has only " + count(g.nodes()) +
               " nodes";
  return std::nullopt;
}

}  // namespace cleave::detail

/// The certificate of `balance`: lower bounds that hold for every assignment of units to parts, contiguous or
/// not, with or without cycles between parts, and for any memory limits.
namespace cleave::inline v0_2::detail {

/// Returns the average load: the total time divided by the total speed. Some part has at least this load.
template <std::unsigned_integral Index>
std::int64_t even_share(unit_costs<Index> const& c) {
  auto const& weight = c.weight[c.fastest];
  auto const sum = std::accumulate(weight.begin(), weight.end(), std::int64_t{});
  auto const parts = static_cast<std::int64_t>(c.speed_of.size());
  if (c.weight.size() == 1) return sum / parts + (sum % parts != 0);
  double const rounding = 1 - 0x1p-30;  // larger than the rounding error of the division
  return static_cast<std::int64_t>(static_cast<double>(sum) / c.relative_speed * rounding);
}

/// Returns the pigeonhole bound: among any j k + 1 units, j + 1 share one of the k parts. O(units log units).
/// Martello and Toth, Knapsack Problems, 1990, section 8.3.
template <std::unsigned_integral Index>
std::int64_t pigeonhole_share(unit_costs<Index> const& c) {
  auto weight = c.weight[c.fastest];
  std::sort(weight.begin(), weight.end(), [](std::int64_t a, std::int64_t b) { return a > b; });
  std::vector<std::int64_t> sum(weight.size() + 1);
  for (std::size_t i = 0; i < weight.size(); ++i) sum[i + 1] = sum[i] + weight[i];
  std::int64_t bound = 0;
  for (std::size_t j = 0, k = c.speed_of.size(); j * k + 1 <= weight.size(); ++j)
    bound = (std::max)(bound, sum[j * k + 1] - sum[j * k - j]);
  return bound;
}

/// Returns a lower bound on the load of the part that contains `unit`. For each value that the unit shares
/// with others, the part pays for the transfer or, at best, for the time of those other units. This is a
/// minimum cut, computed as a maximum flow. Only some thousand nearby units are considered, which makes the
/// bound weaker but not wrong.
template <std::unsigned_integral Index>
std::int64_t least_with(unit_costs<Index> const& c, Index unit) {
  constexpr std::size_t most_units = 4000, most_touches = 40000;
  auto const& weight = c.weight[c.fastest];
  std::vector<Index> units{unit}, values;
  // position + 1; 0: not included
  std::vector<std::uint32_t> place_of_unit(c.units()), place_of_value(c.transfer.size());
  place_of_unit[unit] = 1;
  std::size_t touches = 0;
  for (std::size_t i = 0; i < units.size(); ++i)
    for (Index const v : c.touched[units[i]]) {
      if (place_of_value[v] != 0 || touches > most_touches) continue;
      values.push_back(v);
      place_of_value[v] = static_cast<std::uint32_t>(values.size());
      for (Index const other : c.touching[v]) {
        ++touches;
        if (place_of_unit[other] != 0 || units.size() >= most_units) continue;
        units.push_back(other);
        place_of_unit[other] = static_cast<std::uint32_t>(units.size());
      }
    }

  auto const sink = static_cast<std::uint32_t>(units.size());
  local_flow flow(units.size() + 1 + 2 * values.size());
  for (std::uint32_t i = 1; i < sink; ++i)
    if (weight[units[i]] > 0) flow.arc(i, sink, weight[units[i]]);
  for (std::uint32_t i = 0; i < values.size(); ++i) {
    auto const in = sink + 1 + 2 * i, out = in + 1;
    flow.arc(in, out, c.transfer[values[i]]);
    for (Index const other : c.touching[values[i]])
      if (auto const place = place_of_unit[other]; place != 0) {
        flow.arc(place - 1, in, unreachable_load);
        flow.arc(out, place - 1, unreachable_load);
      }
  }
  return weight[unit] + flow.most(0, sink, 4'000'000);
}

/// Returns the largest of the three lower bounds. Flows are computed for the eight units with the largest
/// weight plus transfers.
template <std::unsigned_integral Index>
std::int64_t load_bound(unit_costs<Index> const& c) {
  auto bound = (std::max)(even_share(c), pigeonhole_share(c));
  auto alone = c.weight[c.fastest];  // load of each unit in a part of its own
  for (Index u = 0; u < c.units(); ++u)
    for (Index const v : c.touched[u]) alone[u] += c.transfer[v];
  for (int tries = 0; tries < 8 && !alone.empty(); ++tries) {
    std::size_t most = 0;
    for (std::size_t u = 1; u < alone.size(); ++u)
      if (alone[u] >= alone[most]) most = u;
    if (alone[most] <= bound) break;
    bound = (std::max)(bound, least_with(c, static_cast<Index>(most)));
    alone[most] = 0;
  }
  return bound;
}

/// Computes a balanced partition step by step. Used by `balance`.
template <std::unsigned_integral Index>
class balancer {
 public:
  balancer(basic_snapshot_arrays<Index> const& g, std::uint32_t k, balance_options const& o)
      : g_(g), o_(o), units_(units_of(g, {.together = o.together, .backward = o.backward})) {
    auto const most = may_leave_gaps(o) ? k : std::min<std::size_t>(k, units_.size());
    parts_ = static_cast<std::uint32_t>(units_.size() == 0 ? 0 : most);
  }

  balanced_partition run() {
    balanced_partition result;
    result.of.assign(g_.nodes(), no_part);
    if (parts_ == 0) {
      result.parts = g_.nodes() > 0 ? 1 : 0;  // for replicable nodes only
      result.loads.resize(result.parts);
      return result;
    }
    costs_ = costs_of(g_, units_, parts_, {o_.cost_per_byte, o_.speed, o_.link, o_.relayed});
    if (!o_.memory.empty()) memory_ = memory_of<Index>(g_, units_, o_.node_memory);
    rank_units();
    place_fixed_nodes();

    auto const bound = load_bound(costs_);
    slices<Index> best;
    std::vector<Index> best_order;
    std::vector<std::vector<Index>> tried;
    unit_edges<Index> const rules{units_.predecessors, units_.successors};
    bool const mirrored = window_.earliest.empty() && !o_.backward.empty();
    edges_ = mirrored ? mirrored_backward_edges<Index>(g_, units_, o_.backward) : rules;
    bool only = false;  // true if there is no other order
    auto const done = [&] { return only || best.load <= bound; };
    auto const attempt = [&](unit_order how, std::span<Index const> rank) {
      if (done()) return;
      auto order = ordered_units<Index>(edges_.predecessors, edges_.successors, how, rank, window_, parts_);
      only = is_only_order<Index>(edges_.predecessors, order);
      if (std::find(tried.begin(), tried.end(), order) != tried.end()) return;
      if (auto better = best_slices(task_for(order), bound, best.load)) {
        best = std::move(*better);
        best_order = order;
        result.order = how;
      }
      tried.push_back(std::move(order));
    };
    splitmix dice(o_.seed);
    auto const attempt_all = [&](std::size_t random_orders) {
      for (auto const how : o_.orders) attempt(how, rank_);
      while (random_orders-- > 0 && !done())
        attempt(unit_order::random, shuffled_ranks<Index>(units_.size(), dice));
    };
    auto const few = std::max<std::size_t>(1'000'000 / units_.size(), o_.orders.empty() ? 1 : 0);
    attempt_all((std::min)(o_.random_orders, few));
    if (mirrored) {  // mirrored edges are only a preference and may exclude the best slices, or all that fit
      edges_ = rules;
      only = false;
      attempt_all((std::min)(o_.random_orders, few) / 4);
    }
    if (best.at.empty()) refuse(tried);
    report(result, best, best_order, bound);
    return result;
  }

 private:
  Index node_of(Index unit) const { return units_.members[unit].front(); }

  void rank_units() {
    rank_.resize(units_.size());
    std::iota(rank_.begin(), rank_.end(), Index{});
    if (o_.rank.empty()) return;
    std::vector<std::size_t> least(units_.size());
    for (Index u = 0; u < units_.size(); ++u) {
      least[u] = o_.rank[node_of(u)];
      for (Index const n : units_.members[u]) least[u] = (std::min)(least[u], o_.rank[n]);
    }
    auto by_rank = rank_;
    std::sort(by_rank.begin(), by_rank.end(),
              [&](Index a, Index b) { return least[a] != least[b] ? least[a] < least[b] : a < b; });
    for (Index i = 0; i < by_rank.size(); ++i) rank_[by_rank[i]] = i;
  }

  void place_fixed_nodes() {
    fixed_.assign(units_.size(), no_part);
    bool any = false;
    for (std::size_t n = 0; n < o_.fixed.size(); ++n) {
      if (o_.fixed[n] == no_part || units_.of[n] == none<Index>) continue;
      any = true;
      auto& pin = fixed_[units_.of[n]];
      if (pin != no_part && pin != o_.fixed[n])
        raise(infeasible_error("node " + g_.label(n) + " is fixed to " + text(o_.fixed[n]) +
                               ", but must share the part of node " + g_.label(node_of(units_.of[n])) +
                               ", where a node is fixed to " + text(pin)));
      if (index(o_.fixed[n]) >= parts_)
        raise(infeasible_error("node " + g_.label(n) + " is fixed to " + text(o_.fixed[n]) +
                               ", but the groups that cannot be split allow only " + std::to_string(parts_) +
                               " parts; allow empty parts or request fewer parts"));
      pin = o_.fixed[n];
    }
    if (!any) return;
    auto const order =
        ordered_units<Index>(units_.predecessors, units_.successors, unit_order::breadth_first, rank_);
    auto reach = reach_of_fixed<Index>(units_.predecessors, order, fixed_, parts_);
    if (reach.conflict)
      raise(infeasible_error("node " + g_.label(node_of(reach.conflict->second)) + " is fixed to " +
                             text(fixed_[reach.conflict->second]) + " and depends on node " +
                             g_.label(node_of(reach.conflict->first)) + ", which is fixed to the later " +
                             text(fixed_[reach.conflict->first])));
    window_ = std::move(reach.window);
  }

  slicing_task<Index> task_for(std::vector<Index> const& order) const {
    auto const pairs = [&](std::span<std::int64_t const> price) {
      return o_.relayed ? relay_pairs_of<Index>(costs_.touching, order, price)
                        : pairs_of<Index>(costs_.touching, costs_.touched, order, price);
    };
    slicing_task<Index> t{pairs(costs_.transfer),          costs_.speed_of, {}, {}, {}, {}, {},
                          o_.empty == empty_parts::allowed};
    if (!costs_.linked.empty()) t.link_of = costs_.link_of;
    for (auto const& row : costs_.linked) t.linked.push_back(pairs(row));
    for (auto const& weight : costs_.weight) {
      auto& before = t.before.emplace_back(1);
      for (Index const u : order) before.push_back(before.back() + weight[u]);
    }
    std::vector<std::size_t> limits;
    for (std::uint32_t s = 0; s < parts_ && !o_.memory.empty(); ++s) {
      auto const known = std::find(limits.begin(), limits.end(), o_.memory[s]);
      t.limit_of.push_back(static_cast<std::uint32_t>(known - limits.begin()));
      if (known != limits.end()) continue;
      limits.push_back(o_.memory[s]);
      t.fitting.push_back(first_fitting<Index>(memory_, order, o_.memory[s]));
    }
    limit_boundaries(t, order);
    return t;
  }

  void limit_boundaries(slicing_task<Index>& t, std::vector<Index> const& order) const {
    auto const n = static_cast<Index>(order.size());
    t.low.assign(parts_ + std::size_t{1}, 0);
    t.high.assign(parts_ + std::size_t{1}, n);
    if (o_.empty == empty_parts::forbidden)
      for (std::uint32_t s = 0; s <= parts_; ++s) {
        t.low[s] = static_cast<Index>(s);
        t.high[s] = static_cast<Index>(n - (parts_ - s));
      }
    t.high.front() = 0;
    t.low.back() = n;
    for (Index i = 0; i < n; ++i)
      if (auto const pin = fixed_[order[i]]; pin != no_part) {
        t.high[index(pin)] = (std::min)(t.high[index(pin)], i);
        t.low[index(pin) + 1] = (std::max)(t.low[index(pin) + 1], static_cast<Index>(i + 1));
      }
    for (std::uint32_t s = 0; s < parts_; ++s) t.low[s + 1] = (std::max)(t.low[s + 1], t.low[s]);
    for (std::uint32_t s = parts_; s-- > 0;) t.high[s] = (std::min)(t.high[s], t.high[s + 1]);
  }

  static std::string text(part_id p) { return "part " + std::to_string(index(p)); }

  [[noreturn]] void refuse(std::vector<std::vector<Index>> const& tried) const {
    auto const& order = tried.front();
    auto const bytes = [](std::size_t n) { return std::to_string(n) + " bytes"; };
    std::size_t most = 0;
    for (std::uint32_t s = 0; s < parts_ && !o_.memory.empty(); ++s) most = (std::max)(most, o_.memory[s]);
    for (Index u = 0; u < units_.size() && !o_.memory.empty(); ++u) {
      auto const need = memory_.alone(u);
      auto const pin = fixed_[u];
      auto const who =
          "node " + g_.label(node_of(u)) +
          (units_.members[u].size() > 1 ? " and the nodes that must share its part need " : " needs ") +
          bytes(need);
      if (need > most)
        raise(infeasible_error(who + ", but the largest memory limit of a part is " + bytes(most)));
      if (pin != no_part && need > o_.memory[index(pin)])
        raise(infeasible_error(who + ", and " + text(pin) + ", to which it is fixed, has a limit of " +
                               bytes(o_.memory[index(pin)])));
    }
    auto const task = task_for(order);
    std::size_t end = 0;
    for (std::uint32_t s = 0; s < parts_ && !o_.memory.empty(); ++s) {
      auto reach = end;
      while (reach < task.high[s + 1] && task.fits_from(s, reach + 1) <= end) ++reach;
      if (reach < task.low[s + 1] || (s + 1 == parts_ && reach < order.size()))
        raise(infeasible_error((tried.size() > 1
                                    ? "none of the " + std::to_string(tried.size()) +
                                          " orders tried has slices that fit; in the first one, part "
                                    : std::string("part ")) +
                               std::to_string(s) + " cannot hold node " + g_.label(node_of(order[reach])) +
                               " in addition to the nodes before it: its limit is " + bytes(o_.memory[s]) +
                               ", and all nodes together need " + bytes(memory_.total())));
      end = reach;
    }
    raise(infeasible_error("no order that was tried places all fixed nodes in their parts" +
                           std::string(o_.memory.empty() ? "" : " within the memory limits") +
                           (o_.empty == empty_parts::forbidden
                                ? " without an empty part; allow empty parts or fix fewer nodes"
                                : "; fix fewer nodes")));
  }

  void report(balanced_partition& r, slices<Index> const& best, std::vector<Index> const& order,
              std::int64_t bound) const {
    auto const task = task_for(order);
    slicer<Index> const s(task);
    for (std::uint32_t i = 0; i < parts_; ++i) {
      r.loads.push_back(costs_.scale.value(s.load(i, best.at[i], best.at[i + 1])));
      for (Index at = best.at[i]; at < best.at[i + 1]; ++at)
        for (Index const n : units_.members[order[at]]) r.of[n] = part_id{i};
      if (best.at[i] < best.at[i + 1]) r.parts = i + 1;
    }
    r.loads.resize(r.parts);
    r.bottleneck = costs_.scale.value(best.load);
    r.bound = costs_.scale.value((std::min)(bound, best.load));
    r.unsized = unsized_cut_values(g_, r);
  }

  basic_snapshot_arrays<Index> const& g_;
  balance_options const& o_;
  unit_graph<Index> units_;
  std::uint32_t parts_;
  unit_costs<Index> costs_;
  unit_memory<Index> memory_;
  std::vector<Index> rank_;  // per unit
  std::vector<part_id> fixed_;
  part_window window_;
  unit_edges<Index> edges_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Partitions `g` into min(k, units) parts, minimising the largest load. Each part is a slice of a
/// topological order. For each order that is tried, the best slices are found exactly.
///
/// The load of a part is the weight of its nodes divided by its speed, plus `cost_per_byte` times its link
/// for each byte that enters or leaves it (`load_model`). With `relayed`, a value also enters and leaves the
/// parts between its producer and its last reader. Nodes that must share a part form one unit: groups
/// of the graph, sets of `together`, and cycles through these. Parts are numbered in pipeline order: no edge
/// leads to a part with a smaller number, except edges of backward nodes. Replicable nodes have no part. A
/// graph with replicable nodes only has 1 part, and an empty graph has 0.
///
/// Complexity: O(V + E), plus some 10 to 40 probes. A probe takes O(k (V + E) log V) in the worst case, and
/// usually O(V + E).
///
/// \throws error            if weights, options or sums are invalid; the message names the node
/// \throws infeasible_error if memory limits or fixed nodes cannot be satisfied; the message names the first
///                          node or part that does not fit
template <std::unsigned_integral Index>
balanced_partition balance(basic_snapshot_arrays<Index> const& g, std::uint32_t k,
                           balance_options const& options = {}) {
  if (auto const fault = detail::find_option_fault(options, g, k)) detail::raise(error("balance: " + *fault));
  return detail::balancer<Index>(g, k, options).run();
}

#ifdef CLEAVE_COMPILED  // these are in the library cleave::compiled
extern template balanced_partition balance(basic_snapshot_arrays<std::uint32_t> const&, std::uint32_t,
                                           balance_options const&);
extern template balanced_partition balance(basic_snapshot_arrays<std::uint64_t> const&, std::uint32_t,
                                           balance_options const&);
#endif

/// Partitions a user's graph. Use `balance<std::uint64_t>(g, k)` for more than 2^32 values.
/// \throws the errors of `balance` for a snapshot, and of `snapshot_of`
template <std::unsigned_integral Index = std::uint32_t, weighted_graph Graph>
  requires sized_graph<Graph>
balanced_partition balance(Graph const& g, std::uint32_t k, balance_options const& options = {}) {
  return balance(snapshot_of<Index>(g), k, options);
}

template <std::unsigned_integral Index = std::uint32_t, detail::uncosted_graph Graph>
detail::refused balance(Graph const&, std::uint32_t, balance_options const& = {}) {
  detail::refuse_costs<Graph>();
}

/// The numbers of nodes of unknown cost and of values of unknown size. Loads and bounds treat both as free.
struct unpriced {
  std::size_t nodes = 0, of_nodes = 0;    ///< nodes of unknown cost; number of all nodes
  std::size_t values = 0, of_values = 0;  ///< values of unknown size; number of all values between nodes

  double node_share() const { return share(nodes, of_nodes); }
  double value_share() const { return share(values, of_values); }
  bool any() const { return nodes > 0 || values > 0; }

  /// Returns true if bounds are still meaningful: at most 2 % of the nodes and of the values are unknown.
  bool leaves_bounds() const { return node_share() <= 0.02 && value_share() <= 0.02; }

  bool operator==(unpriced const&) const = default;

 private:
  static double share(std::size_t part, std::size_t of) {
    return of == 0 ? 0 : static_cast<double>(part) / static_cast<double>(of);
  }
};
}  // namespace cleave
