// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/core/rank_grid.hpp"
#include "cleave/run/gradients/tied_gradients.hpp"
#include "cleave/run/model/recording.hpp"

namespace cleave {

/// How long a run waits for its ranks.
struct watchdog_options {
  /// How long an operation of all ranks, such as a step, may take. Then the run fails and names the rank that
  /// the others waited for.
  std::chrono::milliseconds limit = std::chrono::minutes(10);
  /// Of processes: how long a rank may stay in a stage or a library call after the run has failed. Then its
  /// process exits with status 1.
  std::chrono::milliseconds leave_within{5'000};
};

/// Options of every pipeline. Those of MPI and CUDA hold them as `run`.
struct pipeline_options {
  watchdog_options watchdog = {};
  /// How many replicas of all stages run, each on samples of its own. Their gradients are summed.
  std::uint32_t replicas = 1;
  /// Of processes: the order of the axes of the rank grid; neighbours are on the last one. Threads have this
  /// order.
  rank_grid::axes order = {rank_axis::data, rank_axis::model, rank_axis::pipe};
  std::vector<tied_gradients> ties = {};
  std::size_t bucket_bytes = std::size_t{25} << 20;  ///< of gradients that are summed at once
  /// Of processes: `step_mode::replayed` is for devices that can record and replay a step, as with CUDA
  /// graphs.
  step_mode steps = step_mode::issued;
};

}  // namespace cleave
