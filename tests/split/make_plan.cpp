// SPDX-License-Identifier: MIT
#include "cleave/split/make_plan.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/random_plan.hpp"
#include "support/rng.hpp"
#include "support/snapshot_builder.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

using list = std::vector<std::uint32_t>;

void add_once(list& to, std::uint32_t v) {
  if (std::ranges::find(to, v) == to.end()) to.push_back(v);
}

bool is_held(snapshot_arrays const& g, std::uint32_t v) {
  return g.from[v] == source::state || g.from[v] == source::constant;
}

/// Returns whether stage `i` receives `v` from outside.
bool comes_in(snapshot_arrays const& g, plan const& made, std::size_t i, std::uint32_t v) {
  return g.producer[v] == none<std::uint32_t> ||
         std::ranges::find(made.stages[i].nodes, g.producer[v]) == made.stages[i].nodes.end();
}

}  // namespace

// The tests of `check_plan` cover the contents of the lists; this one covers their order.
TEST_CASE("make_plan: lists inputs, state, outputs and transfers in the requested order, on random graphs") {
  testing::rng random(1);
  std::size_t given = 0;
  for (int round = 0; round < 1000; ++round) {
    auto const g = testing::random_rich_graph(random, 1 + random.below(20));
    auto const p =
        testing::random_legal_partition(random, g, static_cast<std::uint32_t>(1 + random.below(4)));
    plan_options const options{
        .stages = random.one_in(2) ? order::program : order::upstream,
        .outputs = random.one_in(2) ? output_order::first_use : output_order::production,
        .inputs = random.one_in(2) ? input_order::first_use : input_order::definition};
    auto const made = make_plan(g, p, options);
    REQUIRE(made.stages.size() == p.parts);

    list first_read;  // crossing values by first reader elsewhere, then those of the caller
    for (std::uint32_t n = 0; n < g.nodes(); ++n)
      for (auto const v : g.operands[n])
        if (!g.replicable[n] && g.producer[v] != none<std::uint32_t> && comes_in(g, made, index(p.of[n]), v))
          add_once(first_read, v);
    for (auto const v : g.outputs) add_once(first_read, v);

    for (std::size_t i = 0; i < made.stages.size(); ++i) {
      auto const& stage = made.stages[i];
      REQUIRE(std::ranges::is_sorted(stage.nodes));
      list inputs, state;
      for (auto const n : stage.nodes)
        for (auto const v : g.operands[n])
          if (comes_in(g, made, i, v)) add_once(is_held(g, v) ? state : inputs, v);
      if (options.inputs == input_order::definition) {
        std::ranges::sort(inputs);
        std::ranges::sort(state);
      }
      REQUIRE(stage.inputs == inputs);
      REQUIRE(stage.state == state);
      list outputs;
      for (auto const v : first_read)
        if (std::ranges::find(stage.outputs, v) != stage.outputs.end()) outputs.push_back(v);
      if (options.outputs == output_order::production) std::ranges::sort(outputs);
      REQUIRE(stage.outputs == outputs);
      given += outputs.size() > 1;
    }

    std::vector<transfer> sent;
    for (auto const to : made.order)
      for (auto const v : made.stages[index(to)].inputs)
        if (auto const m = g.producer[v]; m != none<std::uint32_t>)
          sent.push_back({v, stage_id{index(p.of[m])}, to});
    REQUIRE(made.transfers == sent);
  }
  CHECK(given > 100);
}

TEST_CASE("make_plan: each stage that reads a constant holds it like state, and no stage sends it") {
  testing::snapshot_builder b;
  auto const x = b.input(), w = b.state(), pi = b.constant();
  auto const y = b.node(1, {pi, x, w});
  b.node(1, {pi, y});
  auto const g = b.build();
  auto const made = make_plan(g, {{part_id{0}, part_id{1}}, 2});
  CHECK(made.stages[0].inputs == list{x});
  CHECK(made.stages[0].state == list{pi, w});
  CHECK(made.stages[1].inputs == list{y});
  CHECK(made.stages[1].state == list{pi});
  CHECK(made.transfers == std::vector<transfer>{{y, stage_id{0}, stage_id{1}}});
}

TEST_CASE("make_plan: a companion follows its value in the lists of sender and receiver") {
  testing::snapshot_builder b;
  auto const size = b.node(1), x = b.node(1), y = b.node(1);
  b.node(1, {y, x});
  auto g = b.build();
  for (auto v = size; v < g.values(); ++v, g.companions.close())
    if (v == y) g.companions.add(size);
  auto const made = make_plan(g, {{part_id{0}, part_id{0}, part_id{0}, part_id{1}}, 2},
                              {.outputs = output_order::first_use});
  CHECK(made.stages[1].inputs == list{y, size, x});
  CHECK(made.stages[0].outputs == list{y, size, x});
}

TEST_CASE("make_plan: handles graphs without nodes, and plans the same with every index width") {
  CHECK(make_plan(snapshot_arrays(), {}).stages.empty());
  auto const empty = make_plan(snapshot_arrays(), {{}, 2});
  CHECK(empty.order == std::vector{stage_id{0}, stage_id{1}});
  CHECK(empty.stages[1] == stage_plan());

  auto const size = []<class Index>(testing::basic_snapshot_builder<Index> b) {
    b.node(1, {b.node(1, {b.input(), b.state()})});
    auto const made = make_plan(b.build(), {{part_id{0}, part_id{1}}, 2});
    return std::vector<std::size_t>{made.stages[0].inputs.at(0), made.stages[0].state.at(0),
                                    made.stages[1].inputs.at(0), made.transfers.size()};
  };
  CHECK(size(testing::basic_snapshot_builder<std::uint8_t>()) ==
        size(testing::basic_snapshot_builder<std::uint64_t>()));
}
