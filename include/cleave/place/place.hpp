// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/random.hpp"
#include "cleave/graph/check_graph_concepts.hpp"
#include "cleave/graph/concepts.hpp"
#include "cleave/place/detail/class_table.hpp"
#include "cleave/place/detail/placement_costs.hpp"
#include "cleave/place/device_network.hpp"
#include "cleave/place/placement_row.hpp"
#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/model/schedule_names.hpp"
#include "cleave/schedule/simulate/simulate.hpp"

namespace cleave::inline v0_2 {

/// What a placement minimizes.
enum class placement_goal : std::uint8_t {
  throughput,  ///< the period: the time between two microbatches once the pipeline is full
  latency,     ///< the time of one forward pass through all stages
  step,        ///< the simulated time of a step of a schedule
};

/// Options of `place`.
struct placement_options {
  placement_goal goal = placement_goal::throughput;
  std::uint32_t microbatches = 1;  ///< of a step; with the schedule, they say what stages keep in memory
  /// GPipe, 1F1B or ForwardOnly. If empty: 1F1B for rows with backward passes, ForwardOnly for others.
  std::optional<schedule_family> schedule = {};
  std::uint64_t effort = 30'000'000;  ///< elementary steps of the search, of some nanoseconds each
  std::uint64_t seed = 1;
};

/// A stage on its device.
struct placed_stage {
  std::uint32_t device = 0;          ///< its position in the network
  std::uint32_t begin = 0, end = 0;  ///< its units: from `begin` to before `end`
  stage_cost time = {};              ///< the times of its passes on this device
  std::uint64_t memory = 0;          ///< bytes that it needs there

  bool operator==(placed_stage const&) const = default;
};

/// What limits the throughput of a placement.
struct placement_bottleneck {
  enum class kind : std::uint8_t { device, link, uplink };
  kind what = kind::device;
  std::uint32_t from = 0;  ///< the device, the sender, or the position of the uplink
  std::uint32_t to = 0;    ///< the receiver at a link

  bool operator==(placement_bottleneck const&) const = default;
};

/// Stages on devices, and what a microbatch and a step take there.
struct device_placement {
  std::vector<placed_stage> stages = {};   ///< in the order in which data flows
  std::vector<std::uint32_t> unused = {};  ///< devices without a stage, ascending
  double period = 0;                       ///< the largest load of a device, a link or an uplink
  placement_bottleneck bottleneck = {};    ///< which one that is
  double latency = 0;                      ///< of one forward pass
  double step = 0;                         ///< of all microbatches in the schedule, simulated
  placement_goal goal = placement_goal::throughput;
  double bound = 0;  ///< no way to slice the row and to choose devices has a smaller value

  /// Returns what the goal minimizes.
  double value() const {
    return goal == placement_goal::throughput ? period : goal == placement_goal::latency ? latency : step;
  }
  bool is_optimal() const { return value() <= bound; }
  /// Returns an upper bound on the distance from the optimum, as a fraction of the bound: 0.03 is 3 %.
  double gap() const {
    if (is_optimal()) return 0;
    return bound > 0 ? value() / bound - 1 : std::numeric_limits<double>::infinity();
  }
};

/// A stage to be timed: its device and its units.
struct stage_on_device {
  std::uint32_t device = 0, begin = 0, end = 0;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Stages as boundaries and devices.
struct ordered_cut {
  row_cut cut = {};
  std::vector<std::uint32_t> devices = {};
};

/// The costs of a row on the devices of a network, by device.
class placement_costs {
 public:
  placement_costs(placement_row const& row, device_network const& net, placement_options const& o)
      : row_(row),
        net_(net),
        options_(o),
        schedule_(o.schedule.value_or(has_backward(row) ? schedule_family::one_f_one_b
                                                        : schedule_family::forward_only)),
        memory_(row.row, schedule_, o.microbatches),
        crossing_(row.row),
        alike_(classify(row, net)),
        class_of_(net.devices.size()) {
    for (std::uint32_t c = 0; c < alike_.members.size(); ++c)
      for (auto const d : alike_.members[c]) class_of_[d] = c;
  }

