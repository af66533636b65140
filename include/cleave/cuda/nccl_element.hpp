// SPDX-License-Identifier: MIT
#pragma once
#include <nccl.h>

#include <optional>

#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/tensor_view.hpp"

namespace cleave::detail {

/// What NCCL calls elements of `t` in a reduction; nothing where it has none such.
constexpr std::optional<ncclDataType_t> find_nccl_type(element_type t) {
  switch (t) {
    case element_type::f32:
      return ncclFloat32;
    case element_type::f64:
      return ncclFloat64;
    case element_type::f16:
      return ncclFloat16;
    case element_type::bf16:
      return ncclBfloat16;
    case element_type::i64:
      return ncclInt64;
    case element_type::i32:
      return ncclInt32;
    case element_type::i8:
      return ncclInt8;
    case element_type::u8:
      return ncclUint8;
    default:
      return std::nullopt;
  }
}

constexpr ncclRedOp_t nccl_operation_of(reduce_op op) { return op == reduce_op::sum ? ncclSum : ncclMax; }

}  // namespace cleave::detail
