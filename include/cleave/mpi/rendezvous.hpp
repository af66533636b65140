// SPDX-License-Identifier: MIT
#pragma once
#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/mpi/detail/check.hpp"
#include "cleave/run/rendezvous/network_address.hpp"
#include "cleave/run/rendezvous/tcp_rendezvous.hpp"

namespace cleave::mpi {

/// Options of the rendezvous of MPI ranks.
struct rendezvous_options {
  /// Host name or IP address at which other ranks reach the host of rank 0. Empty: the processor name from
  /// MPI, or localhost if all ranks are on one host.
  std::string host = {};
  /// Time limit for all ranks to join.
  std::chrono::milliseconds join_within{30'000};
};

}  // namespace cleave::mpi

namespace cleave::detail {

/// The address of rank 0, as broadcast to all ranks.
struct mpi_rendezvous_invitation {
  static constexpr std::size_t longest = 255;
  std::array<char, longest + 1> host = {}, key = {}, refusal = {};
  std::uint16_t port = 0;

  static void set(std::array<char, longest + 1>& to, std::string_view text) {
    std::ranges::copy(text.substr(0, longest), to.begin());
  }
};

/// Returns true if all ranks of `ranks` are on one host. Collective.
/// \throws mpi_error
inline bool on_one_machine(MPI_Comm ranks) {
  MPI_Comm here = MPI_COMM_NULL;
  int all = 0, count = 0;
  check_mpi(MPI_Comm_split_type(ranks, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here));
  check_mpi(MPI_Comm_size(ranks, &all));
  check_mpi(MPI_Comm_size(here, &count));
  check_mpi(MPI_Comm_free(&here));
  int alike = count == all ? 1 : 0;  // the minimum gives the same answer on all ranks
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &alike, 1, MPI_INT, MPI_MIN, ranks));
  return alike == 1;
}

/// Makes the rendezvous of the ranks of `ranks`. Rank 0 listens and broadcasts its address and a random key
/// through MPI. Collective.
/// \throws mpi_error, error if rank 0 cannot listen, run_error if a rank does not join
inline tcp_rendezvous make_mpi_rendezvous(MPI_Comm ranks, mpi::rendezvous_options const& o = {}) {
  int rank = 0, size = 1;
  check_mpi(MPI_Comm_rank(ranks, &rank));
  check_mpi(MPI_Comm_size(ranks, &size));
  bool const together = on_one_machine(ranks);
  mpi_rendezvous_invitation sent;
  std::optional<tcp_listener> listener;
  if (rank == 0) {
    try {
      std::array<char, MPI_MAX_PROCESSOR_NAME> name = {};
      int length = 0;
      check_mpi(MPI_Get_processor_name(name.data(), &length));
      auto const reached = !o.host.empty() ? o.host : together ? "127.0.0.1" : std::string(name.data());
      listener.emplace(network_address{together && o.host.empty() ? reached : "0.0.0.0", 0});
      sent.port = listener->address().port;
      mpi_rendezvous_invitation::set(sent.host, reached);
      mpi_rendezvous_invitation::set(sent.key, random_rendezvous_key());
    } catch (error const& e) {
      mpi_rendezvous_invitation::set(sent.refusal, e.what());
    }
  }
  check_mpi(MPI_Bcast(&sent, static_cast<int>(sizeof sent), MPI_BYTE, 0, ranks));
  if (sent.refusal[0] != '\0')
    throw error(std::string("rank 0 cannot listen for the others: ") + sent.refusal.data());
  tcp_rendezvous_options options;
  options.key = sent.key.data();
  options.join_within = o.join_within;
  auto const count = static_cast<std::uint32_t>(size);
  if (rank == 0) return tcp_rendezvous(std::move(*listener), count, options);
  return tcp_rendezvous(rank_id{static_cast<std::uint32_t>(rank)}, count,
                        network_address{sent.host.data(), sent.port}, options);
}

}  // namespace cleave::detail