  std::size_t units() const { return row_.row.units(); }
  std::size_t devices() const { return net_.devices.size(); }
  placement_options const& options() const { return options_; }
  schedule_family schedule() const { return schedule_; }
  stage_memory const& memory() const { return memory_; }
  crossing_costs const& crossing() const { return crossing_; }
  classified_devices const& alike() const { return alike_; }
  bool has_uplinks() const { return !net_.uplinks.empty(); }
  class_costs const& on(std::uint32_t device) const { return alike_.classes.of[class_of_[device]]; }
  rank_link link(std::uint32_t from, std::uint32_t to) const { return net_.link(from, to); }

  /// Returns the largest number of stages. 1F1B needs as many microbatches as stages.
  std::uint32_t most_stages() const {
    auto most = (std::min)(units(), devices());
    if (schedule_ == schedule_family::one_f_one_b) most = (std::min<std::size_t>)(most, options_.microbatches);
    return static_cast<std::uint32_t>(most);
  }

  /// Returns the period, and what determines it. O(stages · uplinks).
  std::pair<double, placement_bottleneck> period(ordered_cut const& p) const {
    std::pair<double, placement_bottleneck> worst{-1, {}};
    auto const see = [&](double load, placement_bottleneck what) {
      if (load > worst.first) worst = {load, what};
    };
    using kind = placement_bottleneck::kind;
    for (std::size_t s = 0; s < p.devices.size(); ++s) {
      auto const& time = on(p.devices[s]).passes;
      see(time[p.cut[s + 1]] - time[p.cut[s]], {kind::device, p.devices[s]});
      if (s == 0) continue;
      auto const from = p.devices[s - 1], to = p.devices[s];
      see(crossing_.occupied(link(from, to), link(to, from), p.cut[s]), {kind::link, from, to});
    }
    for (std::uint32_t u = 0; u < net_.uplinks.size(); ++u) see(uplink_load(u, p), {kind::uplink, u});
    return worst;
  }

  /// Returns the time of one forward pass through all stages.
  double latency(ordered_cut const& p) const {
    double sum = 0;
    for (std::size_t s = 0; s < p.devices.size(); ++s) {
      auto const& time = on(p.devices[s]).forward;
      if (s > 0) sum += crossing_.sent(link(p.devices[s - 1], p.devices[s]), p.cut[s]);
      sum += time[p.cut[s + 1]] - time[p.cut[s]];
    }
    return sum;
  }

  /// Returns the time of a step, at least that in which each uplink moves all of its messages.
  double step(ordered_cut const& p) const {
    auto const k = static_cast<std::uint32_t>(p.devices.size());
    simulate_options o;
    for (std::uint32_t s = 0; s < k; ++s) {
      o.costs.push_back(time_of(p, s));
      if (s > 0) o.bytes.push_back(crossing_.at(p.cut[s]));
      for (std::uint32_t to = 0; to < k; ++to) o.links.push_back(s == to ? rank_link{} : link(p.devices[s], p.devices[to]));
    }
    if (made_.ranks.size() != k)
      made_ = make_schedule(schedule_, {.ranks = k, .stages_per_rank = 1, .microbatches = options_.microbatches});
    auto time = simulate(made_, o).makespan;
    for (std::uint32_t u = 0; u < net_.uplinks.size(); ++u)
      time = (std::max)(time, options_.microbatches * uplink_load(u, p));
    return time;
  }

  /// Returns a lower bound on the time of a step: a stage works for all microbatches, after one forward pass and
  /// before one backward pass of each stage before it. O(stages).
  double least_step(ordered_cut const& p) const {
    double before = 0, least = 0;
    for (std::size_t s = 0; s < p.devices.size(); ++s) {
      auto const& time = on(p.devices[s]).passes;
      auto const load = time[p.cut[s + 1]] - time[p.cut[s]];
      least = (std::max)(least, options_.microbatches * load + before);
      before += load;
    }
    return least;
  }

  double value(ordered_cut const& p) const {
    switch (options_.goal) {
      case placement_goal::throughput:
        return period(p).first;
      case placement_goal::latency:
        return latency(p);
      case placement_goal::step:
        break;
    }
    return step(p);
  }

