// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/graph/check_graph_concepts.hpp"
#include "cleave/graph/concepts.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/partition/exact/certificate.hpp"
#include "cleave/partition/exact/detail/exact_task.hpp"
#include "cleave/partition/exact/detail/ideal_search.hpp"
#include "cleave/partition/exact/detail/ideal_task.hpp"
#include "cleave/partition/exact/detail/step_limit.hpp"
#include "cleave/partition/exact/exact_options.hpp"
#include "cleave/partition/model/metrics.hpp"
#include "cleave/partition/slices/balance.hpp"
#include "cleave/partition/units/units.hpp"

namespace cleave::inline v0_2::detail {

/// Branch and bound over the part of one unit after the other, for graphs with too many ideals to list. Its
/// memory does not grow with the search. Part i runs on a device of class `class_of[i]`.
class part_branching {
 public:
  part_branching(ideal_task const& t, device_states const& states, std::vector<std::uint32_t> class_of,
                 std::int64_t below)
      : t_(t),
        states_(states),
        class_of_(std::move(class_of)),
        parts_(class_of_.size()),
        below_(below),
        part_(t.units()),
        load_(parts_),
        memory_(parts_),
        count_(parts_),
        met_(t.transfer.size() * parts_),
        held_(t.shared.size() * parts_),
        in_parts_(t.transfer.size()) {
    put_in_order();
    left_ = std::accumulate(states.fastest.begin(), states.fastest.end(), std::int64_t{});
    if (!t.may_be_empty) empty_ = parts_;
  }

  /// Returns the best parts with loads below the bound, if any were found. The search was complete unless
  /// `steps.out()`.
  std::optional<part_chain> run(step_limit& steps) {
    std::optional<part_chain> best;
    std::vector<choice> path(t_.units() + 1);
    path[0] = choices(0);
    for (std::size_t depth = 0;;) {
      auto& at = path[depth];
      if (depth == t_.units()) {
        below_ = (std::ranges::max)(load_);
        best = part_chain{part_, class_of_, below_};
      } else if (at.next < at.parts.size()) {
        auto const u = order_[depth];
        if (!steps.spend(1 + parts_ + t_.touched[u].size())) return best;
        put(u, at.parts[at.next++]);
        if (may_be_better()) {
          path[depth + 1] = choices(depth + 1);
          ++depth;
        } else {
          take_back(u);
        }
        continue;
      }
      if (depth == 0) return best;
      take_back(order_[--depth]);
    }
  }

 private:
  struct choice {
    std::vector<std::uint32_t> parts;
    std::size_t next = 0;
  };

  /// Orders the units topologically; among ready units, the one that takes the most time comes first.
  void put_in_order() {
    std::vector<std::uint32_t> missing(t_.units());
    std::vector<std::uint32_t> ready;
    for (std::uint32_t u = 0; u < t_.units(); ++u) {
      missing[u] = static_cast<std::uint32_t>(t_.predecessors[u].size());
      if (missing[u] == 0) ready.push_back(u);
    }
    while (!ready.empty()) {
      auto const key = [&](std::uint32_t u) { return std::pair(-states_.fastest[u], u); };
      auto const next = std::ranges::min_element(ready, {}, key);
      auto const u = *next;
      ready.erase(next);
      order_.push_back(u);
      for (auto const user : t_.successors[u])
        if (--missing[user] == 0) ready.push_back(user);
    }
  }

  void put(std::uint32_t u, std::uint32_t p) {
    part_[u] = p;
    empty_ -= count_[p]++ == 0 && !t_.may_be_empty;
    load_[p] += t_.weight[t_.classes[class_of_[p]].row][u];
    left_ -= states_.fastest[u];
    memory_[p] += t_.own[u];
    for (auto const h : t_.holds[u])
      if (held_[h * parts_ + p]++ == 0) memory_[p] += t_.shared[h];
    for (auto const v : t_.touched[u])
      if (met_[v * parts_ + p]++ == 0 && ++in_parts_[v] >= 2) pay(v, p, t_.transfer[v]);
  }
  void take_back(std::uint32_t u) {
    auto const p = part_[u];
    for (auto const v : t_.touched[u])
      if (--met_[v * parts_ + p] == 0 && in_parts_[v]-- >= 2) pay(v, p, -t_.transfer[v]);
    for (auto const h : t_.holds[u])
      if (--held_[h * parts_ + p] == 0) memory_[p] -= t_.shared[h];
    memory_[p] -= t_.own[u];
    left_ += states_.fastest[u];
    load_[p] -= t_.weight[t_.classes[class_of_[p]].row][u];
    empty_ += --count_[p] == 0 && !t_.may_be_empty;
  }
  /// Adds `cost` to part `p`, which began or ceased to touch a value. If only one other part touches the
  /// value, `cost` applies to that part too.
  void pay(std::uint32_t v, std::uint32_t p, std::int64_t cost) {
    auto const add = [&](std::size_t part) {
      if (t_.classes[class_of_[part]].pays) load_[part] += cost;
    };
    add(p);
    if (in_parts_[v] != (cost >= 0 ? 2u : 1u)) return;
    for (std::size_t q = 0; q < parts_; ++q)
      if (q != p && met_[v * parts_ + q] != 0) add(q);
  }

