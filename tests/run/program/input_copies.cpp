// SPDX-License-Identifier: MIT
#include "cleave/run/program/step_recorder.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/run/host/host_device.hpp"
#include "cleave/run/host/host_ranks.hpp"
#include "cleave/run/program/make_rank_program.hpp"
#include "cleave/schedule/families/generate.hpp"
#include "support/linear_chain.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;

namespace {

constexpr stage_id s0{0};

/// Two inputs per microbatch; the first stage reads both, and input 0 twice.
linear_model two_inputs(schedule const& s, rng& random) {
  auto t = dataflow_of_chain(s);
  t.edges.insert(t.edges.begin() + 1, {{the_caller, 1, s0, 1}, {the_caller, 0, s0, 2}});
  return {t, random_rows(s.microbatches, random), 2, random};
}

}  // namespace

TEST_CASE("input_copies: copies a step's inputs to the same addresses in every step") {
  rng random(1);
  auto const s = make_schedule(schedule_family::one_f_one_b, {2, 1, 3});
  auto const m = two_inputs(s, random);
  step_plan const plan(s, m.t, linear_layouts(m.t, m.rows));
  auto const p = make_rank_program(plan, rank_id{0});
  host_ranks ranks(1);
  host_device d(ranks, rank_id{0});
  auto stream = d.make_stream(0);
  input_copies copies(d, p);

  std::vector<std::vector<double>> others;
  std::vector<tensor_view> elsewhere;  // each microbatch has one more input here, which no stage reads
  for (std::size_t i = 0; i < m.inputs.size(); ++i) {
    auto& x = others.emplace_back(m.numbers[i]);
    for (auto& v : x) v += 1;
    elsewhere.push_back({x.data(), element_type::f64, m.inputs[i].shape});
    if (i % 2 == 1) elsewhere.push_back({nullptr, element_type::f64, {1}});
  }
  std::vector<void*> places;
  for (auto const& given : {m.values(), step_values{elsewhere, 3, m.weights, gradient_end::kept}}) {
    auto const own = copies.take(given, stream);
    CHECK(!find_step_value_fault(p, own));
    CHECK(own.weights.data() == given.weights.data());
    CHECK(own.gradients == given.gradients);
    std::vector<void*> at;
    for (std::size_t mb = 0; mb < s.microbatches; ++mb)
      for (std::size_t n = 0; n < 2; ++n) {
        auto const& v = own.inputs[mb * own.inputs_of_each + n];
        auto const& from = given.inputs[mb * given.inputs_of_each + n];
        CHECK(v.shape == from.shape);
        CHECK(std::equal(static_cast<double const*>(from.data),
                         static_cast<double const*>(from.data) + from.elements().count,
                         static_cast<double const*>(v.data)));
        CHECK(v.data != from.data);
        at.push_back(v.data);
      }
    if (!places.empty()) CHECK(at == places);
    places = at;
    std::ranges::sort(at);
    CHECK(std::ranges::adjacent_find(at) == at.end());
  }
}

TEST_CASE("input_copies: copies nothing for a rank that reads no caller inputs") {
  rng random(2);
  auto const s = make_schedule(schedule_family::one_f_one_b, {2, 1, 3});
  linear_chain const m(s, random);
  step_plan const plan(s, m.t, linear_layouts(m.t, m.rows));
  host_ranks ranks(1);
  host_device d(ranks, rank_id{0});
  auto stream = d.make_stream(0);
  input_copies copies(d, make_rank_program(plan, rank_id{1}));
  CHECK(copies.take({}, stream).inputs.empty());
}
