// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/pipe/module_pipe.hpp"
#include "cleave/run/batch/split_batch.hpp"
#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/list/list_schedule.hpp"
#include "cleave/schedule/memory/limit_saved_activations.hpp"
#include "support/cases.hpp"
#include "support/random_schedule.hpp"
#include "support/random_toy_model.hpp"
#include "support/rng.hpp"
#include "support/toy_batches.hpp"
#include "support/toy_pipeline.hpp"

/// The executor on threads, for random models with random stages, placements, orders and lowerings:
/// its results must equal those of the whole model.
using namespace cleave;
using namespace cleave::detail;
using namespace cleave::testing;

namespace {

/// The number of random cases: CLEAVE_SOAK, or `few`.
int cases(int few) {
  char const* const asked = std::getenv("CLEAVE_SOAK");
  return asked ? std::atoi(asked) : few;
}

/// A random family whose stages form one chain.
std::optional<schedule> random_family(rng& random) {
  auto const family = static_cast<schedule_family>(random.below(schedule_names.size()));
  if (family == schedule_family::dual_pipe || family == schedule_family::chimera ||
      family == schedule_family::forward_only)
    return std::nullopt;
  auto const ranks = static_cast<std::uint32_t>(1 + random.below(4));
  auto const each = stages_per_rank_of(family).value_or(static_cast<std::uint32_t>(1 + random.below(2)));
  try {
    return make_schedule(family, {ranks, each, static_cast<std::uint32_t>(1 + random.below(8))});
  } catch (shape_error const&) {
    return std::nullopt;
  }
}

/// Places stages anywhere on up to four ranks, in the order of a list schedule for random costs.
schedule anywhere(rng& random, dataflow const& moves, std::uint32_t microbatches) {
  stage_placement place{static_cast<std::uint32_t>(1 + random.below(4)), {}, {}};
  for (std::uint32_t s = 0; s < moves.stages; ++s)
    place.rank_of.push_back(rank_id{static_cast<std::uint32_t>(random.below(place.ranks))});
  for (auto const& m : stage_messages(moves)) place.edges.push_back(m.edge);
  return list_schedule(place, microbatches,
                       {.costs = random_costs(random, moves.stages),
                        .base_latency = static_cast<double>(random.below(4)) / 8,
                        .backward = random.one_in(2) ? backward_form::whole : backward_form::split});
}

/// Offloads or recomputes saved activations in some stages, under a low memory limit.
schedule relieved(rng& random, schedule s) {
  saved_activation_limit limit{.memory_limit = {2 + random.below(4)}, .relief = {}};
  for (std::uint32_t i = 0; i < s.place.stages(); ++i)
    limit.relief.push_back(random.one_in(2) ? saved_relief::offload : saved_relief::recompute);
  if (find_saved_limit_fault(s, limit)) return s;
  return limit_saved_activations(std::move(s), limit);
}

lower_options random_lowering(rng& random) {
  lower_options o;
  if (random.one_in(3)) o.messages = message_order::rounds;
  if (random.one_in(3)) o.receives = receive_time::deferred;
  if (random.one_in(3)) o.grouping = message_grouping::adjacent;
  if (random.one_in(4)) o.max_outstanding_sends = static_cast<std::int64_t>(4 + random.below(4));
  return o;
}

toy_batches divided_by_rows(std::vector<tensor> const& batch, std::uint32_t microbatches) {
  toy_batches made;
  auto const rows = static_cast<std::int64_t>(batch.front().shape.front());
  for (std::int64_t m = 0; m < microbatches; ++m) {
    auto const [first, last] = microbatch_rows(rows, microbatches, m);
    auto& values = made.values.emplace_back();
    for (auto const& t : batch)
      values.push_back(
          constant_of(slice_of(t, static_cast<std::size_t>(first), static_cast<std::size_t>(last))));
    made.rows.push_back(last - first);
  }
  return made;
}

struct soak_case {
  module_graph g = {};
  state_values state = {};
  std::vector<toy_batches> batches = {};  ///< one for each replica
  std::vector<double> weights = {};       ///< of the microbatches' losses
};

/// The results of the whole model for each microbatch in turn.
struct expected_step {
  std::vector<std::vector<tensor>> results;
  parameter_gradients gradients;
};

expected_step run_whole(soak_case const& c) {
  expected_step made;
  for (auto const& b : c.batches)
    for (std::size_t m = 0; m < b.values.size(); ++m) {
      tape t;
      toy_autograd run(t, c.state);
      auto const given = tensors_in({evaluate(c.g, b.values[m], run)});
      for (auto& r = made.results.emplace_back(); auto const& v : given) r.push_back(v.get());
      if (given.back().node) t.backward({{*given.back().node, {{}, {c.weights[m]}}}});
      for (auto const& [holder, g] : run.gradients()) {
        auto& sum = made.gradients[holder];
        if (g) sum = sum ? *sum + *g : *g;
      }
    }
  return made;
}

double largest(parameter_gradients const& all) {
  double most = 0;
  for (auto const& [holder, g] : all)
    if (g)
      for (double const x : g->data) most = std::max(most, std::abs(x));
  return most;
}

/// Makes the shapes of some values dynamic.
void forget_some_shapes(rng& random, stage_wiring& w) {
  std::map<std::pair<stage_id, std::uint32_t>, bool> forgotten;
  for (auto const& e : w.edges.edges)
    if (e.to == the_caller) forgotten[{e.from, e.output}] = false;
  for (std::size_t e = 0; e < w.edges.edges.size(); ++e) {
    auto const& moved = w.edges.edges[e];
    if (moved.from == the_caller || moved.to == the_caller) continue;
    auto const [at, fresh] = forgotten.try_emplace({moved.from, moved.output}, random.one_in(4));
    if (at->second) w.layouts.edges[e].extents = shape_kind::dynamic, w.layouts.edges[e].batch_axis.reset();
  }
}

void soak(rng& random) {
  auto family = random_family(random);
  auto const stages = family ? family->place.stages() : static_cast<std::uint32_t>(1 + random.below(7));
  auto const microbatches = family ? family->microbatches : static_cast<std::uint32_t>(1 + random.below(5));
  soak_case c;
  c.g = random_pipe_model(random, stages, c.state);
  auto const rows = microbatches + random.below(2 * microbatches);
  for (auto replicas = random.one_in(4) ? 2 : 1; replicas > 0; --replicas)
    c.batches.push_back(divided_by_rows(random_model_batch(random, rows), microbatches));
  for (std::uint32_t m = 0; m < microbatches; ++m) c.weights.push_back(0.25 + random.unit());

  auto const shared = random.one_in(3) ? shared_state::transmit : shared_state::replicate;
  auto const pipe = make_module_pipe(c.g, {.state = {.shared = shared}});
  auto wiring = toy_engine_of(pipe, c.state, c.batches.front()).wiring();
  REQUIRE(wiring.edges.stages == stages);
  auto const expected = run_whole(c);
  if (random.one_in(3)) forget_some_shapes(random, wiring);
  toy_stage_engine const engine(pipe, toy_framework(), initial_state(c.state), wiring);

  auto order = family ? *family : anywhere(random, wiring.edges, microbatches);
  if (random.one_in(3)) order = relieved(random, connect_stages(order, wiring.edges));
  auto lowering = random_lowering(random);
  try {
    lower(connect_stages(order, wiring.edges), lowering);
  } catch (send_limit_error const&) {
    lowering.max_outstanding_sends.reset();
  }
  program_options const options{.lowering = lowering,
                                .saved_activations = {{random.below(3) * 20, random.below(3) * 20, 0}}};
  toy_pipeline run(engine, c.batches, order,
                   {.program = options,
                    .delays = random.one_in(2) ? random.next() | 1 : 0,
                    .bucket_bytes = 1 + random.below(100)});
  for (int step = 0; step < 2; ++step) {
    auto const results = run.run_step(c.weights);
    CHECK(results == expected.results);
    for (std::uint32_t d = 0; d < c.batches.size(); ++d)
      for (auto const& [path, own] : run.gradients(d)) {
        parameter_gradients there;
        for (auto const& [holder, g] : own)
          if (auto const at = expected.gradients.find(holder); at != expected.gradients.end())
            there.insert(*at);
        CHECK(largest_difference(own, there) <= 1e-11 * (1 + largest(expected.gradients)));
      }
  }
}

}  // namespace

TEST_CASE("executor: random stages on threads give the results of the whole model") {
  for (int i = 0; i < cases(all_cases() ? 200 : 20); ++i) {
    CAPTURE(i);
    rng random(static_cast<std::uint64_t>(1000 + i));
    REQUIRE_NOTHROW(soak(random));
  }
}
