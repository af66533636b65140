// SPDX-License-Identifier: MIT
#pragma once
#include <mpi.h>

#include <cstddef>

#include "busy_stages.hpp"
#include "cleave/mpi/detail/check.hpp"
#include "measure.hpp"

namespace bench {

/// Returns the seconds of a call of `f` on the slowest rank: the spread of `runs` calls.
template <class F>
spread slowest_rank_seconds(std::size_t runs, F f) {
  return repeat(runs, [&] {
    cleave::detail::check_mpi(MPI_Barrier(MPI_COMM_WORLD));
    auto const begin = wall_seconds();
    f();
    double took = wall_seconds() - begin;
    cleave::detail::check_mpi(MPI_Allreduce(MPI_IN_PLACE, &took, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
    return took;
  });
}

}  // namespace bench
