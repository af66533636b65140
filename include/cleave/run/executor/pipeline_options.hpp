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
struct watch_options {
  /// How long what all ranks do together may take, such as a step. Beyond it, the run fails and says who kept
  /// the others waiting.
  std::chrono::milliseconds limit = std::chrono::minutes(10);
  /// Of processes: how long a rank may go on in a stage, or in a call of a library, after the run has failed;
  /// then its process ends, with status 1.
  std::chrono::milliseconds leave_within{5'000};
};

/// What every pipeline is told, whatever its ranks are. Those of MPI and CUDA are told more.
struct pipeline_options {
  watch_options watch = {};
  /// How many times all stages are there, for samples of their own; their gradients are summed.
  std::uint32_t replicas = 1;
  /// How processes are ranks of replicas: neighbours are on the last axis. Threads always have this order.
  rank_grid::axes order = {rank_axis::data, rank_axis::model, rank_axis::pipe};
  std::vector<tied_gradients> ties = {};
  std::size_t bucket_bytes = std::size_t{25} << 20;  ///< of gradients that are summed at once
  /// Of processes: `step_mode::replayed` has devices that can do again what they did, such as CUDA graphs.
  step_mode steps = step_mode::issued;
};

}  // namespace cleave
