// SPDX-License-Identifier: MIT
#include "cleave/run/program/pass_memory.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

using namespace cleave;

using namespace cleave::detail;

namespace {

/// A forward pass of microbatch 1 and its backward pass. Edges: 0 input, 1 between stages, 2 a result.
struct viewed_program {
  rank_program p;
  std::array<std::byte, 64> arena{};
  std::array<std::byte, 64> results{};

  viewed_program() {
    p.microbatches = 2;
    p.layouts.edges = {{.type = element_type::f64, .shape = {4}, .batch_axis = 0},
                       {.type = element_type::f32, .shape = {4, 2}, .batch_axis = 0},
                       {.type = element_type::f32, .shape = {3}}};
    p.layouts.rows = {4, 2};
    program_pass forward, backward;
    forward.in = {{{place_kind::input, 1}, 0, {}}, {{place_kind::arena, 8}, 1, {}}};
    forward.out = {{{place_kind::result, 16}, 2, {}}};
    backward.in = {{{}, 2, {}}};
    backward.out = {{{}, 0, {}}, {{place_kind::arena, 32}, 1, {}}};
    backward.forward = 0;
    p.passes = {forward, backward};
    for (std::uint32_t n = 0; n < 2; ++n) {
      rank_instruction i;
      i.call.of = {n == 0 ? action_kind::forward : action_kind::backward, 0, stage_id{0}, microbatch_id{1}};
      i.pass = n;
      p.instructions.push_back(i);
    }
    p.results = {{microbatch_id{1}, 0, forward.out[0]}};
  }
};

}  // namespace

TEST_CASE("pass_views: values are where the program says, with the size of their microbatch") {
  viewed_program x;
  packed_program const p(x.p);
  pass_views views(p, x.arena.data(), x.results.data());
  REQUIRE(views.in(0).size() == 2);
  REQUIRE(views.out(0).size() == 1);
  CHECK(views.in(0)[0] == tensor_view{nullptr, element_type::f64, {2}});
  CHECK(views.in(0)[1] == tensor_view{x.arena.data() + 8, element_type::f32, {2, 2}});
  CHECK(views.out(0)[0] == tensor_view{x.results.data() + 16, element_type::f32, {3}});
  CHECK(views.in(1)[0] == tensor_view{nullptr, element_type::f32, {3}});
  CHECK(views.out(1)[0] == tensor_view{nullptr, element_type::f64, {2}});
  CHECK(views.out(1)[1] == tensor_view{x.arena.data() + 32, element_type::f32, {2, 2}});
}

TEST_CASE("pass_views: take_inputs() sets the caller's inputs of the microbatch, anew in each step") {
  viewed_program x;
  packed_program const p(x.p);
  pass_views views(p, x.arena.data(), x.results.data());
  std::array<double, 4> numbers{};
  for (auto const of_each : {2u, 3u}) {
    std::vector<tensor_view> inputs(2 * of_each);
    inputs[of_each + 1] = {numbers.data(), element_type::f64, {of_each}};
    views.take_inputs(inputs, of_each);
    CHECK(views.in(0)[0] == inputs[of_each + 1]);
    CHECK(views.in(0)[1].data == x.arena.data() + 8);
  }
}

TEST_CASE("pass_views: a backward pass has the shapes that its forward pass saw") {
  viewed_program x;
  packed_program const p(x.p);
  pass_views views(p, x.arena.data(), x.results.data());
  views.in(0)[0].shape = {1};
  views.in(0)[1].shape = {1, 2};
  views.out(0)[0].shape = {2};
  views.take_shapes(0);  // has no effect on a forward pass
  CHECK(views.in(0)[0].shape == tensor_shape{1});
  views.take_shapes(1);
  CHECK(views.in(1)[0].shape == tensor_shape{2});
  CHECK(views.out(1)[0].shape == tensor_shape{1});
  CHECK(views.out(1)[1].shape == tensor_shape{1, 2});
}

TEST_CASE("pass_views: a value's room fits the largest microbatch, but a result has its own shape") {
  viewed_program x;
  x.p.layouts.edges[2] = {.type = element_type::f32, .shape = {4}, .batch_axis = 0};
  packed_program const p(x.p);
  pass_views const views(p, x.arena.data(), x.results.data());
  CHECK(views.room_of(x.p.passes[0].in[1]) == region{x.arena.data() + 8, 8, element_type::f32});
  CHECK(views.room_of(x.p.passes[0].out[0]) == region{x.results.data() + 16, 4, element_type::f32});
  CHECK(views.result(x.p.results[0]) == tensor_view{x.results.data() + 16, element_type::f32, {2}});
  CHECK(views.arena_region(8, 24) == region{x.arena.data() + 8, 24, element_type::u8});
  CHECK(views.arena_region(8, 0) == region{});
}

TEST_CASE(
    "pass_views: with fixed shapes, views of the last passes only are kept, and made again when needed") {
  viewed_program x;
  packed_program const p(x.p);
  pass_views all(p, x.arena.data(), x.results.data()), last(p, x.arena.data(), x.results.data(), 1);
  std::array<double, 4> numbers{};
  std::vector<tensor_view> inputs(4, {numbers.data(), element_type::f64, {2}});
  for (auto* const views : {&all, &last}) views->take_inputs(inputs, 2);
  auto const* const place = last.in(0).data();
  for (std::uint32_t const n : {0u, 1u, 0u}) {
    CHECK(std::ranges::equal(last.in(n), all.in(n)));
    CHECK(std::ranges::equal(last.out(n), all.out(n)));
    CHECK(last.in(n).data() == place);
  }
  CHECK(all.in(1).data() != all.in(0).data());
  for (auto* const views : {&all, &last}) CHECK(std::ranges::equal(views->in_of_forward(1), all.in(0)));
  CHECK(std::ranges::equal(last.in(1), all.in(1)));
  CHECK(last.result(x.p.results[0]) == all.result(x.p.results[0]));
}

TEST_CASE("pass_views: with a dynamic shape, the views of all passes are kept") {
  viewed_program x;
  x.p.layouts.edges[2].extents = shape_kind::dynamic;
  packed_program const p(x.p);
  pass_views views(p, x.arena.data(), x.results.data(), 1);
  views.out(0)[0].shape = {2};
  views.take_shapes(1);
  CHECK(views.in(1)[0].shape == tensor_shape{2});
  CHECK(views.result(x.p.results[0]).shape == tensor_shape{2});
}
