// SPDX-License-Identifier: MIT
#include "cleave/run/executor/detail/executor.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/run/program/make_rank_program.hpp"
#include "cleave/run/threads/thread_pipeline.hpp"
#include "cleave/schedule/families/generate.hpp"
#include "support/linear_engine.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;

namespace {

/// The first stage keeps the numbers above 0, so that the shape is not known before; the second copies them
/// to two readers; the last adds up. All gradients are one.
struct sieve {
  std::map<std::pair<stage_id, microbatch_id>, tensor_shape> seen{};
  std::size_t forced = 0;  ///< unless 0, the number of elements that the first stage claims to have made

  static double* numbers(tensor_view const& v) { return static_cast<double*>(v.data); }

  void forward(host_device::stream&, stage_pass const& p, std::span<tensor_view const> in,
               std::span<tensor_view> out) {
    seen[{p.stage, p.microbatch}] = in[0].shape;
    auto const n = static_cast<std::size_t>(in[0].shape.extents[0]);
    std::vector<double> made;
    for (std::size_t i = 0; i < n; ++i)
      if (p.stage != stage_id{0} || numbers(in[0])[i] > 0) made.push_back(numbers(in[0])[i]);
    if (p.stage == stage_id{3}) {
      double sum = 0;
      for (auto const& v : in)
        for (std::int64_t i = 0; i < v.shape.extents[0]; ++i) sum += numbers(v)[i];
      numbers(out[0])[0] = sum;
      return;
    }
    for (auto& v : out) {
      v.shape = {static_cast<std::int64_t>(forced && p.stage == stage_id{0} ? forced : made.size())};
      std::ranges::copy(made, numbers(v));
    }
  }
  void backward(host_device::stream&, stage_pass const& p, std::span<tensor_view const> gradients,
                std::span<tensor_view const> in) {
    for (auto const& v : in) {
      if (!v.data) continue;
      CHECK(v.shape == seen.at({p.stage, p.microbatch}));
      for (std::int64_t i = 0; i < v.shape.extents[0]; ++i)
        numbers(v)[i] = p.from_loss ? 1 : numbers(gradients[0])[i];
    }
    if (!p.from_loss && p.stage == stage_id{0})
      for (std::int64_t i = 0; i < gradients[0].shape.extents[0]; ++i) arrived += numbers(gradients[0])[i];
  }
  double arrived = 0;
};

/// 0 feeds 1, which feeds 2 and 3; 2 feeds 3 too.
dataflow sieve_transport() {
  return {.stages = 4,
          .edges = {{the_caller, 0, stage_id{0}, 0},
                    {stage_id{0}, 0, stage_id{1}, 0},
                    {stage_id{1}, 0, stage_id{2}, 0},
                    {stage_id{1}, 0, stage_id{3}, 0},
                    {stage_id{2}, 0, stage_id{3}, 1},
                    {stage_id{3}, 0, the_caller, 0}}};
}

run_layouts sieve_layouts(dataflow const& t) {
  run_layouts l;
  for (auto const& e : t.edges)
    l.edges.push_back(
        {.type = element_type::f64,
         .shape = {e.to == the_caller ? 1 : 6},
         .gradient = e.from == the_caller || e.to == the_caller ? gradient_use::none : gradient_use::wanted,
         .extents = e.from == the_caller || e.to == the_caller ? shape_kind::fixed : shape_kind::dynamic});
  return l;
}

struct sieve_run {
  dataflow t = sieve_transport();
  std::vector<std::vector<double>> numbers{
      {1, -1, 2, -2, 3, -3}, {-1, -1, -1, -1, -1, -1}, {1, 2, 3, 4, 5, 6}};
  std::vector<tensor_view> inputs;
  step_plan plan;

  explicit sieve_run(std::vector<rank_id> rank_of)
      : plan(list_of(t, std::move(rank_of)), t, sieve_layouts(t)) {
    for (auto& x : numbers) inputs.push_back({x.data(), element_type::f64, {6}});
  }
  static schedule list_of(dataflow const& t, std::vector<rank_id> rank_of) {
    schedule s{placement_of(t, 2, std::move(rank_of)), 3, {{}, {}}};
    for (std::uint32_t m = 0; m < 3; ++m)
      for (std::uint32_t i = 0; i < 4; ++i)
        s.ranks[index(s.place.rank_of[i])].push_back(
            {action_kind::forward, 0, stage_id{i}, microbatch_id{m}});
    for (std::uint32_t m = 0; m < 3; ++m)
      for (std::uint32_t i = 4; i-- > 0;)
        s.ranks[index(s.place.rank_of[i])].push_back(
            {action_kind::backward, 0, stage_id{i}, microbatch_id{m}});
    return s;
  }
};

}  // namespace

