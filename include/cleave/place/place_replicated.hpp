// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cleave/core/bytes.hpp"
#include "cleave/core/error.hpp"
#include "cleave/place/detail/device_classes.hpp"
#include "cleave/place/detail/replication_table.hpp"
#include "cleave/place/device_network.hpp"
#include "cleave/place/place.hpp"
#include "cleave/place/placement_row.hpp"
#include "cleave/place/replicated_placement.hpp"
#include "cleave/schedule/model/stage_cost.hpp"
#include "cleave/schedule/model/unit_row.hpp"
#include "cleave/schedule/simulate/simulate.hpp"

namespace cleave::inline v0_2::detail {

/// Returns the simulated time of a step, with the sums of copies after the passes of each.
inline double step_of(replicated_placement const& p, simulate_options const& timing) {
  auto const times = simulate(schedule_of(p), timing);
  double step = 0;
  for (std::size_t s = 0; s < p.stages.size(); ++s)
    for (std::uint32_t r = 0; r < p.stages[s].width; ++r)
      step = (std::max)(step, times.last[p.first_rank(s) + r] + p.stages[s].sum_time);
  return step;
}

/// Finds placements and their bound, for `place_replicated`.
template <class Cost>
class replicator {
 public:
  replicator(placement_row const& row, replication_options const& o, replication_devices const& on,
             Cost const& cost, slice_growth growth)
      : row_(row),
        options_(o),
        on_(on),
        cost_(cost),
        growth_(growth),
        units_(static_cast<std::uint32_t>(row.units.units())) {}

  replicated_placement run() {
    table const one(row_, options_, on_, cost_, growth_, kept_counting::one);
    auto const fewest = one.find(no_limit, false, 0);
    if (!fewest) throw_shortage(one);
    auto [bound, is_solved] = search(one, *fewest);
    if (!is_solved) {
      table const exact(row_, options_, on_, cost_, growth_, kept_counting::in_flight);
      if (auto const any = exact.find(no_limit, false, 0)) {
        auto const found = search(exact, *any);
        if (exact.is_exact()) bound = (std::max)(bound, found.bound);
      }
    }
    if (!best_)
      throw infeasible_error(
          "place: no stages with copies were found that fit the memory of the devices with the activations "
          "that they keep; use fewer microbatches, or more memory");
    best_->bound = (std::min)(bound, best_->value());  // which rounding may have made less
    return *best_;
  }

 private:
  using stages = std::vector<replicated_stage>;
  using table = replication_table<Cost>;
  static constexpr auto no_limit = std::numeric_limits<double>::infinity();

  /// What a search found: a bound on the goal, which holds if the table does not count too much memory, and
  /// whether no other table would find better stages.
  struct outcome {
    double bound = 0;
    bool is_solved = false;
  };

  bool is_step() const { return options_.goal == placement_goal::step; }

  /// Offers the stages of the least period and, for a short step, slower ones that are fewer.
  outcome search(table const& in, stages const& any) {
    auto const quickest = least_period(in, any);
    auto const period = in.period(quickest);
    bool do_all_fit = offer(in, quickest);
    if (!is_step()) return {period, do_all_fit && best_->period <= period};
    for (auto const slower : {1.0, 1.05, 1.1, 1.17, 1.25, 1.37, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 5.0})
      for (auto const price : {0.25, 1.0, 4.0, 16.0})
        if (auto const found = in.find(slower * period, false, price))
          do_all_fit = offer(in, *found) && do_all_fit;
    return {period * options_.microbatches, do_all_fit};
  }

  static stages least_period(table const& in, stages best) {
    double low = 0, high = in.period(best);
    auto const take = [&](stages&& found) {
      auto const period = in.period(found);
      if (!(period < high)) return false;  // a cost function that takes less for what keeps more
      best = std::move(found);
      high = period;
      return true;
    };
    while (high - low > 1e-9 * high) {
      auto const middle = (low + high) / 2;
      if (auto found = in.find(middle, false, 0); !found || !take(std::move(*found))) low = middle;
    }
    for (bool is_better = true; is_better;) {
      auto found = in.find(high, true, 0);
      is_better = found && take(std::move(*found));
    }
    return best;
  }

  /// Keeps a placement if it is the best, and fits with what its schedule keeps. Returns whether it fits.
  bool offer(table const& in, stages const& of) {
    replicated_placement p{.stages = of, .goal = options_.goal, .microbatches = options_.microbatches};
    in.settle(p.stages);
    std::uint32_t devices = 0;
    for (auto const& s : p.stages) {
      if (s.memory > on_.classes.of[on_.of(s)].memory) return false;
      devices += s.width * s.shards;
    }
    p.unused = on_.count() - devices;
    p.period = in.period(p.stages);
    if (best_ && !is_step() && best_->period <= p.period) return true;
    p.step = step_of(p, on_.timing(p));
    if (!best_ || p.value() < best_->value()) best_ = p;
    return true;
  }

