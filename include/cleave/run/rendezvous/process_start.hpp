// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/run/rendezvous/network_address.hpp"
#include "cleave/run/rendezvous/protocol.hpp"
#include "cleave/run/rendezvous/tcp_rendezvous.hpp"

namespace cleave::inline v0_2::detail {

/// Returns the first host of a Slurm node list: `node01` of `node[01-04,07],login`. Returns nothing if that
/// is not a host name. O(size).
inline std::optional<std::string> find_first_node(std::string_view list) {
  std::string name;
  for (std::size_t at = 0; at < list.size() && list[at] != ',';) {
    if (list[at] != '[') {
      name += list[at++];
      continue;
    }
    auto const end = list.find(']', at);
    if (end == list.npos) return std::nullopt;
    auto const numbers = list.substr(at + 1, end - at - 1);
    auto const first = numbers.substr(0, numbers.find_first_of("-,"));
    bool const plain = std::ranges::all_of(first, [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    });
    if (first.empty() || !plain) return std::nullopt;
    name += first;
    at = end + 1;
  }
  auto const found = find_address(name);
  if (!found || found->port != 0) return std::nullopt;
  return found->host;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// The identity of this process among the ranks started together, and the address of the rendezvous.
struct process_start {
  rank_id rank{0};
  std::uint32_t size = 1;
  std::uint32_t local_rank = 0;  ///< rank among the processes of the same host
  network_address meeting = {};  ///< address at which the other ranks reach rank 0
  std::string key = {};          ///< key of the rendezvous

  bool operator==(process_start const&) const = default;
};

/// An environment: `e(name)` returns the value of a variable, or null if it is not set.
template <class E>
concept environment = requires(E const& e, char const* name) {
  { e(name) } -> std::convertible_to<char const*>;
};

/// The environment of this process.
struct own_environment {
  char const* operator()(char const* name) const { return std::getenv(name); }
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The reason why an environment does not identify this process.
struct start_fault {
  static constexpr char subject[] = "start of ranks: ";
  std::string variable;  ///< empty: no variable gives the rank
  std::string message;

  bool operator==(start_fault const&) const = default;
};

inline std::string describe(start_fault const& f) { return f.message; }

/// Thrown if the environment does not identify this process. Carries the variable and the problem.
using start_error = fault_error<start_fault>;

/// The environment variables that a launcher sets.
struct process_launcher {
  char const *name, *rank, *size, *local_rank, *local_size;
};

/// Tried in this order: variables of a launcher started by another one take precedence.
inline constexpr std::array<process_launcher, 4> process_launchers = {
    process_launcher{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    process_launcher{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    process_launcher{"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    process_launcher{"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr}};

/// Returns a default port from 20000 to 31999, derived from the key so that concurrent runs rarely collide.
constexpr std::uint16_t port_of_key(std::string_view key) {
  std::uint32_t mixed = 2166136261u;
  for (char const c : key) mixed = (mixed ^ static_cast<unsigned char>(c)) * 16777619u;
  return static_cast<std::uint16_t>(20000 + mixed % 12000);
}

/// Reads a `process_start` from the environment, up to the first fault.
template <environment E>
class start_reader {
 public:
  explicit start_reader(E const& e) : variables_(e) {
    auto const* const by = find_launcher();
    if (by)
      read_all(*by);
    else
      fail("", launchers_text());
  }

  process_start made;
  std::optional<start_fault> fault;

 private:
  static std::string launchers_text() {
    std::string all;
    for (auto const& l : process_launchers)
      all += (all.empty() ? "" : ", ") + std::string(l.rank) + " (" + l.name + ")";
    return "cannot determine the rank of this process: none of " + all +
           " is set; start the program with one of these launchers, or pass a process_start";
  }

  process_launcher const* find_launcher() const {
    for (auto const& l : process_launchers)
      if (variables_(l.rank)) return &l;
    return nullptr;
  }

  void read_all(process_launcher const& by) {
    read_place(by);
    if (!fault) read_key();
    if (!fault) read_meeting(by);
  }

  void fail(std::string variable, std::string message) {
    if (!fault) fault = {std::move(variable), std::move(message)};
  }

  std::uint32_t number(process_launcher const& by, char const* name) {
    char const* const text = variables_(name);
    if (!text) {
      fail(name, std::string(name) + " is not set, although " + by.name + " sets it with " + by.rank);
      return 0;
    }
    std::string_view const all(text);
    std::uint64_t n = 0;
    bool known = !all.empty() && all.size() <= 10;
    for (char const c : all) {
      known = known && c >= '0' && c <= '9';
      if (known) n = n * 10 + static_cast<std::uint64_t>(c - '0');
    }
    if (!known || n > 0xffffffff)
      fail(name, std::string(name) + " is " + quoted(all) + ", which is not a valid number");
    return static_cast<std::uint32_t>(n);
  }

  void read_place(process_launcher const& by) {
    made.rank = rank_id{number(by, by.rank)};
    made.size = number(by, by.size);
    made.local_rank = number(by, by.local_rank);
    if (!fault && index(made.rank) >= made.size)
      fail(by.rank, std::string(by.rank) + " is " + std::to_string(index(made.rank)) + ", but " + by.size +
                        " is " + std::to_string(made.size) + "; ranks are numbered from 0");
  }

  void read_key() {
    char const* const key = variables_("CLEAVE_KEY");
    if (!key)
      return fail("CLEAVE_KEY",
                  "CLEAVE_KEY is not set; set it to the same secret on all ranks of a run, for example "
                  "CLEAVE_KEY=$(openssl rand -hex 16)");
    made.key = key;
    if (auto const wrong = find_key_fault(made.key)) fail("CLEAVE_KEY", "CLEAVE_KEY: " + *wrong);
  }

  void read_meeting(process_launcher const& by) {
    made.meeting.port = port_of_key(made.key);
    if (char const* const text = variables_("CLEAVE_PORT")) {
      if (auto const port = find_port(text))
        made.meeting.port = *port;
      else
        return fail("CLEAVE_PORT", "CLEAVE_PORT is " + quoted(text) + "; expected a port from 1 to 65535");
    }
    if (by.local_size && variables_(by.local_size) && number(by, by.local_size) == made.size) return;
    for (char const* const name : {"CLEAVE_HOST", "MASTER_ADDR"})
      if (char const* const text = variables_(name)) return read_host(name, text);
    for (char const* const name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"})
      if (char const* const text = variables_(name)) return read_nodes(name, text);
    if (made.size > 1)
      fail("CLEAVE_HOST",
           "neither CLEAVE_HOST nor MASTER_ADDR is set; set CLEAVE_HOST to the name or address by which "
           "other ranks reach the host of rank 0");
  }

  void read_host(char const* name, std::string_view text) {
    // IPv6 address without brackets
    bool const bare = text.find(':') != text.rfind(':') && !text.starts_with('[');
    auto const found = find_address(bare ? "[" + std::string(text) + "]" : std::string(text));
    if (!found || found->port != 0)
      return fail(name,
                  std::string(name) + " is " + quoted(text) + ", which is not a host name or IP address");
    made.meeting.host = found->host;
  }
  void read_nodes(char const* name, std::string_view text) {
    if (auto node = find_first_node(text))
      made.meeting.host = *std::move(node);
    else
      fail(name, std::string(name) + " is " + quoted(text) + ", which does not begin with a host name");
  }

  E const& variables_;
};

/// Returns the first reason why the variables do not identify this process, or nothing.
template <environment E>
std::optional<start_fault> find_start_fault(E const& variables) {
  return start_reader(variables).fault;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the rank, size and address that torchrun, Open MPI, MPICH or Slurm set in the environment.
/// CLEAVE_KEY must be the same secret on all ranks. CLEAVE_HOST and CLEAVE_PORT set the address of rank 0 if
/// the launcher does not, or override it.
/// \throws start_error if a variable is missing or invalid
template <environment E = own_environment>
process_start read_process_start(E const& variables = {}) {
  detail::start_reader read(variables);
  if (read.fault) throw detail::start_error(*std::move(read.fault));
  return std::move(read.made);
}

/// Makes the rendezvous of the processes that were started together. Blocks until all have joined, at most
/// for `o.join_within`. `o.key` is replaced by that of `s`.
/// \throws error if rank 0 cannot listen; run_error if a rank is missing
inline tcp_rendezvous join_rendezvous(process_start const& s, tcp_rendezvous_options o = {}) {
  o.key = s.key;
  if (s.rank != rank_id{0}) return tcp_rendezvous(s.rank, s.size, s.meeting, o);
  bool const alone =
      s.meeting.host.starts_with("127.") || s.meeting.host == "::1" || s.meeting.host == "localhost";
  return tcp_rendezvous(alone ? tcp_listener(s.meeting) : detail::listen_everywhere(s.meeting.port), s.size,
                        o);
}

}  // namespace cleave
