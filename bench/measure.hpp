// SPDX-License-Identifier: MIT
#pragma once
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <type_traits>
#include <vector>

/// Shared by the benches: CPU seconds of this process, peak memory, medians.
namespace bench {

inline double cpu_seconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// CPU seconds of one call of `f`.
template <class F>
double seconds(F f) {
  auto const begin = cpu_seconds();
  f();
  return cpu_seconds() - begin;
}

struct spread {
  double least, median, most;
};

/// The spread of `runs` calls of `sample`, which returns a number.
template <class F>
spread repeat(std::size_t runs, F sample) {
  std::vector<double> samples;
  while (samples.size() < runs) samples.push_back(sample());
  std::ranges::sort(samples);
  return {samples.front(), samples[samples.size() / 2], samples.back()};
}

/// Returns a line of /proc/self/status in bytes: "VmRSS" is the resident memory, "VmHWM" its peak.
inline std::size_t memory_line(std::string const& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key + ":")) return std::strtoull(line.c_str() + key.size() + 1, nullptr, 10) * 1024;
  return 0;
}

/// Returns the bytes by which `f` raises the peak resident memory. Run it first in a fresh process.
template <class F>
std::size_t added_peak(F f) {
  std::ofstream("/proc/self/clear_refs") << '5';  // resets the peak to the current resident memory
  auto const before = memory_line("VmRSS");
  f();
  return memory_line("VmHWM") - before;
}

/// Runs `f`, which returns a number or an aggregate of numbers, in a child process, so that memory of earlier
/// rows does not count. Returns -1, as the first number, if it fails.
template <class F>
auto in_child(F f) {
  using made = decltype(f());
  using answer_type = std::conditional_t<std::is_arithmetic_v<made>, double, made>;
  std::fflush(stdout);
  answer_type answer{-1};
  int ends[2];
  if (pipe(ends) != 0) return answer;
  pid_t const child = fork();
  if (child == 0) {
    auto const found = static_cast<answer_type>(f());
    bool const sent = write(ends[1], &found, sizeof found) == sizeof found;
    _exit(sent ? 0 : 1);
  }
  close(ends[1]);
  if (read(ends[0], &answer, sizeof answer) != sizeof answer) answer = {-1};
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return answer;
}

}  // namespace bench