  bool may_be_better() const {
    double room = 0;
    for (std::size_t p = 0; p < parts_; ++p) {
      auto const& device = t_.classes[class_of_[p]];
      if (load_[p] >= below_ || memory_[p] > device.memory) return false;
      room += static_cast<double>(below_ - 1 - load_[p]) / states_.slowdown[class_of_[p]];
    }
    return static_cast<double>(left_) <= room * (1 + 0x1p-40) + 1;
  }

  /// Returns the parts open to a unit, in ascending order of load.
  choice choices(std::size_t depth) const {
    choice made;
    if (depth == t_.units()) return made;
    auto const u = order_[depth];
    std::uint32_t first = t_.earliest.empty() ? 0 : t_.earliest[u];
    auto const last = t_.latest.empty() ? static_cast<std::uint32_t>(parts_) - 1 : t_.latest[u];
    for (auto const need : t_.predecessors[u]) first = (std::max)(first, part_[need]);
    bool const must_open = t_.units() - depth <= empty_;  // each remaining unit is needed by an empty part
    for (auto p = first; p <= last; ++p)
      if (!must_open || count_[p] == 0) made.parts.push_back(p);
    std::ranges::sort(made.parts, {}, [&](std::uint32_t p) { return std::pair(load_[p], p); });
    return made;
  }

  ideal_task const& t_;
  device_states const& states_;
  std::vector<std::uint32_t> class_of_;  // of each part
  std::size_t parts_;
  std::int64_t below_, left_ = 0;    // time of the units without a part
  std::vector<std::uint32_t> part_;  // of each unit
  std::vector<std::int64_t> load_;   // of each part, so far
  std::vector<std::size_t> memory_, count_;
  std::size_t empty_ = 0;                // parts that still need a unit
  std::vector<std::uint32_t> met_;       // of each value and part: units of the part that touch the value
  std::vector<std::uint32_t> held_;      // of each shared memory item and part: units of the part that hold
                                         // it
  std::vector<std::uint32_t> in_parts_;  // of each value: parts that touch it
  std::vector<std::uint32_t> order_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// A partition with its quality, and a lower bound for all others. The bound holds for partitions without
/// backward edges between parts. If loose nodes are mirrored, it holds for those that keep that order.
struct exact_partition : balanced_partition {
  bool proved = false;                             ///< true if no better partition exists
  bound_proof bound_by = bound_proof::even_share;  ///< proof of the bound
  std::string unproved{};                          ///< the reason why the search gave up; empty if it did not
  std::vector<std::uint32_t> device{};             ///< of each part: 0 to k - 1, then the spare devices
  std::size_t ideals = 0, steps = 0;               ///< ideals kept and steps taken by the search
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Searches one graph. Helper of `partition_exact`.
template <std::unsigned_integral Index>
class exact_balancer {
 public:
  exact_balancer(basic_snapshot_arrays<Index> const& g, std::uint32_t k, exact_balance_options const& o)
      : g_(g), k_(k), o_(o), steps_(o.most_steps, o.seconds) {}

  exact_partition run() {
    exact_partition result;
    ask_balance(result);
    if (first_ && std::ranges::all_of(result.of, [](part_id p) { return p == no_part; })) {
      result.proved = true;
      result.device.assign(result.parts, 0);
      return result;
    }
    task_ = exact_task_of(g_, parts_, o_);
    if (first_) best_.load = task_.costs.scale.of(result.bottleneck);
    if (first_ && task_.costs.scale.value(best_.load) < result.bottleneck) ++best_.load;
    auto const quick = quick_bound_of(task_, states_if_few(), best_.load);
    bound_ = quick.bound, result.bound_by = quick.by;
    if (bound_ < best_.load) search(result);
    if (best_.load == unreachable_load) refuse(result);
    report(result);
    return result;
  }

