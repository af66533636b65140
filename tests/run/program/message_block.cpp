// SPDX-License-Identifier: MIT
#include "cleave/run/program/step_plan.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/linear_engine.hpp"
#include "support/random_dataflow.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;

namespace {

constexpr stage_id s0{0}, s1{1};

run_layouts random_layouts(rng& random, dataflow const& t) {
  run_layouts l;
  for (auto const& e : t.edges) {
    edge_layout x{.type = static_cast<element_type>(random.below(10)),
                  .shape = {static_cast<std::int64_t>(random.below(40))},
                  .extents = random.one_in(3) ? shape_kind::dynamic : shape_kind::fixed};
    bool const inside = e.from != the_caller && e.to != the_caller;
    x.gradient =
        inside && is_floating(x.type) && !random.one_in(4) ? gradient_use::wanted : gradient_use::none;
    l.edges.push_back(x);
  }
  return l;
}

/// Checks that values and shapes in a block are aligned and do not overlap.
void check_block(message_block const& b, run_layouts const& l, bool with_shapes) {
  std::uint64_t end = 0;
  for (auto const& v : b.values) {
    auto const& x = l.edges[v.edge];
    auto const first = v.has_shape() ? v.shape_at : v.at;
    CHECK(v.has_shape() == (with_shapes && x.extents == shape_kind::dynamic));
    CHECK(v.at % 64 == 0);
    CHECK(first % 64 == 0);
    CHECK(first >= end);
    CHECK(first < end + 64);
    if (v.has_shape()) CHECK(v.at >= v.shape_at + sizeof(tensor_shape));
    end = v.at + static_cast<std::uint64_t>(*x.shape.count()) * size_of(x.type);
  }
  CHECK(b.bytes == end);
}

}  // namespace

TEST_CASE("blocks_of: places values one after another, with their shapes if these are dynamic") {
  dataflow const t{.stages = 2, .edges = {{s0, 0, s1, 0}, {s0, 1, s1, 1}, {s0, 2, s1, 2}}};
  run_layouts const l{{{.type = element_type::f32, .shape = {5}},
                       {.type = element_type::f64, .shape = {2, 3}, .extents = shape_kind::dynamic},
                       {.type = element_type::u8, .shape = {3}, .gradient = gradient_use::none}}};
  auto const blocks = blocks_of(placement_of(t, 2, {rank_id{0}, rank_id{1}}), t, l);
  auto const after_shape = 64 + (sizeof(tensor_shape) + 63) / 64 * 64;
  REQUIRE(blocks.size() == 1);
  CHECK(blocks[0].activations ==
        message_block{{{0, 0}, {1, after_shape, 64}, {2, after_shape + 64}}, after_shape + 64 + 3});
  CHECK(blocks[0].gradients == message_block{{{0, 0}, {1, 64}}, 64 + 48});
}

TEST_CASE("blocks_of: an edge that carries nothing has empty messages") {
  dataflow const t{.stages = 2, .edges = {{the_caller, 0, s0, 0}, {s1, 0, the_caller, 0}}};
  stage_placement const p{2, {rank_id{0}, rank_id{1}}, {{s0, s1}}};
  run_layouts const l{{{.shape = {1}}, {.shape = {1}}}};
  CHECK(blocks_of(p, t, l) == std::vector<edge_blocks>(1));
}

TEST_CASE(
    "blocks_of: each value between stages is in one block, aligned and without overlap, in any dataflow") {
  rng random(11);
  for (int i = 0; i < 200; ++i) {
    CAPTURE(i);
    auto const t = random_dataflow(random, static_cast<std::uint32_t>(1 + random.below(7)));
    auto const p = placement_of(t, 1, std::vector<rank_id>(t.stages, rank_id{0}));
    auto const l = random_layouts(random, t);
    auto const blocks = blocks_of(p, t, l);
    REQUIRE(blocks.size() == p.edges.size());
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      std::vector<std::uint32_t> there, back, wanted, wanted_back;
      for (std::uint32_t e = 0; e < t.edges.size(); ++e) {
        if (t.edges[e].from != p.edges[b].from || t.edges[e].to != p.edges[b].to) continue;
        wanted.push_back(e);
        if (l.edges[e].gradient == gradient_use::wanted) wanted_back.push_back(e);
      }
      for (auto const& v : blocks[b].activations.values) there.push_back(v.edge);
      for (auto const& v : blocks[b].gradients.values) back.push_back(v.edge);
      CHECK(there == wanted);
      CHECK(back == wanted_back);
      check_block(blocks[b].activations, l, true);
      check_block(blocks[b].gradients, l, false);
    }
  }
}
