// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstdint>
#include <numeric>

#include "cleave/partition/exact/device_states.hpp"
#include "cleave/partition/exact/exact_options.hpp"
#include "cleave/partition/exact/exact_task.hpp"
#include "cleave/partition/slices/lower_bound.hpp"

namespace cleave::detail {

/// A bound and what it rests on.
struct proved_bound {
  std::int64_t bound = 0;
  bound_proof by = bound_proof::even_share;

  void raise(std::int64_t other, bound_proof how) {
    if (other > bound) bound = other, by = how;
  }
};

/// The best of the bounds that hold for any assignment of units to devices, with cycles between parts or
/// without.
template <std::unsigned_integral Index>
proved_bound device_bound_of(exact_task<Index> const& t, device_states const& states, bool all_pay) {
  proved_bound b;
  if (all_pay) {
    b.raise(even_share(t.costs), bound_proof::even_share);
    b.raise(pigeonhole_share(t.costs), bound_proof::pigeonhole);
    b.raise(load_bound(t.costs), bound_proof::least_with);
    return b;
  }
  if (states.size() == 0) return b;
  auto const sum = std::accumulate(states.fastest.begin(), states.fastest.end(), std::int64_t{});
  double const rounding = 1 - 0x1p-30;  // more than what the division loses
  b.raise(static_cast<std::int64_t>(static_cast<double>(sum) / states.left.front().devices * rounding),
          bound_proof::even_share);
  unit_costs<Index> alike;
  alike.weight.push_back(states.fastest);
  std::uint32_t devices = 0;
  for (auto const& c : t.ideals.classes) devices += c.count;
  alike.speed_of.assign(devices, 0);
  b.raise(pigeonhole_share(alike), bound_proof::pigeonhole);
  return b;
}

}  // namespace cleave::detail
