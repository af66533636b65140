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

#include "cleave/place/device_network.hpp"
#include "cleave/place/placement_row.hpp"
#include "cleave/schedule/model/schedule_names.hpp"
#include "cleave/schedule/model/simulate_options.hpp"
#include "cleave/schedule/model/stage_cost.hpp"
#include "cleave/schedule/model/unit_row.hpp"

namespace cleave::inline v0_2::detail {

/// The time that units take on devices of one class, and the memory of such a device.
struct class_costs {
  std::vector<double> forward = {}, passes = {};  ///< before each place: forward passes, and both passes
  std::uint64_t memory = unlimited_memory;
  std::uint32_t count = 1;  ///< devices of the class
};

/// Classes of devices that are alike. The link from a device of class a to one of class b is at a · classes +
/// b.
struct device_classes {
  std::vector<class_costs> of = {};
  std::vector<rank_link> links = {};

  std::size_t size() const { return of.size(); }
  rank_link const& link(std::size_t from, std::size_t to) const { return links[from * of.size() + to]; }
};

/// The bytes that a stage holds, by its units and the number of stages behind it.
class stage_memory {
 public:
  stage_memory(unit_row const& row, schedule_family schedule, std::uint32_t microbatches)
      : row_(&row), schedule_(schedule), microbatches_(microbatches) {}

  /// Returns the number of microbatches whose activations a stage keeps, with `behind` stages behind it.
  std::uint64_t kept(std::uint64_t behind) const {
    if (schedule_ == schedule_family::one_f_one_b)
      return (std::min<std::uint64_t>)(microbatches_, behind + 1);
    return schedule_ == schedule_family::gpipe ? microbatches_ : 1;
  }

  /// Returns the bytes that the units between two places need, or the largest number if they are more.
  std::uint64_t needed(std::size_t from, std::size_t to, std::uint64_t behind) const {
    std::uint64_t bytes = row_->resident.empty() ? 0 : row_->resident[to] - row_->resident[from];
    if (row_->bytes.empty()) return bytes;
    auto const saved = row_->bytes[to].saved - row_->bytes[from].saved;
    return bounded_sum(bytes, bounded_product(saved, kept(behind)));
  }

 private:
  unit_row const* row_;
  schedule_family schedule_;
  std::uint32_t microbatches_;
};

/// The cost of messages between two stages, by the place of the cut between them.
class crossing_costs {
 public:
  explicit crossing_costs(unit_row const& row) : row_(&row) {}

  edge_bytes at(std::size_t place) const {
    return row_->crossing.empty() ? edge_bytes{} : row_->crossing[place];
  }

  /// Returns the time for which a microbatch occupies the busier direction of a link.
  double occupied(rank_link const& there, rank_link const& back, std::size_t place) const {
    return occupied_time(at(place), there, back);
  }
  /// Returns the time from sending activations to their arrival.
  double sent(rank_link const& there, std::size_t place) const {
    return there.latency + static_cast<double>(at(place).activation) / there.bandwidth;
  }

