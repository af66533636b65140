// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/bytes.hpp"
#include "cleave/core/error.hpp"
#include "cleave/graph/check_graph_concepts.hpp"
#include "cleave/graph/concepts.hpp"
#include "cleave/place/detail/class_table.hpp"
#include "cleave/place/detail/device_classes.hpp"
#include "cleave/place/detail/placement_costs.hpp"
#include "cleave/place/detail/placement_search.hpp"
#include "cleave/place/device_network.hpp"
#include "cleave/place/placement.hpp"
#include "cleave/place/placement_row.hpp"
#include "cleave/schedule/model/schedule_names.hpp"
#include "cleave/schedule/model/unit_row.hpp"

namespace cleave::inline v0_2::detail {

/// Gives the stages of a cut devices of their classes, in the order of `members`.
inline ordered_cut with_devices(classed_cut const& cut,
                                std::vector<std::vector<std::uint32_t>> const& members) {
  ordered_cut made{cut.cut, {}};
  std::vector<std::size_t> next(members.size());
  for (auto const c : cut.classes) made.devices.push_back(members[c][next[c]++]);
  return made;
}

/// Merges classes, the most alike first, until a table of them takes at most `effort` steps. Returns the
/// group of each class.
inline std::vector<std::uint32_t> group_classes(device_classes const& all, double effort) {
  constexpr std::uint32_t most = 48;  // pairs of so many are compared
  std::vector<std::uint32_t> group_of(all.size());
  std::iota(group_of.begin(), group_of.end(), 0);
  if (all.size() > most) {
    std::vector<std::uint32_t> by_speed = group_of;
    std::ranges::sort(by_speed, [&](std::uint32_t a, std::uint32_t b) {
      auto const x = all.of[a].passes.back(), y = all.of[b].passes.back();
      return x != y ? x < y : a < b;
    });
    for (std::size_t i = 0; i < by_speed.size(); ++i)
      group_of[by_speed[i]] = static_cast<std::uint32_t>(i * most / by_speed.size());
  }
  for (;;) {
    auto const now = merged(all, group_of);
    if (now.size() == 1 || class_table::effort(now, all.of[0].passes.size()) <= effort) return group_of;
    std::uint32_t a = 0, b = 1;
    auto least = std::numeric_limits<double>::infinity();
    for (std::uint32_t i = 0; i < now.size(); ++i)
      for (std::uint32_t j = i + 1; j < now.size(); ++j)
        if (auto const u = unlikeness(now, i, j); u < least) least = u, a = i, b = j;
    for (auto& g : group_of) {
      if (g == b) g = a;
      if (g > b) --g;
    }
  }
}

/// Finds placements and their bound, for `place`.
class placer {
 public:
  explicit placer(placement_costs const& costs) : costs_(costs), search_(costs) {
    auto const& all = costs.alike();
    auto const budget = static_cast<double>(costs.options().effort) / 40;
    auto const group_of = group_classes(all.classes, budget);
    is_exact_ = (std::ranges::max)(group_of) + std::size_t{1} == all.classes.size();
    classes_ = is_exact_ ? all.classes : merged(all.classes, group_of);
    members_.resize(classes_.size());
    for (std::size_t c = 0; c < group_of.size(); ++c)
      members_[group_of[c]].insert(members_[group_of[c]].end(), all.members[c].begin(), all.members[c].end());
    for (auto& m : members_)
      std::ranges::sort(m, [&](std::uint32_t a, std::uint32_t b) {
        auto const x = costs.on(a).passes.back(), y = costs.on(b).passes.back();
        return x != y ? x < y : a < b;
      });
  }

  device_placement run() {
    class_table table(classes_, costs_.crossing(), costs_.memory(), costs_.most_stages());
    auto const any = table.find({});
    if (!any) throw_shortage();
    double bound = 0;
    auto const goal = costs_.options().goal;
    if (goal != placement_goal::latency) bound = least_period(table, *any);
    if (goal == placement_goal::step)
      bound = (std::max)(bound * costs_.options().microbatches, filled_step());
    if (goal != placement_goal::throughput)
      if (auto const found = table.find_fastest()) {
        offer(*found);
        bound = (std::max)(bound, slack(latency_of(classes_, costs_.crossing(), *found)));
      }
    if (!search_.best() || search_.value() > bound) {
      offer_usual_orders();
      search_.run(bound);
    }
    if (!search_.best())
      throw infeasible_error(
          "place: no placement was found that fits the memory of the devices, although none of the "
          "bounds rules it out; give more effort or more memory");
    return costs_.result(*search_.best(), bound);
  }

 private:
  /// Returns a value that rounding cannot have made larger than that of the devices themselves.
  double slack(double v) const { return is_exact_ ? v : v * (1 - 1e-9); }

