// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "cleave/core/expects.hpp"
#include "costed_graph.hpp"
#include "instances/catalogue.hpp"

/// The directed graphs of the catalogue and two more, for the benches of partition algorithms.
namespace bench {

/// A chain of operations with small transfers.
inline cost_dag chain(std::uint32_t nodes) {
  operator_dag d(1);
  for (std::uint32_t i = 0; i < nodes; ++i) {
    auto const n = d.node(d.near(1, 0.5), 0);
    if (i > 0) d.edge(n - 1, n, .5 + d.unit());
  }
  return d.finish();
}

/// Precondition: the name of a directed graph of the catalogue, or unet_1M or chain_1M.
inline cost_dag operations_called(std::string_view name) {
  if (name == "unet_1M") return unet(6, 10'300, 1).finish();
  if (name == "chain_1M") return chain(1'000'000);
  auto made = find_instance(name);
  cleave::expects(made && std::holds_alternative<cost_dag>(*made), "the name of a directed graph");
  return std::get<cost_dag>(*std::move(made));
}

inline instance instance_called(std::string const& name) {
  return instance_of(name, operations_called(name));
}

}  // namespace bench