 private:
  static constexpr std::size_t most_units = most_units_of_exact, most_states = 4096;

  /// Finds the initial partition: the best slices of some orders, if any are feasible.
  void ask_balance(exact_partition& r) {
    try {
      static_cast<balanced_partition&>(r) = balance(g_, k_, o_.balance);
      first_ = true;
    } catch (infeasible_error const& e) {
      why_not_ = e.what();
    }
    auto const units =
        units_of(g_, {.together = o_.balance.together, .backward = o_.balance.backward}).size();
    parts_ = may_leave_gaps(o_.balance) || o_.devices == device_order::any
                 ? k_
                 : static_cast<std::uint32_t>(std::min<std::size_t>(k_, units));
    if (o_.balance.empty == empty_parts::forbidden)
      parts_ = static_cast<std::uint32_t>(std::min<std::size_t>(k_, units));
  }

  device_states const& states_if_few() {
    if (count_states(task_.ideals, most_states) < most_states) states_ = states_of(task_.ideals);
    return states_;
  }

  enum class outcome : std::uint8_t { none, found, gave_up };

  /// Searches for parts with loads below `below`.
  outcome look(exact_partition& r, std::int64_t below, step_limit& steps) {
    ideal_walk walk(task_.ideals, states_, below);
    bool const all = walk.run(o_.most_ideals, steps);
    r.ideals = (std::max)(r.ideals, walk.met());
    if (!all) {
      r.unproved = steps.out() ? "the search ran out of steps or seconds while listing ideals: " +
                                     std::to_string(walk.met()) + " were found"
                               : "there are more than " + std::to_string(o_.most_ideals) +
                                     " ideals that could be boundaries: raise most_ideals";
      return outcome::gave_up;
    }
    auto const list = walk.take_list();
    auto found = ideal_search(task_.ideals, states_, list, below).run(steps);
    if (!found && steps.out()) {
      r.unproved = "the search ran out of steps or seconds with " + std::to_string(list.size()) + " ideals";
      return outcome::gave_up;
    }
    if (!found) return outcome::none;
    best_ = std::move(*found);
    return outcome::found;
  }

  /// Searches for the best partition. If that takes too much, tests bounds between the lower bound and the
  /// best load: proving that nothing is below a smaller bound takes fewer ideals.
  void search(exact_partition& r) {
    if (states_.size() == 0 || task_.units.size() > most_units) {
      r.unproved = states_.size() == 0
                       ? "there are too many kinds of devices to search all their orders"
                       : std::to_string(task_.units.size()) + " units are too many: at most " +
                             std::to_string(most_units) + " are supported";
      return;
    }
    auto const prove = [&](std::int64_t bound) { bound_ = bound, r.bound_by = bound_proof::ideals; };
    auto below = best_.load;
    step_limit whole(steps_.left() / 3, o_.seconds / 3);
    auto how = look(r, below, whole);
    steps_.spend(whole.spent());
    for (int round = 0; how == outcome::gave_up && round < 8; ++round) {
      below = bound_ + ((std::min)(below, best_.load) - bound_) / 2;
      if (below <= bound_ || steps_.out()) break;
      auto const why = r.unproved;
      step_limit some(steps_.left() / 8, o_.seconds / 32);
      how = look(r, below, some);
      steps_.spend(some.spent());
      r.unproved = why;
      if (how == outcome::none) {
        prove(below);
        below = best_.load + (best_.load - bound_) / 2;
        how = outcome::gave_up;
      }
    }
    auto by = bound_proof::ideals;
    if (how == outcome::gave_up && branch()) how = outcome::none, by = bound_proof::branches;
    r.steps = steps_.spent();
    if (how == outcome::gave_up) return;
    r.unproved.clear();
    if (best_.load < unreachable_load) bound_ = best_.load, r.bound_by = by;
  }

  /// Runs branch and bound. Returns true if it was complete. Devices must have an order or be identical.
  bool branch() {
    auto class_of = task_.ideals.class_of_part;
    if (class_of.empty() && task_.ideals.classes.size() == 1)
      class_of.assign(task_.ideals.classes[0].count, 0);
    if (class_of.empty()) return false;
    step_limit steps(steps_.left(), o_.seconds / 3);
    if (auto found = part_branching(task_.ideals, states_, class_of, best_.load).run(steps))
      best_ = std::move(*found);
    steps_.spend(steps.spent());
    return !steps.out();
  }

