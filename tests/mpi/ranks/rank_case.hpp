// SPDX-License-Identifier: MIT
#pragma once
#include <cstdio>
#include <span>
#include <stdexcept>
#include <string>

#include "cleave/mpi/environment.hpp"

/// The program that the tests of MPI start as several ranks: one case by name, with arguments.
namespace cleave::testing {

using rank_arguments = std::span<std::string const>;

/// Fails this rank.
inline void must(bool ok, std::string const& what) {
  if (!ok) throw std::runtime_error(what);
}

/// A line of its own, whoever else writes.
inline void say(std::string const& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

int exchange_messages(mpi_environment& mpi, rank_arguments);
int reduce_everywhere(mpi_environment& mpi, rank_arguments);
int disagree(mpi_environment& mpi, rank_arguments);
int give_up(mpi_environment& mpi, rank_arguments);
int end_badly(mpi_environment& mpi, rank_arguments);
int need_threads(mpi_environment& mpi, rank_arguments);
int run_pipelines(mpi_environment& mpi, rank_arguments);
int suffer(mpi_environment& mpi, rank_arguments);
int differ(mpi_environment& mpi, rank_arguments);
int save_until_killed(mpi_environment& mpi, rank_arguments);

}  // namespace cleave::testing