 private:
  unit_row const* row_;
};

/// A cut of a row, and the class of the device of each stage.
struct classed_cut {
  row_cut cut = {};
  std::vector<std::uint32_t> classes = {};
};

/// Calls `on_stage(s, load)` and `on_link(s, load)`, for the link into stage s, with what one microbatch
/// needs.
template <class OnStage, class OnLink>
void each_load(device_classes const& c, crossing_costs const& crossing, classed_cut const& p,
               OnStage on_stage, OnLink on_link) {
  for (std::size_t s = 0; s < p.classes.size(); ++s) {
    auto const& time = c.of[p.classes[s]].passes;
    on_stage(s, time[p.cut[s + 1]] - time[p.cut[s]]);
    if (s == 0) continue;
    auto const from = p.classes[s - 1], to = p.classes[s];
    on_link(s, crossing.occupied(c.link(from, to), c.link(to, from), p.cut[s]));
  }
}

/// Returns the largest load of a stage or a link.
inline double period_of(device_classes const& c, crossing_costs const& crossing, classed_cut const& p) {
  double worst = 0;
  auto const see = [&](std::size_t, double load) { worst = (std::max)(worst, load); };
  each_load(c, crossing, p, see, see);
  return worst;
}

/// Returns the time of one forward pass through all stages.
inline double latency_of(device_classes const& c, crossing_costs const& crossing, classed_cut const& p) {
  double sum = 0;
  for (std::size_t s = 0; s < p.classes.size(); ++s) {
    auto const& time = c.of[p.classes[s]].forward;
    if (s > 0) sum += crossing.sent(c.link(p.classes[s - 1], p.classes[s]), p.cut[s]);
    sum += time[p.cut[s + 1]] - time[p.cut[s]];
  }
  return sum;
}

/// Returns the times of a row on a device.
inline class_costs costs_on(placement_row const& r, device_spec const& device) {
  class_costs made{.memory = device.memory};
  auto const places = r.units.cost.size();
  made.forward.resize(places);
  made.passes.resize(places);
  auto const add = [&](std::vector<stage_cost> const& cost, double speed) {
    for (std::size_t i = 0; i < places; ++i) {
      made.forward[i] += cost[i].forward / speed;
      made.passes[i] += (cost[i].forward + cost[i].backward) / speed;
    }
  };
  add(r.units.cost, device.speed);
  for (auto const& k : r.kinds) add(k.cost, device.speed_for(k.kind));
  return made;
}

/// Devices sorted into classes. Two are alike if they have the same speeds and memory and the same links to
/// all others.
struct classified_devices {
  device_classes classes = {};
  std::vector<std::vector<std::uint32_t>> members = {};  ///< of each class: its devices, ascending
};

inline bool is_same_device(device_network const& net, std::uint32_t a, std::uint32_t b) {
  auto const &one = net.devices[a], &other = net.devices[b];
  if (one.speed != other.speed || one.memory != other.memory || one.speeds != other.speeds) return false;
  if (net.links.size() <= 1) return true;
  if (net.link(a, b) != net.link(b, a)) return false;
  for (std::uint32_t c = 0; c < net.devices.size(); ++c)
    if (c != a && c != b && (net.link(a, c) != net.link(b, c) || net.link(c, a) != net.link(c, b)))
      return false;
  return true;
}

/// Sorts devices into classes. O(devices² · classes) in the worst case.
inline classified_devices classify(placement_row const& r, device_network const& net) {
  std::vector<std::vector<std::uint32_t>> groups_of(net.devices.size());  // uplinks of each device, ascending
  for (std::uint32_t u = 0; u < net.uplinks.size(); ++u)
    for (auto const d : net.uplinks[u].devices) groups_of[d].push_back(u);
  classified_devices made;
  for (std::uint32_t d = 0; d < net.devices.size(); ++d) {
    auto const same = std::ranges::find_if(made.members, [&](auto const& members) {
      return groups_of[members[0]] == groups_of[d] && is_same_device(net, members[0], d);
    });
    if (same != made.members.end())
      same->push_back(d);
    else
      made.members.push_back({d});
  }
  for (auto const& members : made.members) {
    made.classes.of.push_back(costs_on(r, net.devices[members[0]]));
    made.classes.of.back().count = static_cast<std::uint32_t>(members.size());
  }
  for (auto const& from : made.members)
    for (auto const& to : made.members)
      made.classes.links.push_back(&from != &to      ? net.link(from[0], to[0])
                                   : from.size() > 1 ? net.link(from[0], from[1])
                                                     : rank_link{});
  return made;
}

/// Merges the classes of each group into one that is at least as good as each of them: the least time for
/// each unit, the most memory and the best links. O(classes² + classes · places).
inline device_classes merged(device_classes const& c, std::vector<std::uint32_t> const& group_of) {
  auto const groups = (std::ranges::max)(group_of) + std::size_t{1};
  device_classes made;
  made.of.resize(groups);
  std::vector<char> begun(groups);
  // Prefix sums of the less time of each unit, which no slice on any of the classes undercuts.
  auto const least = [](std::vector<double>& sums, std::vector<double> const& others) {
    double sum = 0, before = 0;
    for (std::size_t p = 1; p < sums.size(); ++p) {
      sum += (std::min)(sums[p] - before, others[p] - others[p - 1]);
      before = std::exchange(sums[p], sum);
    }
  };
  for (std::size_t i = 0; i < c.size(); ++i) {
    auto& group = made.of[group_of[i]];
    if (!begun[group_of[i]]) {
      group = c.of[i];
      begun[group_of[i]] = 1;
      continue;
    }
    group.count += c.of[i].count;
    group.memory = (std::max)(group.memory, c.of[i].memory);
    least(group.forward, c.of[i].forward);
    least(group.passes, c.of[i].passes);
  }
  made.links.resize(groups * groups);
  std::vector<char> linked(groups * groups);
  for (std::size_t from = 0; from < c.size(); ++from)
    for (std::size_t to = 0; to < c.size(); ++to) {
      if (from == to && c.of[from].count == 1) continue;  // a single device has no link to itself
      auto const at = group_of[from] * groups + group_of[to];
      auto const& link = c.link(from, to);
      auto& best = made.links[at];
      best = linked[at] ? rank_link{(std::min)(best.latency, link.latency),
                                    (std::max)(best.bandwidth, link.bandwidth)}
                        : link;
      linked[at] = 1;
    }
  return made;
}

/// The rates at which devices work, in a relaxation that splits units between them. Devices that finish the
/// units before a place within a period have rates of at least `needed` / period together. If all units are
/// of one kind, a rate is a speed; otherwise it holds by duality of linear programs.
struct device_rates {
  std::vector<double> of = {};      ///< of a device of each class
  std::vector<double> needed = {};  ///< by the units before each place

