// SPDX-License-Identifier: MIT
#pragma once
#include <torch/torch.h>

#include <cleave/run.hpp>
#include <cstdint>
#include <span>

/// Tensors of libtorch on the GPU as views of cleave, and back, on the same memory.

inline torch::TensorOptions const on_gpu =
    torch::device(torch::Device(torch::kCUDA, 0)).dtype(torch::kFloat64);

inline torch::Tensor tensor_of(cleave::tensor_view const& v) {
  auto const extents = v.shape.list();
  return torch::from_blob(v.data, torch::IntArrayRef(extents.data(), extents.size()), on_gpu);
}
inline cleave::tensor_view view_of(torch::Tensor const& t) {
  return {t.data_ptr(), cleave::element_type::f64,
          std::span<std::int64_t const>(t.sizes().begin(), t.sizes().end())};
}
