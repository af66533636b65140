// SPDX-License-Identifier: MIT
// An extension of PyTorch that includes the headers of torch before those of cleave: the module `run.py`
// loads.
#include <torch/extension.h>

#include <cleave/cleave.hpp>

#include "weights.hpp"

/// Returns the part of each node of a chain, as a tensor.
torch::Tensor parts_of_chain(torch::Tensor const& weights, std::int64_t k) {
  auto const cut = cleave::balance(chain{read_weights(weights)}, static_cast<std::size_t>(k));
  auto parts = torch::empty({static_cast<std::int64_t>(cut.of.size())}, torch::kInt64);
  for (std::size_t n = 0; n < cut.of.size(); ++n)
    parts[static_cast<std::int64_t>(n)] = static_cast<std::int64_t>(cut.of[n]);
  return parts;
}

double largest_load(torch::Tensor const& weights, std::int64_t k);  // cleave_first.cpp

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  module.def("parts_of_chain", &parts_of_chain);
  module.def("largest_load", &largest_load);
}
