// SPDX-License-Identifier: MIT
#pragma once
#include <onnx/onnx_pb.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "cleave/adapt/onnx/cost.hpp"
#include "cleave/adapt/onnx/graph.hpp"
#include "cleave/adapt/onnx/stages.hpp"
#include "cleave/adapt/onnx/types.hpp"
#include "cleave/partition/slices/balance.hpp"
#include "cleave/split/split.hpp"

namespace cleave::inline v0_2::onnx {

/// Options of `onnx::split`.
struct split_options {
  onnx::type_options types{};
  onnx::rates rates{};
  balance_options balance{};  ///< in seconds; `cost_per_byte` is derived from `rates`
};

/// The result of `onnx::split`: types, costs, graph, cut and stages. Refers to the model, which must outlive
/// it.
struct split_result {
  onnx::types types;
  onnx::costs costs;
  std::unique_ptr<onnx::graph const> graph;  ///< on the heap, because `stages` refers to it
  balanced_partition parts;                  ///< loads and bound in seconds
  onnx::staged stages;
};

/// Cuts a model into min(k, nodes) stages, balanced by the cost of nodes and the size of values. Use
/// `onnx::write_stages` or `onnx::stages` to get models of the stages. Precondition: `onnx::check` accepts
/// the model.
///
/// Nodes that depend on weights alone are copied into the stages that read them, and count as no work
/// (`onnx::graph`). No value of unknown type is sent.
/// \throws onnx::error if an option contradicts the model, a value's size does not fit, or values of unknown
///   type allow fewer than k stages (without this error if `balance.together` is given, which may be why)
/// \throws error as `balance`, for instance if k is 0
/// \throws infeasible_error if a memory limit cannot be met
inline onnx::split_result split(::onnx::ModelProto const& model, std::uint32_t k,
                                onnx::split_options const& options = {}) {
  onnx::types types(model, options.types);
  auto costs = costs_of(types);
  onnx::graph priced(model);
  price(priced, types, costs, options.rates);
  auto graph = std::make_unique<onnx::graph const>(std::move(priced));

  auto s = snapshot_of(*graph);
  auto balanced = options.balance;
  balanced.cost_per_byte = 1 / options.rates.link;
  auto parts = balance(s, k, balanced);
  if (auto const fault = find_untyped_limit(*graph, parts.parts, k); fault && balanced.together.empty())
    throw error(*fault);
  auto cut = make_plan(s, parts);
  onnx::staged stages(*graph, std::move(s), std::move(cut));
  return {std::move(types), std::move(costs), std::move(graph), std::move(parts), std::move(stages)};
}
}  // namespace cleave::onnx
