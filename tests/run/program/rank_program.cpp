// SPDX-License-Identifier: MIT
#include "cleave/run/program/rank_program.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("has_backward: is true if there is a backward pass, not for forward passes alone") {
  rank_program p;
  CHECK_FALSE(has_backward(p));
  for (auto const kind : {call_kind::forward, call_kind::send, call_kind::reduce}) {
    p.instructions.push_back({.call = {.kind = kind}});
    CHECK_FALSE(has_backward(p));
  }
  for (auto const kind : {call_kind::backward, call_kind::backward_input}) {
    p.instructions.back().call.kind = kind;
    CHECK(has_backward(p));
  }
}
