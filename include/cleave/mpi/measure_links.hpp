// SPDX-License-Identifier: MIT
#pragma once
#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/mpi/detail/check.hpp"
#include "cleave/schedule/model/link_measurement.hpp"

namespace cleave::inline v0_2::mpi {

/// Measures the links between all ranks of `of` by short and long messages there and back, one pair of ranks
/// at a time. Returns one per pair, that from r to q at index r · ranks + q, in seconds and bytes per second;
/// the same on all ranks. Both directions of a pair get the same figures. Collective; takes some milliseconds
/// for each pair.
/// \throws error if an option is out of range; mpi_error
inline std::vector<rank_link> measure_links(MPI_Comm of, link_measurement const& o = {}) {
  detail::check_link_measurement(o);
  int here = 0, ranks = 0;
  detail::check_mpi(MPI_Comm_rank(of, &here));
  detail::check_mpi(MPI_Comm_size(of, &ranks));
  std::vector<char> bytes(o.bytes);
  auto const trips = [&](std::size_t to, std::size_t count) {
    auto const peer = static_cast<int>(to), size = static_cast<int>(count);
    std::vector<double> times;
    for (std::uint32_t i = 0; i <= o.rounds; ++i) {
      auto const begin = MPI_Wtime();
      if (here < peer) detail::check_mpi(MPI_Send(bytes.data(), size, MPI_BYTE, peer, 0, of));
      detail::check_mpi(MPI_Recv(bytes.data(), size, MPI_BYTE, peer, 0, of, MPI_STATUS_IGNORE));
      if (here > peer) detail::check_mpi(MPI_Send(bytes.data(), size, MPI_BYTE, peer, 0, of));
      if (i > 0) times.push_back(MPI_Wtime() - begin);  // the first one opens the connection
    }
    return times;
  };
  auto const largest = [&](std::vector<double>& figures) {
    detail::check_mpi(MPI_Allreduce(MPI_IN_PLACE, figures.data(), static_cast<int>(figures.size()),
                                    MPI_DOUBLE, MPI_MAX, of));
  };
  return detail::measure_pairs(
      static_cast<std::size_t>(here), static_cast<std::size_t>(ranks), o,
      [&] { detail::check_mpi(MPI_Barrier(of)); }, trips, largest);
}

}  // namespace cleave::mpi
