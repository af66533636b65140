// SPDX-License-Identifier: MIT
#pragma once
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <exception>
#include <stdexcept>
#include <string>

namespace cleave::testing {

/// The output of a child process and the resources that it used.
struct child_report {
  int signal = 0;  ///< the signal that ended it, or 0
  int exit = -1;   ///< its exit status if no signal ended it
  std::string said;
  std::string to_stderr;
  double seconds = 0;          ///< CPU time
  std::size_t peak_bytes = 0;  ///< peak resident size; at least that of its parent
};

/// Runs `f`, which returns a string, in a child process.
template <class F>
child_report in_child(F f) {
  int answer[2], complaint[2];
  if (pipe(answer) != 0 || pipe(complaint) != 0) throw std::runtime_error("no pipe");
  pid_t const child = fork();
  if (child < 0) throw std::runtime_error("no process");
  if (child == 0) {
    dup2(complaint[1], 2);
    for (int const end : {answer[0], complaint[0], complaint[1]}) close(end);
    int status = 0;
    std::string text;
    try {
      text = f();
    } catch (std::exception const& e) {
      text = e.what();
      status = 1;
    }
    for (std::size_t at = 0; at < text.size();) {
      auto const wrote = write(answer[1], text.data() + at, text.size() - at);
      if (wrote <= 0) break;
      at += static_cast<std::size_t>(wrote);
    }
    _exit(status);
  }
  close(answer[1]);
  close(complaint[1]);
  auto const all_of = [](int end) {
    std::string text;
    char block[4096];
    for (ssize_t got = 0; (got = read(end, block, sizeof block)) > 0;)
      text.append(block, static_cast<std::size_t>(got));
    close(end);
    return text;
  };
  child_report report;
  report.said = all_of(answer[0]);
  report.to_stderr = all_of(complaint[0]);
  int status = 0;
  rusage used{};
  wait4(child, &status, 0, &used);
  if (WIFSIGNALED(status)) report.signal = WTERMSIG(status);
  if (WIFEXITED(status)) report.exit = WEXITSTATUS(status);
  auto const seconds = [](timeval t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  report.seconds = seconds(used.ru_utime) + seconds(used.ru_stime);
  report.peak_bytes = static_cast<std::size_t>(used.ru_maxrss) * 1024;
  return report;
}

}  // namespace cleave::testing
