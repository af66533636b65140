// SPDX-License-Identifier: MIT
#pragma once
#include <cleave/core/ids.hpp>
#include <cleave/io/report_data.hpp>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "cut.hpp"
#include "inputs.hpp"
#include "model.hpp"

namespace tool {

/// A model, its stages as they were written, and what to run them on.
struct job {
  model const& whole;
  cut const& stages;
  std::vector<fs::path> const& files;  ///< in the order of `live_stages`
  std::vector<input_fill> const& fills;
  std::uint32_t microbatches;
  progress const& doing;
};

inline std::string machine_text() { return plural(std::thread::hardware_concurrency(), "processor"); }

}  // namespace tool
