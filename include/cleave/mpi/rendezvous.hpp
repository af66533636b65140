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
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/mpi/detail/check.hpp"
#include "cleave/run/rendezvous/network_address.hpp"
#include "cleave/run/rendezvous/tcp_rendezvous.hpp"

namespace cleave::inline v0_2::mpi {

/// Options of the rendezvous of MPI ranks.
struct rendezvous_options {
  /// Host name or IP address at which other ranks reach the host of rank 0. Empty: all addresses of its
  /// interfaces and the processor name from MPI are tried, or localhost if all ranks are on one host.
  std::string host = {};
  /// Time limit for all ranks to join.
  std::chrono::milliseconds join_within{30'000};
};

}  // namespace cleave::mpi

namespace cleave::inline v0_2::detail {

/// The addresses of rank 0, as broadcast to all ranks.
struct mpi_rendezvous_invitation {
  static constexpr std::size_t longest = 255, most_hosts = 9;
  using text = std::array<char, longest + 1>;
  std::array<text, most_hosts> hosts = {};
  text key = {}, refusal = {};
  std::uint16_t port = 0;

  static void set(text& to, std::string_view from) { std::ranges::copy(from.substr(0, longest), to.begin()); }
  std::vector<network_address> addresses() const {
    std::vector<network_address> all;
    for (auto const& h : hosts)
      if (h[0] != '\0') all.push_back({h.data(), port});
    return all;
  }
};

/// Returns the hosts under which rank 0 is reached: the one that the user named, or the numeric addresses of
/// its interfaces and then its name. `together`: all ranks are on one host.
inline std::vector<std::string> hosts_of_rank_0(std::string const& named, bool together) {
  if (!named.empty()) return {named};
  if (together) return {"127.0.0.1"};
  auto all = interface_addresses(mpi_rendezvous_invitation::most_hosts - 1);
  std::array<char, MPI_MAX_PROCESSOR_NAME> name = {};
  int length = 0;
  check_mpi(MPI_Get_processor_name(name.data(), &length));
  all.emplace_back(name.data());
  return all;
}

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
      auto const hosts = hosts_of_rank_0(o.host, together);
      listener.emplace(together && o.host.empty() ? tcp_listener({hosts.front(), 0}) : listen_everywhere(0));
      sent.port = listener->address().port;
      for (std::size_t i = 0; i < hosts.size(); ++i) mpi_rendezvous_invitation::set(sent.hosts[i], hosts[i]);
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
  return tcp_rendezvous(rank_id{static_cast<std::uint32_t>(rank)}, count, sent.addresses(), options);
}

}  // namespace cleave::detail