  explicit device_rates(device_classes const& c) : needed(c.of[0].passes.size()) {
    for (auto const& one : c.of) of.push_back(one.passes.back() > 0 ? 1 / one.passes.back() : 0);
    for (std::size_t p = 1; p < needed.size(); ++p) {
      auto least = std::numeric_limits<double>::infinity();
      for (std::size_t i = 0; i < c.size(); ++i)
        least = (std::min)(least, of[i] * (c.of[i].passes[p] - c.of[i].passes[p - 1]));
      needed[p] = needed[p - 1] + least * (1 - 1e-9);  // rounding must not make it too large
    }
  }

  /// Returns the rate of the fastest `most` devices together.
  double together(device_classes const& c, std::uint32_t most) const {
    std::vector<std::size_t> fastest(c.size());
    std::iota(fastest.begin(), fastest.end(), std::size_t{0});
    std::ranges::sort(fastest, [&](std::size_t a, std::size_t b) { return of[a] > of[b]; });
    double sum = 0;
    for (auto const i : fastest) {
      auto const count = (std::min)(most, c.of[i].count);
      sum += of[i] * count;
      most -= count;
    }
    return sum;
  }

  /// Returns the last place that devices of this rate together can reach from the first.
  std::size_t reach(double rate, double period) const {
    auto const most = rate * period * (1 + 1e-9);
    return static_cast<std::size_t>(std::ranges::upper_bound(needed, most) - needed.begin()) - 1;
  }
};

/// Returns a measure of how unlike two classes are: the factors between their times, memory and bandwidths.
inline double unlikeness(device_classes const& c, std::size_t a, std::size_t b) {
  auto const ratio = [](double x, double y) {
    if (x == y) return 1.0;
    auto const [low, high] = std::minmax(x, y);
    return low > 0 ? (std::min)(high / low, 1e6) : 1e6;
  };
  double sum = 4 * ratio(c.of[a].passes.back(), c.of[b].passes.back()) +
               ratio(static_cast<double>(c.of[a].memory), static_cast<double>(c.of[b].memory));
  for (std::size_t other = 0; other < c.size(); ++other)
    if (other != a && other != b)
      sum += ratio(c.link(a, other).bandwidth, c.link(b, other).bandwidth) / static_cast<double>(c.size());
  return sum;
}

}  // namespace cleave::detail