  /// Returns whether each stage fits into the memory of its device.
  bool fits(ordered_cut const& p) const {
    for (std::size_t s = 0; s < p.devices.size(); ++s)
      if (needed(p, s) > on(p.devices[s]).memory) return false;
    return true;
  }

  std::uint64_t needed(ordered_cut const& p, std::size_t s) const {
    return memory_.needed(p.cut[s], p.cut[s + 1], p.devices.size() - s - 1);
  }

  device_placement result(ordered_cut const& p, double bound) const {
    device_placement made{.goal = options_.goal, .bound = bound};
    std::vector<char> is_used(devices());
    for (std::uint32_t s = 0; s < p.devices.size(); ++s) {
      made.stages.push_back({p.devices[s], p.cut[s], p.cut[s + 1], time_of(p, s), needed(p, s)});
      is_used[p.devices[s]] = 1;
    }
    for (std::uint32_t d = 0; d < devices(); ++d)
      if (!is_used[d]) made.unused.push_back(d);
    std::tie(made.period, made.bottleneck) = period(p);
    made.latency = latency(p);
    made.step = step(p);
    return made;
  }

 private:
  static bool has_backward(placement_row const& row) {
    auto const has = [](std::vector<stage_cost> const& cost) { return !cost.empty() && cost.back().backward > 0; };
    return has(row.row.cost) || std::ranges::any_of(row.kinds, [&](auto const& k) { return has(k.cost); });
  }

  stage_cost time_of(ordered_cut const& p, std::uint32_t s) const {
    auto const& c = on(p.devices[s]);
    auto const from = p.cut[s], to = p.cut[s + 1];
    auto const forward = (std::max)(0.0, c.forward[to] - c.forward[from]);
    return {.forward = forward,
            .backward = (std::max)(0.0, c.passes[to] - c.passes[from] - forward),
            .input_gradient = 0,
            .weight_gradient = 0,
            .recompute = 0};
  }

  /// Returns the time for which a microbatch occupies an uplink in its busier direction.
  double uplink_load(std::uint32_t u, ordered_cut const& p) const {
    auto const& group = net_.uplinks[u];
    auto const is_inside = [&](std::uint32_t d) { return std::ranges::find(group.devices, d) != group.devices.end(); };
    double out = 0, in = 0;
    for (std::size_t s = 1; s < p.devices.size(); ++s) {
      bool const from = is_inside(p.devices[s - 1]), to = is_inside(p.devices[s]);
      if (from == to) continue;
      auto const bytes = crossing_.at(p.cut[s]);
      (from ? out : in) += static_cast<double>(bytes.activation);
      (from ? in : out) += static_cast<double>(bytes.gradient);
    }
    return (std::max)(out, in) / group.bandwidth;
  }

