// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "cleave/core/random.hpp"
#include "cleave/place/detail/class_table.hpp"
#include "cleave/place/detail/device_classes.hpp"
#include "cleave/place/detail/placement_costs.hpp"
#include "cleave/place/placement.hpp"

namespace cleave::inline v0_2::detail {

/// Returns the boundaries with which devices in a given order have a period within a limit, or nothing.
/// O(devices · units), and much less where the limit leaves few places for each boundary. Adds its steps to
/// `steps`.
inline std::optional<row_cut> cut_within(placement_costs const& costs,
                                         std::vector<std::uint32_t> const& order, period_limit limit,
                                         double& steps) {
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
    cut.push_back(*std::ranges::find_if(
        begins[s + 1], [&](auto end) { return end > cut.back() && allows(s, cut.back(), end); }));
  cut.push_back(n);
  return cut;
}

/// Returns the boundaries with which one microbatch passes the devices of an order in the least time.
/// O(devices · units).
inline std::optional<row_cut> fastest_cut(placement_costs const& costs,
                                          std::vector<std::uint32_t> const& order) {
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
    each_best_end(
        earliest, [&](std::size_t i) { return key[i]; },
        [&](std::size_t begin, std::size_t end) {
          if (key[end] == never) return;
          behind[s][begin] = key[end] - forward[begin];
          end_of[s][begin] = static_cast<std::uint32_t>(end);
        });
  }
  if (behind[0][0] == never) return std::nullopt;
  row_cut cut{0};
  for (std::size_t s = 0; s < k; ++s) cut.push_back(end_of[s][cut.back()]);
  return cut;
}

/// A search over which devices run stages and in which order, for `place`.
class placement_search {
 public:
  explicit placement_search(placement_costs const& costs)
      : costs_(costs), random_(costs.options().seed), left_(static_cast<double>(costs.options().effort)) {}

  /// Remembers a placement if it is better than the best.
  void offer(ordered_cut const& p) {
    if (!costs_.fits(p)) return;
    if (auto const v = value_below(p, value_)) best_ = p, value_ = *v;
  }

  /// Offers the best cut for an order of devices.
  void offer_order(std::vector<std::uint32_t> const& order) {
    if (auto const p = best_of(order, value_)) offer(*p);
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
      auto const limit = here_value * (1 + heat * random_.unit());
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
  /// Returns the value of a placement if it is below a limit. Where that is clear without, nothing is
  /// simulated.
  std::optional<double> value_below(ordered_cut const& p, double limit) {
    if (costs_.options().goal == placement_goal::step) {
      if (costs_.least_step(p) >= limit) return std::nullopt;
      double const steps = costs_.has_uplinks() ? 300 : 30;  // of a stage and microbatch, as measured
      left_ -= steps * costs_.options().microbatches * static_cast<double>(p.devices.size());
    }
    auto const v = costs_.value(p);
    return v < limit ? std::optional(v) : std::nullopt;
  }

  /// Returns the best cut for an order. For the throughput, one below `limit` that is not much worse than the
  /// best.
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

  /// Returns an order with one change: two devices swapped, one moved, one replaced, added or left out, or a
  /// part of it reversed.
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
        std::reverse(order.begin() + static_cast<std::ptrdiff_t>(low),
                     order.begin() + static_cast<std::ptrdiff_t>(high + 1));
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
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t b = 1; b + 1 < here.cut.size(); ++b)
        for (std::int64_t const by : {-1, 1, -3, 3}) {
          auto const to = here.cut[b] + by;
          if (left_ <= 0) return;
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

}  // namespace cleave::detail
