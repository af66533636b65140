// SPDX-License-Identifier: MIT
#pragma once
#include <torch/extension.h>

#include <cleave/cleave.hpp>
#include <cstddef>
#include <cstdint>
#include <vector>

/// A chain of nodes, each of which reads the one before it.
struct chain {
  std::vector<double> weights;

  auto nodes() const {
    return cleave::counted(weights.size(), [](std::size_t i) { return i; });
  }
  std::vector<std::size_t> operands(std::size_t n) const {
    return n == 0 ? std::vector<std::size_t>() : std::vector<std::size_t>{n - 1};
  }
  double weight(std::size_t n) const { return weights[n]; }
  std::size_t bytes(std::size_t) const { return 0; }
};

inline std::vector<double> read_weights(torch::Tensor const& weights) {
  auto const given = weights.to(torch::kFloat64).contiguous();
  return {given.data_ptr<double>(), given.data_ptr<double>() + given.numel()};
}
