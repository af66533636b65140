// SPDX-License-Identifier: MIT
#pragma once
#include <mpi.h>

#include <cstddef>

#include "cleave/mpi/check.hpp"

namespace cleave::detail {

/// So many bytes as MPI counts them, which is in `int`: what is longer than `longest` is one element of a
/// type made for it. Both ends may count differently.
class mpi_extent {
 public:
  /// Precondition: 0 < `longest` < 2^31. \throws mpi_error
  mpi_extent(std::size_t bytes, std::size_t longest) : count_(static_cast<int>(bytes)) {
    if (bytes > longest) make_type(bytes, longest);
  }
  mpi_extent(mpi_extent const&) = delete;
  mpi_extent& operator=(mpi_extent const&) = delete;
  /// Messages on their way keep the type.
  ~mpi_extent() {
    if (type_ != MPI_BYTE) MPI_Type_free(&type_);
  }

  int count() const { return count_; }
  MPI_Datatype type() const { return type_; }

 private:
  void make_type(std::size_t bytes, std::size_t longest) {
    MPI_Datatype pieces[2] = {MPI_BYTE, MPI_BYTE}, piece = MPI_BYTE, all = MPI_BYTE;
    check_mpi(MPI_Type_contiguous(static_cast<int>(longest), MPI_BYTE, &piece));
    int counts[2] = {static_cast<int>(bytes / longest), static_cast<int>(bytes % longest)};
    MPI_Aint const places[2] = {0, static_cast<MPI_Aint>(bytes - bytes % longest)};
    pieces[0] = piece;
    check_mpi(MPI_Type_create_struct(2, counts, places, pieces, &all));
    check_mpi(MPI_Type_free(&piece));
    check_mpi(MPI_Type_commit(&all));
    type_ = all;
    count_ = 1;
  }

  int count_;
  MPI_Datatype type_ = MPI_BYTE;
};

}  // namespace cleave::detail
