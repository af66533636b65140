// SPDX-License-Identifier: MIT
#pragma once
#include <stdlib.h>
#include <sys/wait.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>

namespace cleave::testing {

/// The output of ranks started together, on both streams, and the launcher's exit status.
struct launch_report {
  int exit = -1;
  std::string said;
  double seconds = 0;

  std::size_t count(std::string const& text) const {
    std::size_t n = 0;
    for (auto at = said.find(text); at != said.npos; at = said.find(text, at + text.size())) ++n;
    return n;
  }
};

inline constexpr bool is_openmpi = CLEAVE_MPI_IS_OPENMPI != 0;

/// Allows more ranks than processors, root as the user, and other programs on the same processors.
inline void allow_ranks_anywhere() {
  for (auto const* name :
       {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_rmaps_base_oversubscribe"})
    ::setenv(name, "1", 0);
  ::setenv("OMPI_MCA_hwloc_base_binding_policy", "none", 0);
  ::setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);  // forbidden in containers
  ::setenv("ASAN_OPTIONS", "detect_leaks=0", 0);                    // MPI never frees some of its memory
}

/// Starts `ranks` ranks of a program with arguments; `options` go to the launcher. They are killed after a
/// minute.
inline launch_report launch_program(std::uint32_t ranks, std::string const& program,
                                    std::string const& options = {}) {
  allow_ranks_anywhere();
  auto const command = "timeout -k 5 60 " CLEAVE_MPIEXEC " " + options + " -n " + std::to_string(ranks) +
                       " " + program + " 2>&1";
  auto const begin = std::chrono::steady_clock::now();
  std::FILE* const all = ::popen(command.c_str(), "r");
  if (all == nullptr) throw std::runtime_error("cannot run " + command);
  launch_report report;
  char block[4096];
  for (std::size_t got = 0; (got = std::fread(block, 1, sizeof block, all)) > 0;)
    report.said.append(block, got);
  int const status = ::pclose(all);
  if (WIFEXITED(status)) report.exit = WEXITSTATUS(status);
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

/// Starts ranks of the test program.
inline launch_report launch_ranks(std::uint32_t ranks, std::string const& arguments,
                                  std::string const& options = {}) {
  return launch_program(ranks, CLEAVE_RANKS " " + arguments, options);
}

}  // namespace cleave::testing