  placement_row const& row_;
  device_network const& net_;
  placement_options const& options_;
  schedule_family schedule_;
  stage_memory memory_;
  crossing_costs crossing_;
  classified_devices alike_;
  std::vector<std::uint32_t> class_of_;
  mutable cleave::schedule made_ = {};  // for the number of stages that was asked for last
};

/// Returns the boundaries with which devices in a given order have a period within a limit, or nothing.
/// O(devices · units), and much less where the limit leaves few places for each boundary. Adds its steps to `steps`.
inline std::optional<row_cut> cut_within(placement_costs const& costs, std::vector<std::uint32_t> const& order,
                                         period_limit limit, double& steps) {
  auto const n = static_cast<std::uint32_t>(costs.units());
  auto const k = order.size();
  auto const allows = [&](std::size_t s, std::size_t from, std::size_t to) {
    auto const& c = costs.on(order[s]);
    return limit.allows(c.passes[to] - c.passes[from]) &&
           (c.memory == unlimited_memory || costs.memory().needed(from, to, k - s - 1) <= c.memory);
  };
  // The last place that the first stages reach, whatever the links.
  std::vector<std::uint32_t> last(k + 1);
  for (std::size_t s = 0; s < k; ++s) {
    auto low = last[s], high = n;
    while (low < high) {
      auto const middle = low + (high - low + 1) / 2;
      allows(s, last[s], middle) ? low = middle : high = middle - 1;
    }
    last[s + 1] = low;
  }
  steps += 40.0 * static_cast<double>(k);
  if (last[k] < n) return std::nullopt;

  // The places where each stage can begin, ascending, from the last stage to the first.
  std::vector<std::vector<std::uint32_t>> begins(k + 1);
  begins[k] = {n};
  for (auto s = k; s-- > 0;) {
    std::uint32_t from = 0, done = 0;  // `from`: the earliest begin for an end; it rises with the ends
    bool is_first = true;
    auto const there = s > 0 ? costs.link(order[s - 1], order[s]) : rank_link{};
    auto const back = s > 0 ? costs.link(order[s], order[s - 1]) : rank_link{};
    for (auto const end : begins[s + 1]) {
      if (is_first) {  // halving instead of walking from the first place
        std::uint32_t low = 0, high = end;
        while (low < high) {
          auto const middle = low + (high - low) / 2;
          allows(s, middle, end) ? high = middle : low = middle + 1;
        }
        from = low;
        is_first = false;
      }
      while (from < end && !allows(s, from, end)) ++from;
      for (auto i = (std::max)(from, done); i < end && i <= last[s]; ++i)
        if (s == 0 ? i == 0 : i > 0 && limit.allows(costs.crossing().occupied(there, back, i)))
          begins[s].push_back(i);
      done = (std::max)(done, end);
    }
    steps += static_cast<double>(begins[s + 1].size() + begins[s].size());
    if (begins[s].empty()) return std::nullopt;
  }
  row_cut cut{0};
  for (std::size_t s = 0; s + 1 < k; ++s)
    cut.push_back(*std::ranges::find_if(begins[s + 1], [&](auto end) { return end > cut.back() && allows(s, cut.back(), end); }));
  cut.push_back(n);
  return cut;
}

/// Returns the boundaries with which one microbatch passes the devices of an order in the least time.
/// O(devices · units).
inline std::optional<row_cut> fastest_cut(placement_costs const& costs, std::vector<std::uint32_t> const& order) {
  constexpr auto never = std::numeric_limits<double>::infinity();
  auto const n = costs.units(), k = order.size();
  std::vector<std::vector<double>> behind(k + 1, std::vector<double>(n + 1, never));
  std::vector<std::vector<std::uint32_t>> end_of(k, std::vector<std::uint32_t>(n + 1));
  behind[k][n] = 0;
  for (auto s = k; s-- > 0;) {
    auto const& forward = costs.on(order[s]).forward;
    auto const earliest = earliest_begins(costs.on(order[s]), costs.memory(), {}, k - s - 1);
    std::vector<double> key(n + 1, never);
    for (std::size_t i = 1; i <= n; ++i)
      if (s + 1 == k ? i == n : i < n)
        key[i] = forward[i] + behind[s + 1][i] +
                 (s + 1 == k ? 0 : costs.crossing().sent(costs.link(order[s], order[s + 1]), i));
    std::deque<std::size_t> window;
    for (auto begin = n; begin-- > 0;) {
      while (!window.empty() && key[window.back()] >= key[begin + 1]) window.pop_back();
      window.push_back(begin + 1);
      while (!window.empty() && earliest[window.front()] > begin) window.pop_front();
      if (window.empty() || key[window.front()] == never) continue;
      behind[s][begin] = key[window.front()] - forward[begin];
      end_of[s][begin] = static_cast<std::uint32_t>(window.front());
    }
  }
  if (behind[0][0] == never) return std::nullopt;
  row_cut cut{0};
  for (std::size_t s = 0; s < k; ++s) cut.push_back(end_of[s][cut.back()]);
  return cut;
}

/// A search over which devices run stages and in which order, for `place`.
class device_order_search {
 public:
  explicit device_order_search(placement_costs const& costs)
      : costs_(costs), random_(costs.options().seed), left_(static_cast<double>(costs.options().effort)) {}