  void offer(classed_cut const& p) {
    auto const made = with_devices(p, members_);
    search_.offer(made);
    if (!is_exact_ || costs_.has_uplinks()) search_.offer_order(made.devices);
  }

  /// Returns the least period for the classes, and offers the cuts on the way there.
  double least_period(class_table& table, classed_cut const& any) {
    auto best = any;
    device_rates const rates(costs_.alike().classes);
    auto const rate = rates.together(costs_.alike().classes, costs_.most_stages());
    double const share = rate > 0 ? rates.needed.back() / rate : 0;
    double low = share * (1 - 1e-9), high = period_of(classes_, costs_.crossing(), any);
    auto const take = [&](classed_cut&& found) {
      best = std::move(found);
      high = period_of(classes_, costs_.crossing(), best);
    };
    while (high - low > 1e-9 * high) {
      auto const middle = (low + high) / 2;
      if (auto found = table.find({middle}))
        take(std::move(*found));
      else
        low = middle;
    }
    while (auto found = table.find({high, true})) take(std::move(*found));
    offer(best);
    high = (std::max)(high, share);
    if (costs_.options().goal == placement_goal::step) offer_fewer_stages(high);
    return slack(high);
  }

  /// Returns a lower bound on the time of a step. A stage works for all microbatches, and each stage before
  /// it has done one forward pass before that and does one backward pass after it: with m microbatches and
  /// loads L, a step takes at least m · L(s) + the loads before s, for each s. Of all loads that allows, the
  /// largest work has the fastest device first, and each load (1 − 1/m) times the one before.
  double filled_step() const {
    auto const& all = costs_.alike().classes;
    device_rates const rates(all);
    std::vector<double> fastest;
    for (std::size_t c = 0; c < all.size(); ++c) fastest.insert(fastest.end(), all.of[c].count, rates.of[c]);
    std::ranges::sort(fastest, [](double a, double b) { return a > b; });
    fastest.resize(costs_.most_stages());
    auto const m = static_cast<double>(costs_.options().microbatches);
    double work = 0, share = 1 / m;
    for (auto const rate : fastest) {
      work += rate * share;
      share *= 1 - 1 / m;
    }
    return work > 0 ? rates.needed.back() / work * (1 - 1e-9) : 0;
  }

  /// Offers cuts with fewer stages, which fill and drain faster.
  void offer_fewer_stages(double least) {
    for (std::uint32_t most = 1; most < costs_.most_stages(); most += (most + 3) / 4) {
      class_table table(classes_, costs_.crossing(), costs_.memory(), most);
      double low = least, high = std::numeric_limits<double>::infinity();
      auto best = table.find({});
      if (best) high = period_of(classes_, costs_.crossing(), *best);
      while (best && high - low > 1e-3 * high) {
        auto const middle = (low + high) / 2;
        if (auto found = table.find({middle})) {
          best = std::move(found);
          high = period_of(classes_, costs_.crossing(), *best);
        } else {
          low = middle;
        }
      }
      if (best) offer(*best);
    }
  }

  /// Offers the orders that people would try: all devices as they are listed, by speed, and by memory.
  void offer_usual_orders() {
    std::vector<std::uint32_t> order(costs_.devices());
    std::iota(order.begin(), order.end(), 0);
    auto const offer_front = [&] {
      for (std::size_t k = costs_.most_stages(); k > 0; k -= (k + 7) / 8)
        search_.offer_order({order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k)});
    };
    offer_front();
    std::ranges::sort(order, [&](std::uint32_t a, std::uint32_t b) {
      auto const x = costs_.on(a).passes.back(), y = costs_.on(b).passes.back();
      return x != y ? x < y : a < b;
    });
    offer_front();
    std::ranges::sort(order, [&](std::uint32_t a, std::uint32_t b) {
      auto const x = costs_.on(a).memory, y = costs_.on(b).memory;
      return x != y ? x > y : a < b;
    });
    offer_front();
  }

  /// \throws unit_too_large_error, infeasible_error
  [[noreturn]] void throw_shortage() const {
    auto const n = costs_.units();
    std::uint64_t most = 0, sum = 0, largest = 0;
    std::size_t at = 0;
    for (auto const& c : classes_.of) {
      most = (std::max)(most, c.memory);
      for (std::uint32_t i = 0; i < c.count; ++i) sum = bounded_sum(sum, c.memory);
    }
    for (std::size_t i = 0; i < n; ++i)
      if (auto const bytes = costs_.memory().needed(i, i + 1, 0); bytes > largest) largest = bytes, at = i;
    if (largest > most)
      throw unit_too_large_error("place: unit " + std::to_string(at) + " needs " + format_bytes(largest) +
                                     ", and the largest device has " + format_bytes(most) +
                                     "; add a device with more memory, or divide the unit",
                                 at);
    throw infeasible_error("place: no cut into at most " + std::to_string(costs_.most_stages()) +
                           " stages fits the devices: all units need " +
                           format_bytes(costs_.memory().needed(0, n, 0)) +
                           " with one microbatch's activations, and the devices have " + format_bytes(sum) +
                           "; add devices, or use fewer microbatches");
  }

