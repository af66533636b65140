// SPDX-License-Identifier: MIT
#pragma once
#include <sys/resource.h>

#include <cleave/core/bytes.hpp>
#include <cstdint>
#include <string>
#include <system_error>

#include "files.hpp"

namespace tool {

/// Returns the largest value that `/proc/self/status` gives for the address space, or 0 if it is unknown.
inline std::uint64_t peak_address_space() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (std::uint64_t kib = 0; word == "VmPeak:" && status >> kib) return kib * 1024;
  return 0;
}

/// Returns the message for a lack of memory: how much the process has had, the largest file that the command
/// line names, and remedies.
inline std::string out_of_memory_text(std::string const& subcommand) {
  std::string text = "out of memory";
  fs::path largest;
  std::uint64_t most = 0;
  for (auto const& file : named_inputs) {
    std::error_code unknown;
    auto const size = fs::is_regular_file(file, unknown) ? fs::file_size(file, unknown) : 0;
    if (!unknown && size >= most) largest = file, most = size;
  }
  if (!largest.empty()) text += " for " + shown(largest) + " of " + cleave::format_bytes(most);
  if (auto const had = peak_address_space(); had > 0) {
    text += ": more than " + cleave::format_bytes(had) + " are needed";
    rlimit limit{};
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
      text += ", and ulimit -v allows " + cleave::format_bytes(limit.rlim_cur);
  }
  text += "; allow the process more memory (ulimit -v, or the limit of its container)";
  if (subcommand == "partition") text += ", read a METIS file by rows (--stream)";
  return text + ", or use a smaller file";
}

}  // namespace tool