  [[noreturn]] void throw_shortage(table const& in) const {
    std::uint64_t most = 0;
    for (std::uint32_t i = 0; i < units_; ++i)
      most = (std::max)(most, in.least_memory(i, i + 1, (std::ranges::max)(options_.shards)));
    throw infeasible_error("place: some unit needs " + format_bytes(most) +
                           " on each device with one microbatch's activations, or all units together need "
                           "more devices than " +
                           std::to_string(on_.count()) + "; add devices or memory");
  }

  placement_row const& row_;
  replication_options const& options_;
  replication_devices const& on_;
  Cost const& cost_;
  slice_growth growth_;
  std::uint32_t units_;
  std::optional<replicated_placement> best_;
};

/// Checks the options of `place_replicated`.
inline void require_replication(replication_options const& o) {
  if (o.goal == placement_goal::latency)
    throw error("place: copies of stages do not make one pass faster; choose throughput or step");
  if (!(o.summed >= 0 && o.summed <= 1)) throw error("place: the summed share must be from 0 to 1");
  if (o.shards.empty() || std::ranges::any_of(o.shards, [](auto n) { return n == 0; }))
    throw error("place: give at least one number of shards, each 1 or more");
}

/// Checks what is given to `place_replicated`, and returns the devices of its options.
inline replication_devices alike_devices(placement_row const& row, replication_options const& o) {
  require_placeable(row, {.devices = {o.device}, .links = {o.link}}, {.microbatches = o.microbatches});
  if (o.devices == 0 || o.devices > most_devices)
    throw error("place: " + std::to_string(o.devices) + " devices; give 1 to " +
                std::to_string(most_devices));
  require_replication(o);
  auto costs = costs_on(row, o.device);
  costs.count = o.devices;
  return {.classes = {{std::move(costs)}, {o.link}}};
}

/// Does the same for the devices of a network.
inline replication_devices devices_of(placement_row const& row, device_network const& net,
                                      replication_options const& o) {
  require_placeable(row, net, {.microbatches = o.microbatches});
  if (!net.uplinks.empty())
    throw error("place: stages with copies know no uplinks that devices share, such as that of '" +
                net.uplinks[0].name + "'; place without copies");
  require_replication(o);
  auto alike = classify(row, net);
  replication_devices made{std::move(alike.classes), std::move(alike.members),
                           std::vector<std::uint32_t>(net.devices.size()), &net};
  for (std::uint32_t c = 0; c < made.members.size(); ++c)
    for (auto const d : made.members[c]) made.class_of[d] = c;
  return made;
}

/// Adds to the times of a slice what the row says of its sums and its memory. `time(begin, end, form, class)`
/// returns the times.
template <class Time>
class slices_of_row {
 public:
  slices_of_row(placement_row const& row, replication_options const& o, replication_devices const& on,
                Time const& time)
      : row_(row.units), summed_(o.summed), on_(on), time_(time) {}

  slice_cost operator()(std::uint32_t begin, std::uint32_t end, stage_form const& f, std::uint32_t of) const {
    return {time_(begin, end, f, of), sum_time(begin, end, f, of), memory(begin, end, f)};
  }

 private:
  /// Returns the time in which the copies of a slice sum their gradients: each sends and receives all but its
  /// own share, twice.
  double sum_time(std::uint32_t begin, std::uint32_t end, stage_form const& f, std::uint32_t of) const {
    if (f.width == 1 || summed_ == 0 || row_.resident.empty()) return 0;
    auto const bytes = summed_ * static_cast<double>(row_.resident[end] - row_.resident[begin]) / f.shards;
    auto const& link = on_.classes.link(of, of);
    return 2 * ((f.width - 1.0) * link.latency + bytes * (f.width - 1.0) / f.width / link.bandwidth);
  }
  /// Returns the bytes of a device, with the activations that it keeps.
  std::uint64_t memory(std::uint32_t begin, std::uint32_t end, stage_form const& f) const {
    auto const between = [&](auto const& list, auto of) {
      return list.empty() ? std::uint64_t{0} : of(list[end]) - of(list[begin]);
    };
    auto const resident = between(row_.resident, [](std::uint64_t b) { return b; });
    auto const saved = between(row_.bytes, [](pass_bytes const& b) { return b.saved; });
    auto const all = bounded_sum(resident, bounded_product(saved, f.kept));
    return all / f.shards + (all % f.shards > 0 ? 1 : 0);
  }

