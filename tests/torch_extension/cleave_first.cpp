// SPDX-License-Identifier: MIT
// The other file of the extension, with the headers in the other order.
#include <cleave/cleave.hpp>
#include <cleave/schedule.hpp>

#include <torch/extension.h>

#include "weights.hpp"

/// Returns the load of the heaviest part of a chain.
double largest_load(torch::Tensor const& weights, std::int64_t k) {
  auto const loads = cleave::balance(chain{read_weights(weights)}, static_cast<std::size_t>(k)).loads;
  return *std::ranges::max_element(loads);
}
