// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cleave/core/fixed_point.hpp"
#include "cleave/core/real.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/dense.hpp"
#include "cleave/partition/acyclic/acyclic_options.hpp"
#include "cleave/partition/acyclic/cut_slices.hpp"
#include "cleave/partition/acyclic/level.hpp"
#include "cleave/partition/slices/slicing.hpp"
#include "cleave/partition/slices/transfer_pairs.hpp"
#include "cleave/partition/units/unit_costs.hpp"
#include "cleave/partition/units/unit_memory.hpp"
#include "cleave/partition/units/units.hpp"

namespace cleave::detail {

/// The values that units of several parts may touch, and what each costs a cut for each part but one. O(V +
/// E).
template <std::unsigned_integral Index>
std::vector<double> list_cut_values(basic_dense<Index> const& g, unit_graph<Index> const& u,
                                    cut_measure counted, csr<Index>& touching) {
  std::vector<double> prices;
  std::vector<Index> readers;
  for (Index v = 0; v < g.values(); ++v) {
    Index const producer = g.producer[v];
    if (producer == none<Index> || is_replicable(g, producer)) continue;
    Index const home = u.of[producer];
    double const bytes = counted == cut_measure::received_values ? 1
                         : g.bytes.empty()                       ? 0
                                                                 : static_cast<double>(g.bytes[v]);
    if (bytes == 0) continue;
    readers.clear();
    for (Index const user : g.users[v])
      if (Index const unit = u.of[user]; unit != none<Index> && unit != home) readers.push_back(unit);
    std::ranges::sort(readers);
    auto const close = [&](double price) {
      touching.close();
      prices.push_back(price);
    };
    if (counted == cut_measure::edge_bytes) {
      for (std::size_t i = 0, j = 0; i < readers.size(); i = j) {
        for (; j < readers.size() && readers[j] == readers[i];) ++j;
        touching.add(home);
        touching.add(readers[i]);
        close(bytes * static_cast<double>(j - i));
      }
      continue;
    }
    readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
    if (readers.empty()) continue;
    touching.add(home);
    for (Index const unit : readers) touching.add(unit);
    close(bytes);
  }
  return prices;
}

/// Slices of an order of a level's units, with what limits and pins say about where they end; `pairs` is left
/// to the caller. O(units + needs).
template <std::unsigned_integral Index>
slicing_task<Index> slicing_task_of(acyclic_level<Index> const& level, acyclic_limits const& limits,
                                    std::span<Index const> order) {
  auto const parts = limits.parts();
  auto const n = static_cast<Index>(order.size());
  slicing_task<Index> t;
  t.speed_of = limits.speed_of;
  t.may_be_empty = limits.may_be_empty;
  for (auto const& weight : level.weight) {
    auto& before = t.before.emplace_back(1);
    before.reserve(order.size() + 1);
    for (Index const u : order) before.push_back(before.back() + weight[u]);
  }
  std::vector<std::size_t> known;
  for (auto const bytes : limits.memory) {
    auto const at = std::ranges::find(known, bytes);
    t.limit_of.push_back(static_cast<std::uint32_t>(at - known.begin()));
    if (at != known.end()) continue;
    known.push_back(bytes);
    t.fitting.push_back(first_fitting<Index>(level.memory, order, bytes));
  }
  t.low.assign(parts + std::size_t{1}, 0);
  t.high.assign(parts + std::size_t{1}, n);
  for (std::uint32_t s = 0; s <= parts && !limits.may_be_empty; ++s) {
    t.low[s] = static_cast<Index>(std::min<std::size_t>(s, n));
    t.high[s] = static_cast<Index>(n - std::min<std::size_t>(parts - s, n));
  }
  t.high.front() = 0;
  t.low.back() = n;
  auto const& [earliest, latest] = level.window;
  for (Index i = 0; i < n && !earliest.empty(); ++i) {
    t.high[earliest[order[i]]] = (std::min)(t.high[earliest[order[i]]], i);
    auto& low = t.low[latest[order[i]] + std::size_t{1}];
    low = (std::max)(low, static_cast<Index>(i + 1));
  }
  for (std::uint32_t s = 0; s < parts; ++s) t.low[s + 1] = (std::max)(t.low[s + 1], t.low[s]);
  for (std::uint32_t s = parts; s-- > 0;) t.high[s] = (std::min)(t.high[s], t.high[s + 1]);
  return t;
}

}  // namespace cleave::detail

namespace cleave {

/// Which part each unit is in, given slices of an order.
template <std::unsigned_integral Index>
std::vector<std::uint32_t> parts_of(std::span<Index const> order, std::vector<Index> const& at) {
  std::vector<std::uint32_t> of(order.size());
  for (std::uint32_t s = 0; s + 1 < at.size(); ++s)
    for (Index i = at[s]; i < at[s + 1]; ++i) of[order[i]] = s;
  return of;
}

}  // namespace cleave

namespace cleave::detail {

/// The best slices of an order by the largest load, if below `below`; `bound` is below every load. Parts of
/// units.
template <std::unsigned_integral Index>
std::optional<std::vector<std::uint32_t>> load_slices(acyclic_level<Index> const& level,
                                                      acyclic_limits const& limits,
                                                      std::span<Index const> order, std::int64_t bound,
                                                      std::int64_t below = unreachable_load) {
  auto task = slicing_task_of(level, limits, order);
  auto const pairs = [&](std::size_t link) {
    return pairs_of<Index>(level.touching, level.touched, order, level.price[link]);
  };
  task.pairs = pairs(0);
  if (level.price.size() > 1) {
    task.link_of = limits.link_of;
    for (std::size_t i = 0; i < level.price.size(); ++i) task.linked.push_back(pairs(i));
  }
  auto const best = best_slices(task, bound, below);
  if (!best) return std::nullopt;
  return parts_of(order, best->at);
}

/// The slices of an order of least cut that take no part more than `most` time, if there are any.
template <std::unsigned_integral Index>
std::optional<std::vector<std::uint32_t>> cut_slices(acyclic_level<Index> const& level,
                                                     acyclic_limits const& limits,
                                                     std::span<Index const> order, std::int64_t most) {
  auto task = slicing_task_of(level, limits, order);
  task.pairs = cut_pairs_of<Index>(level.touched, level.price[0], order);
  auto const best = best_cut_slices(task, most);
  if (!best) return std::nullopt;
  return parts_of(order, best->at);
}

}  // namespace cleave::detail
