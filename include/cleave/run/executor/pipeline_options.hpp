// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/core/rank_grid.hpp"
#include "cleave/run/gradients/gradient_buckets.hpp"
#include "cleave/run/gradients/tied_gradients.hpp"
#include "cleave/run/model/recording.hpp"

namespace cleave::inline v0_2 {

/// Time limits of a run.
struct watchdog_options {
  /// Limit for an operation of all ranks, such as a step. When it has passed, the run fails and names the
  /// rank that the others waited for.
  std::chrono::milliseconds limit = std::chrono::minutes(10);
  /// Processes only: how long a rank may stay in a stage or a library call after the run has failed. Its
  /// process then exits with status 1.
  std::chrono::milliseconds leave_within{5'000};
};

/// Options of every pipeline. The options of MPI and CUDA pipelines contain them as `run`.
struct pipeline_options {
  watchdog_options watchdog = {};
  /// Number of replicas of the pipeline, each on its own samples. Their gradients are summed.
  std::uint32_t replicas = 1;
  /// Processes only: the axes of the rank grid, slowest first. Ranks that are neighbours on the last axis
  /// have consecutive numbers. Threads always use this default order.
  rank_grid::axes order = {rank_axis::data, rank_axis::model, rank_axis::pipe};
  /// Gradients of parameters that stages share, summed after each step.
  std::vector<tied_gradients> ties = {};
  /// Gradients that are summed over replicas together, in the order in which the sums begin. Gradients that
  /// no bucket has come after them, in buckets filled from the last gradient of a stage to the first.
  std::vector<gradient_bucket> buckets = {};
  /// Size limit in bytes of these further buckets. The first of a stage that has no other has at most 1 MiB,
  /// so that it begins early.
  std::size_t bucket_bytes = std::size_t{25} << 20;
  /// Processes only: `step_mode::replayed` needs a device that can record and replay a step, as with CUDA
  /// graphs. Threads refuse it.
  step_mode steps = step_mode::issued;
};

}  // namespace cleave
