// SPDX-License-Identifier: MIT
#pragma once
#include <mpi.h>

#include <array>
#include <cstddef>

#include "cleave/mpi/check.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/sums/sum_in_order.hpp"

namespace cleave::detail {

/// What MPI calls elements of `t`. Those of 16 bits have no name there: they go as what has their size.
inline MPI_Datatype mpi_type_of(element_type t) {
  switch (t) {
    case element_type::f32:
      return MPI_FLOAT;
    case element_type::f64:
      return MPI_DOUBLE;
    case element_type::f16:
    case element_type::bf16:
      return MPI_UINT16_T;
    case element_type::i64:
      return MPI_INT64_T;
    case element_type::i32:
      return MPI_INT32_T;
    case element_type::i16:
      return MPI_INT16_T;
    case element_type::i8:
      return MPI_INT8_T;
    default:
      return MPI_UINT8_T;
  }
}

/// How MPI reduces elements: by itself, or, those that it does not know, by the library's own sums.
class mpi_operations {
 public:
  mpi_operations() = default;
  mpi_operations(mpi_operations const&) = delete;
  mpi_operations& operator=(mpi_operations const&) = delete;
  ~mpi_operations() {
    int ended = 0;
    if (MPI_Finalized(&ended) != MPI_SUCCESS || ended != 0) return;
    for (auto& o : own_)
      if (o != MPI_OP_NULL) MPI_Op_free(&o);
  }

  /// \throws mpi_error
  MPI_Op operator()(element_type t, reduce_op op) {
    bool const sum = op == reduce_op::sum;
    if (t == element_type::f16)
      return sum ? own<element_type::f16, reduce_op::sum>() : own<element_type::f16, reduce_op::max>();
    if (t == element_type::bf16)
      return sum ? own<element_type::bf16, reduce_op::sum>() : own<element_type::bf16, reduce_op::max>();
    return sum ? MPI_SUM : MPI_MAX;
  }

 private:
  template <element_type Type, reduce_op Operation>
  static void combine(void* in, void* to, int* count, MPI_Datatype*) {
    auto const n = static_cast<std::size_t>(*count);
    std::array<region, 2> const both = {region{to, n, Type}, region{in, n, Type}};
    sum_in_order(both, Operation);
  }

  template <element_type Type, reduce_op Operation>
  MPI_Op own() {
    auto& o = own_[(Type == element_type::f16 ? 0 : 2) + (Operation == reduce_op::sum ? 0 : 1)];
    if (o == MPI_OP_NULL) check_mpi(MPI_Op_create(&combine<Type, Operation>, 1, &o));
    return o;
  }

  std::array<MPI_Op, 4> own_ = {MPI_OP_NULL, MPI_OP_NULL, MPI_OP_NULL, MPI_OP_NULL};
};

}  // namespace cleave::detail
