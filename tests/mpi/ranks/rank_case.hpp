// SPDX-License-Identifier: MIT
#pragma once
#include <cstdio>
#include <span>
#include <stdexcept>
#include <string>

#include "cleave/mpi/environment.hpp"

/// The program that the MPI tests start as several ranks: a named case with arguments.
namespace cleave::testing {

using rank_arguments = std::span<std::string const>;

/// Fails this rank unless `ok`.
inline void must(bool ok, std::string const& what) {
  if (!ok) throw std::runtime_error(what);
}

/// Prints a line that output of other ranks does not split.
inline void say(std::string const& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

int exchange_messages(cleave::mpi::environment& mpi, rank_arguments);
int reduce_everywhere(cleave::mpi::environment& mpi, rank_arguments);
int disagree(cleave::mpi::environment& mpi, rank_arguments);
int give_up(cleave::mpi::environment& mpi, rank_arguments);
int end_badly(cleave::mpi::environment& mpi, rank_arguments);
int need_threads(cleave::mpi::environment& mpi, rank_arguments);
int run_pipelines(cleave::mpi::environment& mpi, rank_arguments);
int train_copies(cleave::mpi::environment& mpi, rank_arguments);
int suffer(cleave::mpi::environment& mpi, rank_arguments);
int differ(cleave::mpi::environment& mpi, rank_arguments);
int run_endlessly(cleave::mpi::environment& mpi, rank_arguments);
int save_until_killed(cleave::mpi::environment& mpi, rank_arguments);
int save_next(cleave::mpi::environment& mpi, rank_arguments);

}  // namespace cleave::testing
