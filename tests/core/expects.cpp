// SPDX-License-Identifier: MIT
#include "cleave/core/expects.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <string>

using namespace cleave;

namespace {

constexpr int half(int n) {
  expects(n % 2 == 0, "an even number");
  return n / 2;
}
static_assert(half(4) == 2);  // a precondition that holds is usable at compile time

}  // namespace

TEST_CASE("expects: a violated precondition prints its place and its text, then aborts") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  pid_t const child = fork();
  if (child == 0) {
    dup2(ends[1], 2);
    std::signal(SIGABRT, SIG_DFL);
    _exit(half(3));
  }
  close(ends[1]);
  std::string printed;
  for (char c; read(ends[0], &c, 1) == 1;) printed += c;
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGABRT);
  CHECK(printed.find("expects.cpp:") != std::string::npos);
  CHECK(printed.find("expected an even number") != std::string::npos);
}
