// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cleave/draw/report.hpp>
#include <cleave/run/forward/forward.hpp>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "cut.hpp"
#include "inputs.hpp"
#include "model.hpp"

namespace tool {

/// A job for an engine: a model, its stage files and their inputs.
struct job {
  model const& whole;
  cut const& stages;
  std::vector<fs::path> const& files;  ///< in the order of `cleave::onnx::live_stages`
  std::vector<input_fill> const& fills;
  std::uint32_t microbatches;
  progress const& doing;
};

/// Number of measured runs of a job; the fastest counts.
inline constexpr int attempts = 3;

/// From the start of a run to its last bar, in nanoseconds.
inline std::int64_t duration(std::vector<cleave::interval> const& timeline) {
  std::int64_t end = 0;
  for (auto const& bar : timeline) end = std::max(end, bar.end);
  return end;
}

/// Describes the machine and the measurement.
inline std::string machine_text() {
  return plural(std::thread::hardware_concurrency(), "processor") + "; the fastest of " +
         std::to_string(attempts) + " runs";
}

}  // namespace tool
