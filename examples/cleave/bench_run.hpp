// SPDX-License-Identifier: MIT
#pragma once
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cleave/core/error.hpp>
#include <cleave/core/printable.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench_algorithms.hpp"

namespace tool {

/// The outcome of a run.
struct run_outcome {
  std::string status;  ///< "ok", or the reason for no answer
  std::vector<std::uint32_t> part_of{};
  std::optional<std::int64_t> claimed_cut{};
  std::optional<double> claimed_bottleneck{}, bound{};
  double wall_s = 0, cpu_s = 0;
  std::uint64_t memory_bytes = 0;  ///< by which the call raised the peak resident memory
};

/// Peak resident memory of this process, since the last `forget_peak`.
inline std::uint64_t peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (std::uint64_t kib = 0; word == "VmHWM:" && status >> kib) return kib * 1024;
  return 0;
}
/// Returns freed memory to the system first, so that the call cannot reuse it unnoticed.
inline void forget_peak() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
  std::ofstream("/proc/self/clear_refs") << '5';
}

/// Memory that a child process shares with its parent.
class shared_answer {
 public:
  struct header {
    char status[240];
    double wall_s, cpu_s;
    std::uint64_t memory_bytes;
    std::int64_t claimed_cut;
    double bottleneck, bound;
    bool claims_cut, claims_bottleneck, has_bound, answered;
  };

  explicit shared_answer(std::size_t nodes) : bytes_(sizeof(header) + nodes * sizeof(std::uint32_t)) {
    memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED)
      throw cleave::error("cannot map shared memory for the result of a run; free some memory");
  }
  shared_answer(shared_answer const&) = delete;
  shared_answer& operator=(shared_answer const&) = delete;
  ~shared_answer() { munmap(memory_, bytes_); }

  header& head() { return *static_cast<header*>(memory_); }
  std::uint32_t* parts() {
    return reinterpret_cast<std::uint32_t*>(static_cast<char*>(memory_) + sizeof(header));
  }

 private:
  std::size_t bytes_;
  void* memory_;
};

inline double seconds_of(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// Runs in the child. Only the call is timed; the graph is already in the algorithm's format.
inline void answer(shared_answer& to, bench_algorithm const& algorithm, bench_task const& task) {
  auto& head = to.head();
  try {
    auto const call = algorithm.prepare(task);
    forget_peak();
    auto const before = peak_bytes();
    double const cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID), wall = seconds_of(CLOCK_MONOTONIC);
    auto const found = call();
    head.wall_s = seconds_of(CLOCK_MONOTONIC) - wall;
    head.cpu_s = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    auto const after = peak_bytes();
    head.memory_bytes = after > before ? after - before : 0;
    head.claims_cut = found.claimed_cut.has_value();
    head.claims_bottleneck = found.claimed_bottleneck.has_value();
    head.has_bound = found.bound.has_value();
    head.claimed_cut = found.claimed_cut.value_or(0);
    head.bottleneck = found.claimed_bottleneck.value_or(0);
    head.bound = found.bound.value_or(0);
    if (found.part_of.size() != task.nodes()) throw cleave::error("parts for another number of nodes");
    if (!found.part_of.empty())
      std::memcpy(to.parts(), found.part_of.data(), found.part_of.size() * sizeof(std::uint32_t));
    std::strcpy(head.status, "ok");
  } catch (std::exception const& e) {
    auto const text = "error: " + cleave::printable(e.what(), 200);
    std::strncpy(head.status, text.c_str(), sizeof head.status - 1);
  }
  head.answered = true;
}

inline std::string signal_name(int signal) {
  switch (signal) {
    case SIGSEGV:
      return "SIGSEGV";
    case SIGFPE:
      return "SIGFPE";
    case SIGABRT:
      return "SIGABRT";
    case SIGKILL:
      return "SIGKILL";
    case SIGBUS:
      return "SIGBUS";
    case SIGILL:
      return "SIGILL";
    default:
      return "SIG" + std::to_string(signal);
  }
}

/// Waits until the child closes its end of a pipe. Returns false after `seconds`.
inline bool closes_within(int end, double seconds) {
  double const until = seconds_of(CLOCK_MONOTONIC) + seconds;
  for (;;) {
    double const left = until - seconds_of(CLOCK_MONOTONIC);
    if (left <= 0) return false;
    pollfd on{end, POLLIN, 0};
    if (poll(&on, 1, static_cast<int>(left * 1000) + 1) > 0) return true;
  }
}

/// Runs an algorithm in a separate process, so that a crash or hang becomes a result. METIS does both on real
/// inputs.
inline run_outcome run_apart(bench_algorithm const& algorithm, bench_task const& task, double limit_s) {
  shared_answer shared(task.nodes());
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw cleave::error("cannot open a pipe for a run");
  pid_t const parent = getpid(), child = fork();
  if (child < 0) throw cleave::error("cannot start a process for a run");
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);  // the parent died before
    close(ends[0]);
    int const nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
    for (int const fatal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) signal(fatal, SIG_DFL);
    rlimit const no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    answer(shared, algorithm, task);
    _exit(0);
  }
  close(ends[1]);
  bool const in_time = closes_within(ends[0], limit_s);
  close(ends[0]);
  if (!in_time) kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  auto const& head = shared.head();
  if (!in_time && !head.answered) return {.status = "no answer in " + csv_number(limit_s) + " s"};
  if (!head.answered)
    return {.status = WIFSIGNALED(status) ? signal_name(WTERMSIG(status))
                                          : "exit " + std::to_string(WEXITSTATUS(status)) + "; no result"};
  run_outcome out{.status = head.status, .wall_s = head.wall_s, .cpu_s = head.cpu_s};
  if (out.status != "ok") return out;
  out.memory_bytes = head.memory_bytes;
  if (head.claims_cut) out.claimed_cut = head.claimed_cut;
  if (head.claims_bottleneck) out.claimed_bottleneck = head.bottleneck;
  if (head.has_bound) out.bound = head.bound;
  out.part_of.assign(shared.parts(), shared.parts() + task.nodes());
  return out;
}

}  // namespace tool
