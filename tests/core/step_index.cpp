// SPDX-License-Identifier: MIT
#include "cleave/core/step_index.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>

#include "support/rng.hpp"

using namespace cleave;
using namespace cleave::detail;

TEST_CASE("step_index: the passes and messages of a small step have the expected numbers") {
  constexpr step_index step(2, 3, 4);
  static_assert(step.passes() == 8 && step.messages() == 24);
  static_assert(step.pass(stage_id{1}, microbatch_id{2}) == 6);
  static_assert(step.message(1, edge_flow::gradients, microbatch_id{3}) == 15);
  static_assert(step.pass_at(6) == pass_id{stage_id{1}, microbatch_id{2}});
  static_assert(step.message_at(15) == message_id{1, edge_flow::gradients, microbatch_id{3}});
}

TEST_CASE("step_index: a step without microbatches has no passes and no messages") {
  CHECK(step_index(3, 2, 0).passes() == 0);
  CHECK(step_index(3, 2, 0).messages() == 0);
  CHECK(step_index().passes() == 0);
}

TEST_CASE("step_index: numbers passes and messages consecutively and maps each number back") {
  cleave::testing::rng random(7);
  for (int round = 0; round < 200; ++round) {
    auto const some = [&] { return static_cast<std::uint32_t>(random.below(9)); };
    auto const stages = some(), edges = some(), microbatches = some();
    step_index const step(stages, edges, microbatches);
    std::size_t number = 0;
    for (std::uint32_t s = 0; s < stages; ++s)
      for (std::uint32_t m = 0; m < microbatches; ++m, ++number) {
        REQUIRE(step.pass(s, microbatch_id{m}) == number);
        REQUIRE(step.pass_at(number) == pass_id{stage_id{s}, microbatch_id{m}});
      }
    CHECK(number == step.passes());
    number = 0;
    for (std::uint32_t e = 0; e < edges; ++e)
      for (auto const flow : {edge_flow::activations, edge_flow::gradients})
        for (std::uint32_t m = 0; m < microbatches; ++m, ++number) {
          REQUIRE(step.message(e, flow, microbatch_id{m}) == number);
          REQUIRE(step.message_at(number) == message_id{e, flow, microbatch_id{m}});
        }
    CHECK(number == step.messages());
  }
}

#if SIZE_MAX > 0xffffffff  // what a machine of 32 bits cannot have
TEST_CASE("step_index: supports numbers beyond 32 bits") {
  step_index const step(3'000'000'000, 2'000'000'000, 4'000'000'000);
  microbatch_id const last{3'999'999'999};
  CHECK(step.pass_at(step.pass(stage_id{2'999'999'999}, last)) == pass_id{stage_id{2'999'999'999}, last});
  message_id const m{1'999'999'999, edge_flow::gradients, last};
  CHECK(step.message_at(step.message(m)) == m);
}
#endif
