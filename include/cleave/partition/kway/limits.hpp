// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "cleave/partition/kway/flat_graph.hpp"
#include "cleave/partition/kway/options.hpp"

namespace cleave::detail {

/// The share of the total that each part should weigh: rounded up, where weights are integers.
template <class Total>
std::vector<Total> fair_weights(Total total, std::uint32_t parts, kway_options const& o) {
  double shares = 0;
  for (std::uint32_t part = 0; part < parts; ++part) shares += o.share.same() ? 1 : o.share[part];
  std::vector<Total> fair(parts);
  for (std::uint32_t part = 0; part < parts; ++part) {
    if constexpr (std::floating_point<Total>) {
      fair[part] = total * ((o.share.same() ? 1 : o.share[part]) / shares);
    } else if (o.share.same()) {
      fair[part] = total / parts + (total % parts != 0);
    } else {
      auto const exact = static_cast<double>(total) * (o.share[part] / shares);
      fair[part] = exact < static_cast<double>(total) ? static_cast<Total>(exact) : total;
      if (static_cast<double>(fair[part]) < exact && fair[part] < total) ++fair[part];
    }
  }
  return fair;
}

/// What each part may weigh: (1 + imbalance) * its fair weight, rounded down; more only where a node or what
/// is fixed to it leaves no choice.
inline std::vector<std::int64_t> weight_limits(flat_graph const& g, std::vector<std::int64_t> const& fair,
                                               kway_options const& o) {
  auto const parts = fair.size();
  std::vector<std::int64_t> limit(parts), bound(parts, 0);
  std::int64_t heaviest = 0;
  bool const alike = !g.weighted && o.fixed.empty();
  if (alike) heaviest = 1;
  for (std::uint32_t n = 0; n < g.nodes && !alike; ++n) {
    auto const w = g.weighted ? g.node_weight[n] : 1;
    if (!o.fixed.empty() && o.fixed[n] != no_part)
      bound[index(o.fixed[n])] += w;
    else
      heaviest = (std::max)(heaviest, w);
  }
  for (std::size_t part = 0; part < parts; ++part) {
    auto const slack = o.imbalance[part] * static_cast<double>(fair[part]);
    auto const room = (std::numeric_limits<std::int64_t>::max)() / 2 - fair[part];
    limit[part] = fair[part] + (slack < static_cast<double>(room) ? static_cast<std::int64_t>(slack) : room);
    limit[part] = (std::min)((std::max)(limit[part], bound[part]), g.node_total);
  }
  if (std::none_of(limit.begin(), limit.end(), [&](std::int64_t l) { return l >= heaviest; }))
    for (std::size_t part = 0; part < parts; ++part)
      if (fair[part] > 0 || heaviest == 0) limit[part] = (std::max)(limit[part], heaviest);
  return limit;
}

}  // namespace cleave::detail
