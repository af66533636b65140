// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cleave/graph/csr.hpp"
#include "cleave/partition/units/unit_costs.hpp"

namespace cleave::detail {

/// What slices of an order pay for transfers, as a sum over pairs of positions.
///
/// A value of cost c that the units at positions q1 < … < qr touch costs a slice c where the slice holds some
/// of them, not all. It holds one group of neighbours among them, so c (units inside - neighbours both inside
/// - [q1 and qr inside]) is that cost: c at each position, -c for each pair of neighbours and -c for the
/// ends. Pairs are listed by their later position.
template <std::unsigned_integral Index>
struct transfer_pairs {
  std::vector<std::int64_t> alone;  ///< of a position: what it pays as a slice of its own
  std::vector<Index> first{0};      ///< where the pairs of a later position begin, and one more
  std::vector<Index> earlier;       ///< of a pair
  std::vector<std::int64_t> saved;  ///< of a pair: what a slice pays less that has both

  std::size_t size() const { return alone.size(); }

  /// Calls `f(position, cost)` for what position `j` adds to slices that begin at or before `position` and
  /// end behind `j`: first its own cost, then what its pairs save.
  template <class F>
  void each_change(std::size_t j, F f) const {
    f(static_cast<Index>(j), alone[j]);
    for (std::size_t i = first[j]; i < first[j + 1]; ++i) f(earlier[i], -saved[i]);
  }
};

/// Of an order of units that touch values, for parts that pay `price` for each value: `touching` lists the
/// units of a value, `touched` the values of a unit. O(units + touches).
template <std::unsigned_integral Index>
transfer_pairs<Index> pairs_of(csr<Index> const& touching, csr<Index> const& touched,
                               std::span<Index const> order, std::span<std::int64_t const> price) {
  struct progress {
    Index count = 0, first = 0, last = 0;
  };
  transfer_pairs<Index> pairs;
  pairs.alone.resize(order.size());
  std::vector<progress> met(price.size());
  auto const pair = [&](Index earlier, std::int64_t saved) {
    pairs.earlier.push_back(earlier);
    pairs.saved.push_back(saved);
  };
  for (std::size_t j = 0; j < order.size(); ++j) {
    for (Index const v : touched[order[j]]) {
      auto& m = met[v];
      pairs.alone[j] += price[v];
      bool const all = ++m.count == touching[v].size();
      if (m.count == 1)
        m.first = static_cast<Index>(j);
      else if (all && m.count == 2)
        pair(m.first, 2 * price[v]);
      else
        pair(m.last, price[v]);
      if (all && m.count > 2) pair(m.first, price[v]);
      m.last = static_cast<Index>(j);
    }
    pairs.first.push_back(narrow<Index>(pairs.earlier.size()));
  }
  return pairs;
}

template <std::unsigned_integral Index>
transfer_pairs<Index> pairs_of(unit_costs<Index> const& c, std::span<Index const> order) {
  return pairs_of<Index>(c.touching, c.touched, order, c.transfer);
}

}  // namespace cleave::detail