  [[noreturn]] void refuse(exact_partition const& r) const {
    if (!r.unproved.empty())
      throw infeasible_error(why_not_ + "; the search for other partitions was incomplete: " + r.unproved);
    throw infeasible_error("no partition meets the limits in any topological order: " + why_not_);
  }

  void report(exact_partition& r) const {
    if (!best_.part_of.empty()) report_parts(r);
    r.proved = bound_ >= best_.load;
    if (r.proved) r.unproved.clear();
    r.bound = r.proved ? r.bottleneck : task_.costs.scale.value(bound_);
    if (!best_.part_of.empty()) return;
    r.device.resize(r.parts);
    std::iota(r.device.begin(), r.device.end(), 0u);
  }

  void report_parts(exact_partition& r) const {
    auto const load = loads_of(task_.ideals, best_.part_of, best_.class_of);
    auto next = task_.devices_of;  // of each class: devices not yet assigned to a part
    for (auto& list : next) std::ranges::reverse(list);
    std::vector<char> used(load.size());
    for (auto const part : best_.part_of) used[part] = 1;
    std::vector<part_id> id(load.size(), no_part);
    r.loads.clear();
    r.device.clear();
    bool const given = o_.devices == device_order::given;
    for (std::uint32_t i = 0; i < load.size(); ++i) {
      if (!given && !used[i]) continue;
      id[i] = part_id{static_cast<std::uint32_t>(r.loads.size())};
      r.loads.push_back(task_.costs.scale.value(load[i]));
      r.device.push_back(given ? i : next[best_.class_of[i]].back());
      if (!given) next[best_.class_of[i]].pop_back();
      if (used[i]) r.parts = static_cast<std::uint32_t>(r.loads.size());
    }
    r.loads.resize(r.parts);
    r.device.resize(r.parts);
    r.of.assign(g_.nodes(), no_part);
    for (std::size_t i = 0; i < task_.order.size(); ++i)
      for (Index const n : task_.units.members[task_.order[i]]) r.of[n] = id[best_.part_of[i]];
    r.bottleneck = task_.costs.scale.value(best_.load);
    r.unsized = unsized_cut_values(g_, r);
  }

  basic_snapshot_arrays<Index> const& g_;
  std::uint32_t k_, parts_ = 0;
  exact_balance_options const& o_;
  step_limit steps_;
  bool first_ = false;
  std::string why_not_;
  exact_task<Index> task_;
  device_states states_;
  std::int64_t bound_ = 0;
  part_chain best_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Partitions `g` under the constraints of `balance`, optimally over all topological orders, with a proof. If
/// the search limits do not allow that, returns the best parts found and the best bound.
///
/// The search enumerates the ideals that can be boundaries between two parts of a better partition, and pairs
/// of these. An ideal is a set of units that contains all their predecessors. If there are too many ideals,
/// it branches over the part of one unit after the other. Tarnawski, Phanishayee, Devanur, Mahajan, Nina
/// Paravecino, Efficient Algorithms for Device Placement of DNN Graph Operators, NeurIPS 2020. Here the
/// result of `balance` bounds the search from above, and sums of time and transfers prune it. The running
/// time is exponential in the width of the graph.
///
/// \param g        the graph
/// \param k        the number of parts
/// \param options  costs, constraints, devices and search limits
/// \throws error if weights, options or their sums are invalid; the message names the node.
/// \throws infeasible_error if memory limits or fixed nodes cannot be satisfied, or no feasible partition was
///     found.
template <std::unsigned_integral Index>
exact_partition partition_exact(basic_snapshot_arrays<Index> const& g, std::uint32_t k,
                                exact_balance_options const& options = {}) {
  if (auto const fault = detail::find_exact_option_fault(options, g, k))
    throw error("partition_exact: " + *fault);
  return detail::exact_balancer<Index>(g, k, options).run();
}

/// Partitions a user's own graph. Parts are given by node position in `nodes()`.
template <std::unsigned_integral Index = std::uint32_t, weighted_graph Graph>
  requires sized_graph<Graph>
exact_partition partition_exact(Graph const& g, std::uint32_t k, exact_balance_options const& options = {}) {
  return partition_exact(snapshot_of<Index>(g), k, options);
}

/// Rejects graphs without weights or sizes with a readable compile-time message.
template <std::unsigned_integral Index = std::uint32_t, detail::uncosted_graph Graph>
detail::refused partition_exact(Graph const&, std::uint32_t, exact_balance_options const& = {}) {
  detail::refuse_costs<Graph>();
}

}  // namespace cleave
