// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>

#include "cleave/cuda/detail/fp8_lane.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/tensor_view.hpp"

/// The library's kernels as launch functions; null where a kernel is missing.
namespace cleave::testing {

/// The kernels of 8-bit floats.
enum class fp8_way { pack, unpack };

using sum_target = decltype(accumulate_options::target);

void const* accumulate_stub(element_type from, element_type to, sum_target how);
void const* reduce_stub(element_type type, reduce_op op, std::size_t room);
void const* squares_stub(element_type type);
void const* partials_stub();
void const* update_stub();
void const* fp8_largest_stub(element_type type);
void const* fp8_stub(element_type type, cuda::fp8_format format, fp8_way way);

}  // namespace cleave::testing
