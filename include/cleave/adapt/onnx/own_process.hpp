// SPDX-License-Identifier: MIT
#pragma once
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "cleave/core/language.hpp"

namespace cleave::inline v0_2::detail {

/// Makes a new child of `parent` end with it, even if the parent is killed.
inline void end_with(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // the parent had ended before
}

}  // namespace cleave::detail

namespace cleave::inline v0_2::onnx {

/// Returns the string that `f` returns, computed in a forked copy of this process. Code that crashes or hangs
/// on bad data then does no harm; the copy ends with this process. Returns nothing if `f` throws, is killed
/// by a signal or exceeds `limit`, or if no process can be created. Output of `f` to stderr is lost, and its
/// changes to memory stay in the copy.
template <class F>
std::optional<std::string> in_own_process(F f, std::chrono::milliseconds limit) {
  using clock = std::chrono::steady_clock;
  auto const until = clock::now() + limit;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  pid_t const parent = getpid(), child = fork();
  if (child < 0) {
    close(ends[0]);
    close(ends[1]);
    return std::nullopt;
  }
  if (child == 0) {
    detail::end_with(parent);
    close(ends[0]);  // otherwise a write would block for ever after the reader has ended
    for (int const s : {SIGSEGV, SIGFPE, SIGABRT, SIGBUS, SIGILL}) signal(s, SIG_DFL);
    rlimit const no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    if (int const quiet = open("/dev/null", O_WRONLY); quiet >= 0) dup2(quiet, 2);
    try {
      std::string text = f();
      std::uint64_t const size = text.size();
      char header[sizeof size];
      std::memcpy(header, &size, sizeof size);
      text.insert(0, header, sizeof size);
      for (std::size_t at = 0; at < text.size();) {
        auto const wrote = write(ends[1], text.data() + at, text.size() - at);
        if (wrote <= 0) _exit(1);
        at += static_cast<std::size_t>(wrote);
      }
    } catch (...) {
      _exit(1);
    }
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  bool open = true;
  while (open) {
    auto const left = std::chrono::duration_cast<std::chrono::milliseconds>(until - clock::now()).count();
    pollfd wait{ends[0], POLLIN, 0};
    if (left <= 0 || poll(&wait, 1, static_cast<int>(left)) == 0) break;
    char block[1 << 16];
    auto const got = read(ends[0], block, sizeof block);
    if (got > 0) text.append(block, static_cast<std::size_t>(got));
    open = got > 0;
  }
  close(ends[0]);
  // Kills a child that is late. A child that has ended is not reaped yet, so its number is still its own.
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);

  std::uint64_t size = 0;
  if (text.size() < sizeof size) return std::nullopt;
  std::memcpy(&size, text.data(), sizeof size);
  if (text.size() - sizeof size != size) return std::nullopt;
  return text.substr(sizeof size);
}

}  // namespace cleave::onnx
