// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/fixed_point.hpp"
#include "cleave/core/real.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/dense.hpp"
#include "cleave/partition/model/metrics.hpp"
#include "cleave/partition/model/part_memory.hpp"
#include "cleave/partition/units/units.hpp"

namespace cleave::detail {

/// The first node whose weight is negative, infinite or no number. O(V).
template <std::unsigned_integral Index>
std::optional<std::size_t> find_bad_weight(basic_dense<Index> const& g) {
  for (std::size_t n = 0; n < g.weight.size(); ++n)
    if (!(g.weight[n] >= 0) || !is_finite(g.weight[n])) return n;
  return std::nullopt;
}

}  // namespace cleave::detail

namespace cleave {

/// What units cost, as integers.
template <std::unsigned_integral Index>
struct unit_costs {
  detail::fixed_point scale;
  std::vector<std::uint32_t> speed_of;            ///< of a part: which of the rows below holds for it
  std::vector<std::vector<std::int64_t>> weight;  ///< for each different speed: of a unit, its time
  std::size_t fastest = 0;                        ///< the row of the highest speed
  double relative_speed = 0;                      ///< of all parts together, the fastest being 1

  std::vector<std::int64_t> transfer;  ///< of a value that may cross: what each crossing costs, at least
  std::vector<std::uint32_t> link_of;  ///< of a part: which of the rows below holds for it
  std::vector<std::vector<std::int64_t>> linked;  ///< for each different link: of a value, what each crossing
                                                  ///< costs; empty where all parts are alike
  detail::csr<Index> touching;  ///< of a value: the units that make or read it, two or more, each once
  detail::csr<Index> touched;   ///< the same from the unit's side, ascending

  std::size_t units() const { return weight.front().size(); }
  /// Of each value, what part `s` pays for it.
  std::vector<std::int64_t> const& transfer_of(std::size_t s) const {
    return linked.empty() ? transfer : linked[link_of[s]];
  }
};

}  // namespace cleave

namespace cleave::detail {

/// The values that several units touch and whose transfer costs something, with the cost of each. O(V + E).
template <std::unsigned_integral Index>
std::vector<double> list_transfers(basic_dense<Index> const& g, unit_graph<Index> const& u,
                                   double cost_per_byte, csr<Index>& touching) {
  std::vector<double> cost;
  std::vector<Index> seen(u.size(), none<Index>);
  for (Index v = 0; v < g.bytes.size(); ++v) {
    Index const producer = g.producer[v];
    double const price = cost_per_byte * static_cast<double>(g.bytes[v]);
    if (producer == none<Index> || is_replicable(g, producer) || price == 0) continue;
    auto const before = touching.item.size();
    auto const touch = [&](Index n) {
      if (Index const unit = u.of[n]; unit != none<Index> && std::exchange(seen[unit], v) != v)
        touching.add(unit);
    };
    touch(producer);
    for (Index const user : g.users[v]) touch(user);
    if (touching.item.size() - before < 2) {
      touching.item.resize(before);
      continue;
    }
    touching.close();
    cost.push_back(price);
  }
  return cost;
}

}  // namespace cleave::detail

namespace cleave {

/// Weighs units and transfers on one scale. O(V + E), and the units once more for each different speed.
/// \throws overflow_error where a sum of costs is not a finite number.
template <std::unsigned_integral Index>
unit_costs<Index> costs_of(basic_dense<Index> const& g, unit_graph<Index> const& u, std::uint32_t parts,
                           load_model const& model) {
  unit_costs<Index> c;
  std::vector<double> speeds;
  for (std::uint32_t s = 0; s < parts; ++s) {
    double const speed = model.speed.empty() ? 1 : model.speed[s];
    std::uint32_t row = 0;
    while (row < speeds.size() && speeds[row] != speed) ++row;
    if (row == speeds.size()) speeds.push_back(speed);
    c.speed_of.push_back(row);
    if (speed > speeds[c.fastest]) c.fastest = row;
  }
  double slowest = speeds.front();
  for (double const speed : speeds) slowest = (std::min)(slowest, speed);
  for (auto const row : c.speed_of) c.relative_speed += speeds[row] / speeds[c.fastest];

  std::vector<double> links;
  for (std::uint32_t s = 0; s < parts; ++s) {
    double const link = model.link.empty() ? 1 : model.link[s];
    c.link_of.push_back(static_cast<std::uint32_t>(std::ranges::find(links, link) - links.begin()));
    if (c.link_of.back() == links.size()) links.push_back(link);
  }

  auto const prices = detail::list_transfers(g, u, model.cost_per_byte, c.touching);
  std::vector<double> sum(u.size());
  double total = 0;
  auto const demand = [&](double reached, std::size_t n, char const* what) {
    if (!is_finite(reached))
      throw detail::overflow_error(
          std::string(what) + " summed up to node " + g.label(n) + " are no finite number", n);
  };
  for (std::size_t n = 0; n < g.nodes(); ++n)
    if (u.of[n] != none<Index>) {
      demand(sum[u.of[n]] += g.weight[n], n, "the weights");
      demand(total += g.weight[n] / slowest, n, "the weights");
    }
  for (std::size_t v = 0; v < prices.size(); ++v)
    demand(total += 2 * static_cast<double>(c.touching[v].size()) * prices[v] * (std::ranges::max)(links),
           u.members[c.touching[v].front()].front(), "the transfers' costs");

  c.scale = detail::fixed_point::for_total(total);
  std::uint64_t bits = 0;  // what all costs are multiples of needs not be searched in finer steps
  auto const exact = [&](double cost) {
    auto const scaled = c.scale.of(cost);
    bits |= static_cast<std::uint64_t>(scaled);
    return scaled;
  };
  for (double const speed : speeds) {
    auto& row = c.weight.emplace_back();
    for (double const w : sum) row.push_back(exact(w / speed));
  }
  auto const all_prices = [&](double link) {
    std::vector<std::int64_t> row;
    for (double const price : prices) row.push_back(exact(link * price));
    return row;
  };
  for (std::size_t i = 0; i < links.size() && links.size() > 1; ++i) c.linked.push_back(all_prices(links[i]));
  c.transfer = all_prices((std::ranges::min)(links));
  int const spare = bits == 0 ? 0 : std::countr_zero(bits);
  c.scale.exponent -= spare;
  for (auto& row : c.weight)
    for (auto& w : row) w >>= spare;
  for (auto& t : c.transfer) t >>= spare;
  for (auto& row : c.linked)
    for (auto& t : row) t >>= spare;

  c.touched = detail::users_of(c.touching, u.size());
  return c;
}

}  // namespace cleave