  unit_row const& row_;
  double summed_;
  replication_devices const& on_;
  Time const& time_;
};

/// Places a row by what `cost(begin, end, form, class)` says that a slice takes.
template <class Cost>
replicated_placement replicate(placement_row const& row, replication_options const& o,
                               replication_devices const& on, Cost const& cost, slice_growth growth) {
  return replicator<Cost>(row, o, on, cost, growth).run();
}

/// Places a row whose passes are each computed by one device.
inline replicated_placement replicate_alone(placement_row const& row, replication_options o,
                                            replication_devices const& on) {
  o.shards = {1};
  auto const time = [&](std::uint32_t begin, std::uint32_t end, stage_form const&, std::uint32_t of) {
    auto const& c = on.classes.of[of];
    auto const forward = c.forward[end] - c.forward[begin];
    return stage_cost{.forward = forward,
                      .backward = (std::max)(0.0, c.passes[end] - c.passes[begin] - forward),
                      .input_gradient = 0,
                      .weight_gradient = 0,
                      .recompute = 0};
  };
  return replicate(row, o, on, slices_of_row(row, o, on, time), slice_growth::monotone);
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Cuts a row into stages for devices that are all alike, where a stage may have several copies, each on its
/// share of the microbatches (data parallelism of single stages, as in PipeDream). `is_optimal` says whether
/// the goal is proved to be optimal; the period is, unless the dynamic program would be too large.
/// `cost(begin, end, shards)` returns the times of the passes of a slice on `shards` devices that share each
/// pass (tensor parallelism); a larger slice must not take less time.
/// \throws unit_row_error, device_network_error, schedule_count_error, error
/// \throws infeasible_error if no cut fits the memory of the devices
template <class Cost>
  requires std::is_invocable_r_v<stage_cost, Cost const&, std::uint32_t, std::uint32_t, std::uint32_t>
replicated_placement place_replicated(placement_row const& row, replication_options const& o,
                                      Cost const& cost) {
  auto const on = detail::alike_devices(row, o);
  auto const time = [&](std::uint32_t begin, std::uint32_t end, stage_form const& f, std::uint32_t) {
    return cost(begin, end, f.shards);
  };
  return detail::replicate(row, o, on, detail::slices_of_row(row, o, on, time), detail::slice_growth::any);
}

/// Does the same, where `cost(begin, end, form)` also returns the time of the sums and the memory of a slice
/// (`slice_cost`). The row gives only the number of units and the messages between them. A stage can then
/// choose, by what it keeps, which layers run their forward passes again. Keeping more must not take less
/// time or memory; nor must a larger slice, if slices times forms are more than 20 million.
template <class Cost>
  requires std::is_invocable_r_v<slice_cost, Cost const&, std::uint32_t, std::uint32_t, stage_form const&>
replicated_placement place_replicated(placement_row const& row, replication_options const& o,
                                      Cost const& cost) {
  auto const of_any = [&](std::uint32_t begin, std::uint32_t end, stage_form const& f, std::uint32_t) {
    return cost(begin, end, f);
  };
  return detail::replicate(row, o, detail::alike_devices(row, o), of_any, detail::slice_growth::any);
}

/// Cuts a row for passes that one device computes.
inline replicated_placement place_replicated(placement_row const& row, replication_options const& o) {
  return detail::replicate_alone(row, o, detail::alike_devices(row, o));
}

/// Does the same for devices that fall into few classes of speed, memory and links. All copies of a stage are
/// on devices of one class. The period is optimal for such stages in the order of the row, as above.
/// \throws error also if devices share uplinks, or if the classes, their devices and the widths are too many
inline replicated_placement place_replicated(placement_row const& row, device_network const& net,
                                             replication_options const& o) {
  return detail::replicate_alone(row, o, detail::devices_of(row, net, o));
}

/// Does the same, where `cost(begin, end, form, device)` returns the times and the memory of a slice.
template <class Cost>
  requires std::is_invocable_r_v<slice_cost, Cost const&, std::uint32_t, std::uint32_t, stage_form const&,
                                 device_spec const&>
replicated_placement place_replicated(placement_row const& row, device_network const& net,
                                      replication_options const& o, Cost const& cost) {
  auto const on = detail::devices_of(row, net, o);
  auto const of_class = [&](std::uint32_t begin, std::uint32_t end, stage_form const& f, std::uint32_t of) {
    return cost(begin, end, f, net.devices[on.members[of].front()]);
  };
  return detail::replicate(row, o, on, of_class, detail::slice_growth::any);
}

}  // namespace cleave
