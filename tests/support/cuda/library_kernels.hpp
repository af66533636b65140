// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>

#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/tensor_view.hpp"

/// The library's kernels as launch functions; null where a kernel is missing.
namespace cleave::testing {

using sum_target = decltype(accumulate_options::target);

void const* accumulate_stub(element_type from, element_type to, sum_target how);
void const* reduce_stub(element_type type, reduce_op op, std::size_t room);
void const* squares_stub(element_type type);
void const* partials_stub();

}  // namespace cleave::testing
