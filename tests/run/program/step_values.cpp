// SPDX-License-Identifier: MIT
#include "cleave/run/program/step_values.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

using namespace cleave;

using namespace cleave::detail;

namespace {

using fault = step_value_fault;

/// Two microbatches with two inputs each; this rank reads input 1, along edge 3: f64[rows, 2].
struct reading_program {
  rank_program p;
  std::array<double, 6> numbers{};
  std::vector<tensor_view> inputs;

  reading_program() {
    p.microbatches = 2;
    p.layouts.edges.resize(4);
    p.layouts.edges[3] = {.type = element_type::f64, .shape = {3, 2}, .batch_axis = 0};
    p.layouts.rows = {3, 1};
    for (std::uint32_t m = 0; m < 2; ++m) {
      program_pass pass;
      pass.in = {{{place_kind::arena, 0}, 0, {}}, {{place_kind::input, 1}, 3, {}}};
      p.passes.push_back(pass);
      rank_instruction i;
      i.call = {.kind = call_kind::forward, .of = {action_kind::forward, 0, stage_id{0}, microbatch_id{m}}};
      i.pass = m;
      p.instructions.push_back(i);
    }
    inputs = {
        {}, {numbers.data(), element_type::f64, {3, 2}}, {}, {numbers.data(), element_type::f64, {1, 2}}};
  }
  std::optional<fault> find(std::vector<double> const& weights = {}) const {
    return find_step_value_fault(p, {inputs, 2, weights});
  }
};

}  // namespace

TEST_CASE("require_step_values: needs only the inputs that this rank reads") {
  reading_program x;
  CHECK_FALSE(x.find());
  CHECK_FALSE(x.find({0.5, 2}));
  CHECK_NOTHROW(require_step_values(x.p, {x.inputs, 2, {}}));
}

TEST_CASE("require_step_values: needs as many inputs per microbatch as are read") {
  reading_program x;
  x.inputs.pop_back();
  CHECK(x.find() == fault{fault::kind::input_count, 3, 4});
  CHECK_THROWS_WITH_AS(require_step_values(x.p, {x.inputs, 2, {}}),
                       "step: 3 inputs are given, but the microbatches read 4", step_value_error);
  x.inputs.pop_back();
  CHECK(find_step_value_fault(x.p, {x.inputs, 1, {}}) == fault{fault::kind::input_count, 2, 4});
}

TEST_CASE("find_step_value_fault: needs a weight for every microbatch, or none") {
  reading_program const x;
  CHECK(x.find({1}) == fault{fault::kind::weight_count, 1, 2});
  CHECK(describe(*x.find({1})) ==
        "1 weights are given for 2 microbatches; give one weight per microbatch, or none");
  CHECK(x.find({1, 1, 1}) == fault{fault::kind::weight_count, 3, 2});
}

TEST_CASE("find_step_value_fault: needs data for each input read, unless it has no elements") {
  reading_program x;
  x.inputs[3].data = nullptr;
  CHECK(x.find() == fault{.what = fault::kind::no_data, .microbatch = 1, .input = 1, .edge = 3});
  CHECK(describe(*x.find()) == "input #1 of microbatch 1 is read by this rank, but has no data");
  x.p.layouts.rows[1] = 0;
  x.inputs[3].shape = {0, 2};
  CHECK_FALSE(x.find());
}

TEST_CASE("find_step_value_fault: an input needs the type and shape of its microbatch") {
  reading_program x;
  fault const wanted{.what = fault::kind::other_type, .microbatch = 1, .input = 1, .edge = 3};
  x.inputs[3].shape = {3, 2};
  CHECK(x.find() == wanted);
  CHECK(describe(wanted) == "input #1 of microbatch 1 has another type or shape than edge #3 takes");
  x.p.layouts.edges[3].extents = shape_kind::dynamic;
  CHECK_FALSE(x.find());
  x.inputs[3].type = element_type::f32;
  CHECK(x.find() == wanted);
}

TEST_CASE("find_step_value_fault: rejects weights if the plan scales gradients") {
  reading_program x;
  x.p.scale = gradient_scale::by_microbatches;
  CHECK_FALSE(x.find());
  CHECK(x.find({1, 1}) == fault{fault::kind::scaled, 2, 2});
  CHECK(describe(*x.find({1, 1})) ==
        "weights are given, but the plan already scales each loss by 1/2 (gradient_scale::by_microbatches); "
        "give none, or make the plan with gradient_scale::none");
}