  /// Remembers a placement if it is better than the best.
  void offer(ordered_cut const& p) {
    if (!costs_.fits(p)) return;
    if (auto const v = value_below(p, value_)) best_ = p, value_ = *v;
  }

  /// Offers the best cut for an order of devices.
  void offer_order(std::vector<std::uint32_t> const& order) {
    if (auto const p = best_of(order, std::numeric_limits<double>::infinity())) offer(*p);
  }

  std::optional<ordered_cut> const& best() const { return best_; }
  double value() const { return value_; }

  /// Changes the order until the budget is spent, or the bound is reached.
  void run(double bound) {
    if (!best_) return;
    auto here = *best_;
    auto here_value = value_;
    double const all = left_;
    while (left_ > 0 && value_ > bound * (1 + 2e-9)) {
      left_ -= 64;
      auto next = changed(here.devices);
      if (next == here.devices) continue;
      double const heat = 0.2 * (left_ / all) * (left_ / all);
      auto const limit = here_value * (1 + heat * unit());
      auto p = best_of(next, limit);
      if (!p) continue;
      auto const v = value_below(*p, limit);
      if (!v) continue;
      here = std::move(*p);
      here_value = *v;
      if (*v < value_) best_ = here, value_ = *v;
    }
    here = *best_;
    shift_boundaries(here);
  }

 private:
  /// Returns the value of a placement if it is below a limit. Where that is clear without, nothing is simulated.
  std::optional<double> value_below(ordered_cut const& p, double limit) {
    if (costs_.options().goal == placement_goal::step) {
      if (costs_.least_step(p) >= limit) return std::nullopt;
      left_ -= 300.0 * costs_.options().microbatches * static_cast<double>(p.devices.size());
    }
    auto const v = costs_.value(p);
    return v < limit ? std::optional(v) : std::nullopt;
  }

  double unit() { return static_cast<double>(random_.next() >> 11) * 0x1p-53; }
  /// Returns the best cut for an order. For the throughput, one below `limit` that is not much worse than the best.
  std::optional<ordered_cut> best_of(std::vector<std::uint32_t> const& order, double limit) {
    auto const goal = costs_.options().goal;
    if (goal == placement_goal::latency) {
      left_ -= 3.0 * static_cast<double>(order.size()) * static_cast<double>(costs_.units());
      if (auto const cut = fastest_cut(costs_, order)) return ordered_cut{*cut, order};
      return std::nullopt;
    }
    auto const worst = std::numeric_limits<double>::infinity();
    if (goal == placement_goal::step) limit /= costs_.options().microbatches;  // of the period
    double steps = 0;
    auto cut = cut_within(costs_, order, {limit}, steps);
    left_ -= steps;
    if (!cut) return std::nullopt;
    ordered_cut best{std::move(*cut), order};
    double low = 0, high = costs_.period(best).first;
    for (int halvings = limit == worst ? 40 : 6; halvings-- > 0 && high - low > 1e-9 * high;) {
      auto const middle = (low + high) / 2;
      steps = 0;
      if (auto better = cut_within(costs_, order, {middle}, steps)) {
        best.cut = std::move(*better);
        high = (std::min)(middle, costs_.period(best).first);
      } else {
        low = middle;
      }
      left_ -= steps;
    }
    return best;
  }

