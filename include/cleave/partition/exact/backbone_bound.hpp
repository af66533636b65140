// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "cleave/core/fixed_point.hpp"
#include "cleave/partition/exact/backbone.hpp"
#include "cleave/partition/exact/backbone_cuts.hpp"
#include "cleave/partition/mirrored.hpp"
#include "cleave/partition/unit_costs.hpp"

namespace cleave {

/// How closely a backbone bound looks.
struct backbone_options {
  std::size_t places = 128;             ///< of the chain; their square bounds the flows
  std::size_t most_steps = 20'000'000;  ///< about: some seconds a hundred million
};

/// Costs of parts between places, and the least bound they allow.
class backbone_table {
 public:
  explicit backbone_table(std::int32_t size) : places_(static_cast<std::size_t>(size) + 3) {
    load_.assign(places_ * places_, 0);
    transfers_.assign(places_ * places_, 0);
  }
  void put(std::int32_t from, std::int32_t to, std::int64_t load, std::int64_t transfers) {
    load_[at(from, to)] = load;
    transfers_[at(from, to)] = transfers;
  }

  /// Whether `parts` parts from the first place to the last can pay at most `bound` each, of `time` to do in
  /// all; without `time` their sum is not asked.
  bool allows(std::int64_t bound, std::size_t parts, std::optional<std::int64_t> time) const {
    std::vector<std::int64_t> least(places_, unreachable_load), next;
    least[0] = 0;
    for (std::size_t s = 0; s < parts; ++s) {
      next.assign(places_, unreachable_load);
      for (std::size_t i = 0; i < places_; ++i)
        for (std::size_t j = i; least[i] < unreachable_load && j < places_; ++j)
          if (load_[i * places_ + j] <= bound)
            next[j] = std::min(next[j], least[i] + transfers_[i * places_ + j]);
      least.swap(next);
    }
    if (least.back() >= unreachable_load) return false;
    if (!time) return true;
    auto const each = (*time + least.back()) / static_cast<std::int64_t>(parts);
    return each < bound || (each == bound && (*time + least.back()) % static_cast<std::int64_t>(parts) == 0);
  }

 private:
  std::size_t at(std::int32_t from, std::int32_t to) const {
    return static_cast<std::size_t>(from + 1) * places_ + static_cast<std::size_t>(to + 1);
  }
  std::size_t places_;
  std::vector<std::int64_t> load_, transfers_;
};

/// A bound for parts without edges that lead backward, on devices that all pay for transfers; at most
/// `below`. Each boundary lies somewhere on a chain of units; between any two places a part pays for what it
/// must have and for a minimum cut around that, and all parts together for all time and all those cuts.
/// O(places^2) flows and what they need, at most about `most_steps`.
template <std::unsigned_integral Index>
std::int64_t backbone_bound(unit_edges<Index> const& e, unit_costs<Index> const& c,
                            std::span<Index const> order, std::int64_t below,
                            backbone_options const& o = {}) {
  auto const& weight = c.weight[c.fastest];
  auto const b = backbone_of(e, weight, order, o.places);
  std::vector<std::vector<Index>> from_place(static_cast<std::size_t>(b.size) + 2);  // by `in_from`
  for (Index const u : order) from_place[static_cast<std::size_t>(b.in_from[u])].push_back(u);

  backbone_table table(b.size);
  backbone_cuts<Index> cuts(c, weight, b);
  std::size_t steps = 0;
  std::vector<Index> core;
  for (std::int32_t from = -1; from <= b.size; ++from) {
    core.clear();
    std::int64_t time = 0;
    for (std::int32_t to = from + 1; to <= b.size + 1; ++to) {
      for (Index const u : from_place[static_cast<std::size_t>(to)])
        if (b.has(u, from, to)) core.push_back(u), time += weight[u];
      steps += core.size();
      if (time >= below) {
        for (auto rest = to; rest <= b.size + 1; ++rest) table.put(from, rest, unreachable_load, 0);
        break;
      }
      if (steps > o.most_steps) {
        table.put(from, to, time, 0);
        continue;
      }
      auto const cost = cuts.between(from, to, core);
      steps += cost.steps;
      table.put(from, to, cost.load, cost.transfers);
    }
  }

  auto const parts = c.speed_of.size();
  std::optional<std::int64_t> all;
  if (c.weight.size() == 1) all = std::accumulate(weight.begin(), weight.end(), std::int64_t{});
  std::int64_t low = 0;
  for (auto high = below; low < high;) {
    auto const middle = low + (high - low) / 2;
    table.allows(middle, parts, all) ? high = middle : low = middle + 1;
  }
  return low;
}

}  // namespace cleave
