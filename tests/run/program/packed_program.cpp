// SPDX-License-Identifier: MIT
#include "cleave/run/program/packed_program.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cleave/core/dataflow.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/run/model/edge_layout.hpp"
#include "cleave/run/program/make_rank_program.hpp"
#include "cleave/run/program/step_plan.hpp"
#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/model/schedule_names.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

/// A chain of stages on which the caller's input is read twice, and each value is also a result.
dataflow branched(schedule const& s) {
  dataflow t{.stages = s.place.stages(), .edges = {}};
  auto const last = stage_id{t.stages - 1};
  t.edges = {{the_caller, 0, stage_id{0}, 0}, {the_caller, 0, stage_id{0}, 1}};
  for (auto const& e : s.place.edges) t.edges.push_back({e.from, 0, e.to, 0});
  t.edges.push_back({last, 0, the_caller, 0});
  t.edges.push_back({last, 0, the_caller, 1});
  return t;
}

run_layouts rows_of(dataflow const& t, std::uint32_t microbatches, shape_kind extents) {
  run_layouts l;
  for (std::size_t e = 0; e < t.edges.size(); ++e)
    l.edges.push_back({.type = element_type::f64,
                       .shape = {5, 3},
                       .batch_axis = extents == shape_kind::fixed ? std::optional(0u) : std::nullopt,
                       .extents = extents});
  if (extents == shape_kind::fixed)
    for (std::uint32_t m = 0; m < microbatches; ++m) l.rows.push_back(1 + m % 5);
  return l;
}

rank_instruction message_at(std::uint64_t at, std::uint32_t after, std::uint32_t cell) {
  rank_instruction i;
  i.call = {.kind = call_kind::send,
            .of = {action_kind::send_activation, 0, stage_id{1}, microbatch_id{2}, stage_id{3}},
            .cell = cell};
  i.peer = rank_id{3};
  i.number = 70;
  i.at = at;
  i.bytes = 24;
  i.after = after;
  return i;
}

}  // namespace

TEST_CASE("packed_program: unpacks to the program, of every family and with either kind of shapes") {
  for (auto const family : {schedule_family::gpipe, schedule_family::one_f_one_b,
                            schedule_family::interleaved_1f1b, schedule_family::zbv})
    for (auto const extents : {shape_kind::fixed, shape_kind::dynamic}) {
      auto const s = make_schedule(family, {3, stages_per_rank_of(family).value_or(2), 9});
      auto const t = branched(s);
      step_plan const plan(s, t, rows_of(t, 9, extents), {.saved_activations = {{40, 24, 0}}});
      for (auto const& p : make_rank_programs(plan)) {
        packed_program const packed(p);
        auto const again = packed.unpack();
        CHECK(again.instructions == p.instructions);
        CHECK(again.passes == p.passes);
        CHECK(again.results == p.results);
        CHECK(again.layouts.rows == p.layouts.rows);
        CHECK(again.layouts.edges.size() == p.layouts.edges.size());
        CHECK(packed.trains() == has_backward(p));
        CHECK(packed.has_dynamic_shapes() == (extents == shape_kind::dynamic));
        for (std::uint32_t n = 0; n < p.passes.size(); ++n) {
          std::vector<program_value> in, out;
          std::vector<program_copy> copies;
          packed.passes().each_in(n, [&](program_value const& v) { in.push_back(v); });
          packed.passes().each_out(n, [&](program_value const& v) { out.push_back(v); });
          packed.passes().each_copy(n, [&](program_copy const& c) { copies.push_back(c); });
          CHECK(in == p.passes[n].in);
          CHECK(out == p.passes[n].out);
          CHECK(copies == p.passes[n].copies);
          CHECK(packed.passes().saved(n).at == p.passes[n].saved_at);
          CHECK(packed.passes().saved(n).bytes == p.passes[n].saved_bytes);
          CHECK(packed.passes().saved_for_weights(n).at == p.passes[n].saved_for_weights_at);
          CHECK(packed.passes().saved_for_weights(n).bytes == p.passes[n].saved_for_weights_bytes);
          for (auto const& v : in) CHECK(packed.layout_of(v.edge) == p.layouts.edges[v.edge]);
        }
      }
    }
}

TEST_CASE("packed_program: keeps numbers that are too large, odd or out of order") {
  std::vector<rank_instruction> all;
  for (std::uint32_t i = 0; i < 300; ++i) all.push_back(message_at(64 * i, rank_instruction::none, i));
  all.push_back(message_at(7, 299, 300));                               // not a multiple of 64
  all.push_back(message_at(std::uint64_t{1} << 60, 2, 2'000'000'000));  // far away
  all.push_back(message_at(0, 0xfffffffe, 1));  // after a later one, in an earlier cell
  for (std::uint32_t i = 0; i < 5000; ++i) {
    all.push_back(message_at(64, 0, 301));
    all.back().bytes = i;  // more kinds than there are prototypes
  }
  all.back().call.of.microbatch = no_microbatch;
  packed_instructions const packed(all);
  REQUIRE(packed.size() == all.size());
  for (std::uint32_t i = 0; i < all.size(); ++i) CHECK(packed[i] == all[i]);

  program_pass odd;
  odd.in = {{{place_kind::arena, 8}, 1, {}}, {{place_kind::input, 3}, 0, {}}};
  odd.out = {{{place_kind::result, std::uint64_t{1} << 50}, 2, {place_kind::result, 5}}};
  auto even = odd;
  even.forward = 1;
  even.in[0].place.at = 128;
  even.out[0].place.at = 640;
  packed_passes const passes({odd, even, odd}, {microbatch_id{2}, microbatch_id{1}, microbatch_id{2}});
  CHECK(passes[0] == odd);
  CHECK(passes[1] == even);
  CHECK(passes[2] == odd);
  for (std::uint32_t n = 0; n < 3; ++n) CHECK(passes.microbatch(n) == microbatch_id{n == 1 ? 1u : 2u});
}
