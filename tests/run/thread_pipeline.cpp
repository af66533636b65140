// SPDX-License-Identifier: MIT
#include "cleave/run/thread_pipeline.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/schedule/search/list_schedule.hpp"
#include "support/linear_engine.hpp"
#include "support/random_transport.hpp"
#include "support/rng.hpp"

using namespace cleave;
using namespace cleave::testing;

namespace {

/// A linear model, where it runs and on what.
struct linear_case {
  transport t;
  std::vector<linear_stage> stages;
  std::vector<std::int64_t> rows;
  std::vector<std::vector<double>> numbers;  // of the caller, by microbatch and input
  std::vector<tensor_view> inputs;
  std::vector<double> weights;

  step_values values() const { return {inputs, 3, weights}; }
};

void fill(linear_case& c, rng& random) {
  for (std::uint32_t s = 0; s < c.t.stages; ++s)
    c.stages.push_back({1 + static_cast<double>(random.below(2)), static_cast<double>(random.below(3)) - 1});
  for (auto const n : c.rows) {
    c.weights.push_back(static_cast<double>(1 + random.below(3)));
    for (int k = 0; k < 3; ++k) {
      auto& x = c.numbers.emplace_back();
      for (std::int64_t i = 0; i < n; ++i) x.push_back(static_cast<double>(random.below(5)) - 2);
    }
  }
  for (std::size_t i = 0; i < c.numbers.size(); ++i)
    c.inputs.push_back({c.numbers[i].data(), element_type::f64, {c.rows[i / 3]}});
}

linear_case random_case(rng& random) {
  linear_case c;
  c.t = random_transport(random, static_cast<std::uint32_t>(1 + random.below(6)));
  for (std::size_t m = 1 + random.below(4); m > 0; --m)
    c.rows.push_back(static_cast<std::int64_t>(1 + random.below(4)));
  fill(c, random);
  return c;
}

template <class S>
void check_step(linear_case const& c, step_plan const& p, thread_pipeline<S>& run, double steps = 1) {
  auto const values = c.values();
  linear_twin const twin(c.t, c.stages, values, c.rows);
  for (std::uint32_t m = 0; m < c.rows.size(); ++m)
    for (auto const& [number, wanted] : twin.results[m]) {
      bool from_caller = false;
      for (auto const& e : c.t.edges)
        from_caller |= e.to == the_caller && e.input == number && e.from == the_caller;
      if (from_caller) continue;
      auto const got = run.result(microbatch_id{m}, number);
      REQUIRE(got);
      auto const* numbers = static_cast<double const*>(got->data);
      CHECK(std::vector<double>(numbers, numbers + got->elements().count) == wanted);
    }
  for (std::uint32_t s = 0; s < c.t.stages; ++s) {
    auto const g = run.stages_of(p.rank_of(stage_id{s})).gradient(stage_id{s});
    CHECK(g == linear_gradient{steps * twin.gradients[s].w, steps * twin.gradients[s].b});
  }
}

}  // namespace

TEST_CASE("thread pipeline: any schedule of any stages gives what they give one after the other") {
  rng random(1);
  for (int i = 0; i < 300; ++i) {
    CAPTURE(i);
    auto const c = random_case(random);
    auto const ranks = static_cast<std::uint32_t>(1 + random.below(4));
    std::vector<rank_id> rank_of;
    for (std::uint32_t s = 0; s < c.t.stages; ++s)
      rank_of.push_back(rank_id{static_cast<std::uint32_t>(random.below(ranks))});
    auto const s =
        list_schedule(placement_of(c.t, ranks, rank_of), static_cast<std::uint32_t>(c.rows.size()),
                      {.backward = random.one_in(2) ? backward_form::split : backward_form::whole});
    step_plan const p(s, c.t, linear_layouts(c.t, c.rows));
    std::vector<linear_engine> engines(ranks, linear_engine(c.stages, {}));
    thread_pipeline<linear_engine> run(p, std::move(engines));
    run.run_step(c.values());
    check_step(c, p, run);
    run.run_step(c.values());
    check_step(c, p, run, 2);
  }
}
