// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <string>

#include "cleave/formats/units.hpp"
#include "cleave/partition/slices/balance.hpp"

namespace cleave::inline v0_2 {

/// Returns a sentence such as `61.3 % of nodes and 58.0 % of values have no price`; empty if all have one.
inline std::string unpriced_text(unpriced const& u) {
  auto const share = [](double x) { return x < 0.0005 ? "less than 0.1\u00a0%" : percent_text(x); };
  if (!u.any()) return "";
  auto const nodes = share(u.node_share()) + " of nodes", values = share(u.value_share()) + " of values";
  return (u.values == 0 ? nodes : u.nodes == 0 ? values : nodes + " and " + values) + " have no price";
}
}  // namespace cleave
