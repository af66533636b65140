// SPDX-License-Identifier: MIT
#pragma once
#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/mpi/detail/check.hpp"
#include "cleave/schedule/model/simulate_options.hpp"

namespace cleave::inline v0_2::mpi {

/// Options of `mpi::measure_links`.
struct link_measurement {
  std::uint32_t rounds = 21;                 ///< round trips of each size, of which the median counts
  std::size_t bytes = std::size_t{4} << 20;  ///< of a long message, at most 1 GiB
};

}  // namespace cleave::mpi

namespace cleave::inline v0_2::detail {

/// Returns the median time of a message of `bytes` bytes to rank `peer` and back, in seconds. Both ranks call
/// it; the one with the lower number begins.
inline double median_round_trip(MPI_Comm of, int here, int peer, std::vector<char>& bytes, std::size_t count,
                                std::uint32_t rounds) {
  std::vector<double> times;
  auto const size = static_cast<int>(count);
  for (std::uint32_t i = 0; i <= rounds; ++i) {
    auto const begin = MPI_Wtime();
    if (here < peer) check_mpi(MPI_Send(bytes.data(), size, MPI_BYTE, peer, 0, of));
    check_mpi(MPI_Recv(bytes.data(), size, MPI_BYTE, peer, 0, of, MPI_STATUS_IGNORE));
    if (here > peer) check_mpi(MPI_Send(bytes.data(), size, MPI_BYTE, peer, 0, of));
    if (i > 0) times.push_back(MPI_Wtime() - begin);  // the first one opens the connection
  }
  std::ranges::sort(times);
  return times[times.size() / 2];
}

}  // namespace cleave::detail

namespace cleave::inline v0_2::mpi {

/// Measures the links between all ranks of `of` by short and long messages there and back, one pair of ranks
/// at a time. Returns one per pair, that from r to q at index r · ranks + q, in seconds and bytes per second;
/// the same on all ranks. Both directions of a pair get the same figures. Collective; takes some milliseconds
/// for each pair.
/// \throws error if an option is out of range; mpi_error
inline std::vector<rank_link> measure_links(MPI_Comm of, link_measurement const& o = {}) {
  if (o.rounds == 0 || o.rounds > 100'000 || o.bytes == 0 || o.bytes > std::size_t{1} << 30)
    throw error("measure_links: rounds must be from 1 to 100000, and bytes from 1 to 1073741824; found " +
                std::to_string(o.rounds) + " and " + std::to_string(o.bytes));
  int here = 0, ranks = 0;
  detail::check_mpi(MPI_Comm_rank(of, &here));
  detail::check_mpi(MPI_Comm_size(of, &ranks));
  auto const pair = [&](int a, int b) { return static_cast<std::size_t>(a * ranks + b); };
  std::vector<double> latency(pair(ranks, 0)), bandwidth(latency.size());
  std::vector<char> bytes(o.bytes);
  for (int a = 0; a < ranks; ++a)
    for (int b = a + 1; b < ranks; ++b) {
      detail::check_mpi(MPI_Barrier(of));
      if (here != a && here != b) continue;
      auto const peer = here == a ? b : a;
      auto const late = detail::median_round_trip(of, here, peer, bytes, 1, o.rounds) / 2;
      auto const whole = detail::median_round_trip(of, here, peer, bytes, o.bytes, o.rounds) / 2;
      if (here != a) continue;  // which measured from its own beginning
      auto const moving = (std::max)(whole - late, 1e-12);
      for (auto const i : {pair(a, b), pair(b, a)}) {
        latency[i] = late;
        bandwidth[i] = static_cast<double>(o.bytes) / moving;
      }
    }
  auto const count = static_cast<int>(latency.size());
  detail::check_mpi(MPI_Allreduce(MPI_IN_PLACE, latency.data(), count, MPI_DOUBLE, MPI_MAX, of));
  detail::check_mpi(MPI_Allreduce(MPI_IN_PLACE, bandwidth.data(), count, MPI_DOUBLE, MPI_MAX, of));
  std::vector<rank_link> links(latency.size());
  for (std::size_t i = 0; i < links.size(); ++i)
    if (bandwidth[i] > 0) links[i] = {latency[i], bandwidth[i]};
  return links;
}

}  // namespace cleave::mpi