  /// Returns an order with one change: two devices swapped, one moved, one replaced, added or left out, or a part
  /// of it reversed.
  std::vector<std::uint32_t> changed(std::vector<std::uint32_t> order) {
    auto const k = order.size();
    auto const unused = unused_by(order);
    auto const at = random_.below(k);
    switch (random_.below(6)) {
      case 0:
        std::swap(order[at], order[random_.below(k)]);
        break;
      case 1: {
        auto const moved = order[at];
        order.erase(order.begin() + static_cast<std::ptrdiff_t>(at));
        order.insert(order.begin() + static_cast<std::ptrdiff_t>(random_.below(k)), moved);
        break;
      }
      case 2:
        if (!unused.empty()) order[at] = unused[random_.below(unused.size())];
        break;
      case 3:
        if (!unused.empty() && k < costs_.most_stages())
          order.insert(order.begin() + static_cast<std::ptrdiff_t>(random_.below(k + 1)),
                       unused[random_.below(unused.size())]);
        break;
      case 4:
        if (k > 1) order.erase(order.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      default: {
        auto const other = random_.below(k);
        auto const [low, high] = std::minmax(at, other);
        std::reverse(order.begin() + static_cast<std::ptrdiff_t>(low), order.begin() + static_cast<std::ptrdiff_t>(high + 1));
      }
    }
    return order;
  }

  std::vector<std::uint32_t> unused_by(std::vector<std::uint32_t> const& order) const {
    std::vector<char> is_used(costs_.devices());
    for (auto const d : order) is_used[d] = 1;
    std::vector<std::uint32_t> unused;
    for (std::uint32_t d = 0; d < costs_.devices(); ++d)
      if (!is_used[d]) unused.push_back(d);
    return unused;
  }

  /// Shifts boundaries of the best placement while its value becomes less.
  void shift_boundaries(ordered_cut here) {
    left_ += static_cast<double>(costs_.options().effort) / 4;
    for (bool moved = true; moved && left_ > 0;) {
      moved = false;
      for (std::size_t b = 1; b + 1 < here.cut.size(); ++b)
        for (std::int64_t const by : {-1, 1, -3, 3}) {
          auto const to = here.cut[b] + by;
          if (to <= here.cut[b - 1] || to >= here.cut[b + 1]) continue;
          auto next = here;
          next.cut[b] = static_cast<std::uint32_t>(to);
          if (!costs_.fits(next)) continue;
          left_ -= static_cast<double>(here.cut.size());
          if (auto const v = value_below(next, value_)) {
            best_ = here = std::move(next);
            value_ = *v;
            moved = true;
          }
        }
    }
  }

  placement_costs const& costs_;
  splitmix random_;
  double left_;
  std::optional<ordered_cut> best_;
  double value_ = std::numeric_limits<double>::infinity();
};

/// Returns the devices for a cut with classes: of each class in ascending order.
inline ordered_cut with_devices(classed_cut const& cut, std::vector<std::vector<std::uint32_t>> const& members) {
  ordered_cut made{cut.cut, {}};
  std::vector<std::size_t> next(members.size());
  for (auto const c : cut.classes) made.devices.push_back(members[c][next[c]++]);
  return made;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2::detail {

/// Returns the period of a cut for classes of devices.
inline double period_of(device_classes const& c, crossing_costs const& crossing, classed_cut const& p) {
  double worst = 0;
  for (std::size_t s = 0; s < p.classes.size(); ++s) {
    auto const& time = c.of[p.classes[s]].passes;
    worst = (std::max)(worst, time[p.cut[s + 1]] - time[p.cut[s]]);
    if (s == 0) continue;
    auto const from = p.classes[s - 1], to = p.classes[s];
    worst = (std::max)(worst, crossing.occupied(c.link(from, to), c.link(to, from), p.cut[s]));
  }
  return worst;
}

/// Returns the latency of a cut for classes of devices.
inline double latency_of(device_classes const& c, crossing_costs const& crossing, classed_cut const& p) {
  double sum = 0;
  for (std::size_t s = 0; s < p.classes.size(); ++s) {
    auto const& time = c.of[p.classes[s]].forward;
    if (s > 0) sum += crossing.sent(c.link(p.classes[s - 1], p.classes[s]), p.cut[s]);
    sum += time[p.cut[s + 1]] - time[p.cut[s]];
  }
  return sum;
}

/// Merges classes, the most alike first, until a table of them takes at most `effort` steps. Returns the group of
/// each class.
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
    is_exact_ = std::ranges::max(group_of) + std::size_t{1} == all.classes.size();
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
    if (!any) throw infeasible_error(shortage());
    double bound = 0;
    auto const goal = costs_.options().goal;
    if (goal != placement_goal::latency) bound = least_period(table, *any);
    if (goal == placement_goal::step) bound = (std::max)(bound * costs_.options().microbatches, filled_step());
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
      throw infeasible_error("place: no placement was found that fits the memory of the devices, although none of the "
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

  /// Returns a lower bound on the time of a step. A stage works for all microbatches, and each stage before it has
  /// done one forward pass before that and does one backward pass after it: with m microbatches and loads L, a step
  /// takes at least m · L(s) + the loads before s, for each s. Of all loads that allows, the largest work has the
  /// fastest device first, and each load (1 − 1/m) times the one before.
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

  /// Says what does not fit.
  std::string shortage() const {
    auto const n = costs_.units();
    std::uint64_t most = 0, sum = 0, largest = 0;
    std::size_t at = 0;
    for (auto const& c : classes_.of) {
      most = (std::max)(most, c.memory);
      for (std::uint32_t i = 0; i < c.count; ++i) sum = bounded_sum(sum, c.memory);
    }
    for (std::size_t i = 0; i < n; ++i)
      if (auto const bytes = costs_.memory().needed(i, i + 1, 0); bytes > largest) largest = bytes, at = i;
    auto const text = [](std::uint64_t bytes) { return std::to_string(bytes) + " bytes"; };
    if (largest > most)
      return "place: unit " + std::to_string(at) + " needs " + text(largest) + ", and the largest device has " +
             text(most) + "; cut the unit, or add a device with more memory";
    return "place: no cut into at most " + std::to_string(costs_.most_stages()) +
           " stages fits the devices: all units need " + text(costs_.memory().needed(0, n, 0)) +
           " with one microbatch's activations, and the devices have " + text(sum) +
           "; add devices, or use fewer microbatches";
  }

  placement_costs const& costs_;
  device_order_search search_;
  bool is_exact_ = true;
  device_classes classes_;
  std::vector<std::vector<std::uint32_t>> members_;
};

/// Checks all that is given to `place` and `time_placement`.
inline void require_placeable(placement_row const& row, device_network const& net, placement_options const& o) {
  if (auto const f = find_unit_row_fault(row.row)) throw unit_row_error(*f);
  for (auto const& k : row.kinds) {
    unit_row const alone{.cost = k.cost};
    if (k.cost.size() != row.row.cost.size())
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
/// Each device runs at most one stage, and each stage sends to the next. Where devices fall into few classes, the
/// period and the latency are optimal, by dynamic programming; `bound` is then the value itself. Otherwise the
/// classes are merged into better ones for a lower bound, and a search changes the order of the devices. Uplinks
/// and the step of a schedule are never better than the bound without them.
/// \throws unit_row_error, device_network_error, schedule_count_error, error
/// \throws infeasible_error if no cut fits the memory of the devices
inline device_placement place(placement_row const& row, device_network const& net, placement_options const& o = {}) {
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

/// Returns the times of stages that were placed by other means. Their units must follow one another without a gap,
/// and no device may have two. `bound` is 0: nothing is claimed. Memory may exceed that of a device.
/// \throws unit_row_error, device_network_error, schedule_count_error, error
inline device_placement time_placement(placement_row const& row, device_network const& net,
                                       std::vector<stage_on_device> const& stages, placement_options const& o = {}) {
  detail::require_placeable(row, net, o);
  detail::ordered_cut p{{0}, {}};
  std::vector<char> is_used(net.devices.size());
  for (auto const& s : stages) {
    auto const which = "stage " + std::to_string(p.devices.size());
    if (s.device >= net.devices.size() || is_used[s.device])
      throw error("place: " + which + " has device #" + std::to_string(s.device) + ", which " +
                  (s.device < net.devices.size() ? "has a stage already" : "does not exist"));
    if (s.begin != p.cut.back() || s.end <= s.begin || s.end > row.row.units())
      throw error("place: " + which + " has units " + std::to_string(s.begin) + " to " + std::to_string(s.end) +
                  ": it must begin at " + std::to_string(p.cut.back()) + " and end behind that");
    is_used[s.device] = 1;
    p.devices.push_back(s.device);
    p.cut.push_back(s.end);
  }
  if (p.cut.back() != row.row.units())
    throw error("place: the stages end at unit " + std::to_string(p.cut.back()) + " of " +
                std::to_string(row.row.units()));
  return detail::placement_costs(row, net, o).result(p, 0);
}

}  // namespace cleave