  placement_costs const& costs_;
  placement_search search_;
  bool is_exact_ = true;
  device_classes classes_;
  std::vector<std::vector<std::uint32_t>> members_;
};

/// Checks all that is given to `place` and `time_placement`.
inline void require_placeable(placement_row const& row, device_network const& net,
                              placement_options const& o) {
  if (auto const f = find_unit_row_fault(row.units)) throw unit_row_error(*f);
  for (auto const& k : row.kinds) {
    unit_row const alone{.cost = k.cost};
    if (k.cost.size() != row.units.cost.size())
      throw unit_row_error("kind '" + k.kind + "'", {unit_row_fault::kind::length, k.cost.size()});
    if (auto const f = find_unit_row_fault(alone)) throw unit_row_error("kind '" + k.kind + "'", *f);
  }
  if (auto const f = find_device_network_fault(net)) throw device_network_error(*f);
  require_counts(1, 1, o.microbatches);
  using enum schedule_family;
  auto const s = o.schedule.value_or(forward_only);
  if (s != gpipe && s != one_f_one_b && s != forward_only)
    throw error("place: the schedule " + std::string(name_of(s)) +
                " is not one of GPipe, 1F1B and ForwardOnly; cut_for_schedule cuts for the others");
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Cuts a row into stages and says which device runs which, in which order; devices may be left unused.
///
/// Each device runs at most one stage, and each stage sends to the next. Where devices fall into few classes,
/// the period and the latency are optimal, by dynamic programming; `bound` is then the value itself.
/// Otherwise the classes are merged into better ones for a lower bound, and a search changes the order of the
/// devices. Uplinks and the step of a schedule are never better than the bound without them.
/// \throws unit_row_error, device_network_error, schedule_count_error, error
/// \throws unit_too_large_error, infeasible_error if no cut fits the memory of the devices
inline device_placement place(placement_row const& row, device_network const& net,
                              placement_options const& o = {}) {
  detail::require_placeable(row, net, o);
  detail::placement_costs const costs(row, net, o);
  return detail::placer(costs).run();
}

/// Cuts a graph into stages for devices. \throws the errors of `place` for a row, and of `placement_row_of`
template <weighted_graph Graph>
  requires sized_graph<Graph>
device_placement place(Graph const& g, device_network const& net, placement_options const& o = {},
                       placement_row_options const& row = {}) {
  return place(placement_row_of(g, row), net, o);
}

template <detail::uncosted_graph Graph>
detail::refused place(Graph const&, device_network const&, placement_options const& = {},
                      placement_row_options const& = {}) {
  detail::refuse_costs<Graph>();
}

/// Returns the times of stages that were placed by other means. Their units must follow one another without a
/// gap, and no device may have two. `bound` is 0: nothing is claimed. Memory may exceed that of a device.
/// \throws unit_row_error, device_network_error, schedule_count_error, error
inline device_placement time_placement(placement_row const& row, device_network const& net,
                                       std::vector<stage_on_device> const& stages,
                                       placement_options const& o = {}) {
  detail::require_placeable(row, net, o);
  detail::ordered_cut p{{0}, {}};
  std::vector<char> is_used(net.devices.size());
  for (auto const& s : stages) {
    auto const which = "stage " + std::to_string(p.devices.size());
    if (s.device >= net.devices.size() || is_used[s.device])
      throw error("place: " + which + " has device #" + std::to_string(s.device) + ", which " +
                  (s.device < net.devices.size() ? "has a stage already" : "does not exist"));
    if (s.begin != p.cut.back() || s.end <= s.begin || s.end > row.units.units())
      throw error("place: " + which + " has units " + std::to_string(s.begin) + " to " +
                  std::to_string(s.end) + ": it must begin at " + std::to_string(p.cut.back()) +
                  " and end behind that");
    is_used[s.device] = 1;
    p.devices.push_back(s.device);
    p.cut.push_back(s.end);
  }
  if (p.cut.back() != row.units.units())
    throw error("place: the stages end at unit " + std::to_string(p.cut.back()) + " of " +
                std::to_string(row.units.units()));
  return detail::placement_costs(row, net, o).result(p, 0);
}

}  // namespace cleave