TEST_CASE("executor: dynamic shapes travel with their values, also to several readers") {
  for (auto const& rank_of : {std::vector{rank_id{0}, rank_id{1}, rank_id{0}, rank_id{1}},
                              std::vector{rank_id{0}, rank_id{0}, rank_id{0}, rank_id{1}},
                              std::vector{rank_id{1}, rank_id{0}, rank_id{1}, rank_id{1}}}) {
    sieve_run r(rank_of);
    thread_pipeline<sieve> run(r.plan, std::vector<sieve>(2));
    run.run_step({r.inputs, 1, {}});
    double const sums[] = {12, 0, 42};
    for (std::uint32_t m = 0; m < 3; ++m)
      CHECK(*static_cast<double const*>(run.result(microbatch_id{m}, 0)->data) == sums[m]);
    CHECK(run.stages_of(rank_of[1]).seen.at({stage_id{1}, microbatch_id{0}}) == tensor_shape{3});
    CHECK(run.stages_of(rank_of[2]).seen.at({stage_id{2}, microbatch_id{1}}) == tensor_shape{0});
    CHECK(run.stages_of(rank_of[0]).arrived == 2 * (3 + 0 + 6));
  }
}

TEST_CASE("executor: the caller gets a result in its actual shape, also if stages read it too") {
  auto with_results = [](sieve_run& r) {
    r.t.edges.push_back({stage_id{0}, 0, the_caller, 1});
    r.t.edges.push_back({stage_id{2}, 0, the_caller, 2});
    return sieve_layouts(r.t);
  };
  sieve_run r({rank_id{0}, rank_id{1}, rank_id{0}, rank_id{1}});
  auto layouts = with_results(r);
  layouts.edges[1].extents = layouts.edges[4].extents = shape_kind::dynamic;
  for (std::size_t const e : {6u, 7u}) {
    layouts.edges[e].shape = {6};
    layouts.edges[e].extents = shape_kind::dynamic;
  }
  program_options const options;
  step_plan const plan(sieve_run::list_of(r.t, {rank_id{0}, rank_id{1}, rank_id{0}, rank_id{1}}), r.t,
                       layouts, options);
  thread_pipeline<sieve> run(plan, std::vector<sieve>(2));
  run.run_step({r.inputs, 1, {}});
  std::int64_t const kept[] = {3, 0, 6};
  for (std::uint32_t m = 0; m < 3; ++m) {
    CHECK(run.result(microbatch_id{m}, 1)->shape == tensor_shape{kept[m]});
    CHECK(run.result(microbatch_id{m}, 2)->shape == tensor_shape{kept[m]});
    CHECK(run.result(microbatch_id{m}, 0)->shape == tensor_shape{1});
  }
  CHECK(static_cast<double const*>(run.result(microbatch_id{0}, 1)->data)[2] == 3);

  std::vector<sieve> too_many(2);
  too_many[0].forced = 7;
  thread_pipeline<sieve> refused(plan, too_many);
  CHECK_THROWS_AS(refused.run_step({r.inputs, 1, {}}), stage_error);
}

TEST_CASE("executor: rejects a value larger than its room, and names its edge") {
  sieve_run r({rank_id{0}, rank_id{1}, rank_id{0}, rank_id{1}});
  std::vector<sieve> stages(2);
  stages[0].forced = 7;
  thread_pipeline<sieve> run(r.plan, stages);
  CHECK_THROWS_WITH_AS(run.run_step({r.inputs, 1, {}}),
                       "rank 0, forward, stage 0, microbatch 0: result #0 has more elements, or another "
                       "number of axes, than edge "
                       "#1 has room for",
                       stage_error);
}

TEST_CASE("executor: rejects a program that its stages cannot carry out") {
  struct forward_stages {
    void forward(host_device::stream&, stage_pass const&, std::span<tensor_view const>,
                 std::span<tensor_view>) {}
  };
  sieve_run r({rank_id{0}, rank_id{1}, rank_id{0}, rank_id{1}});
  CHECK_THROWS_WITH_AS(
      thread_pipeline<forward_stages>(r.plan, std::vector<forward_stages>(2)),
      "program: rank 0, backward 2 0 needs stages with backward(stream, pass, gradients, inputs)",
      program_need_error);
}
