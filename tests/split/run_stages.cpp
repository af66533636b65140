// SPDX-License-Identifier: MIT
#include "cleave/split/run_stages.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "support/error_text.hpp"
#include "support/memory_tape.hpp"
#include "support/rng.hpp"

using namespace cleave;
using namespace cleave::testing::in_place;

namespace {

/// Runs a stage on its own memory: copies of its inputs, and its state.
struct stage_memory {
  tape const& g;
  std::span<unsigned> sent;
  std::vector<cell>& own;  // by handle
  std::size_t taken = 0;
  std::vector<unsigned> given{};

  cell argument(std::size_t v, source from) {
    return from == source::state ? own[v] : std::make_shared<unsigned>(sent[taken++]);
  }
  std::vector<cell> clone(std::size_t n, auto lookup) { return execute(g.ops[n], lookup); }
  void result(std::size_t, cell const& m) { given.push_back(*m); }
};

/// x is read by stage 0, which holds the counter 1; stage 1 writes the counter.
tape counter() { return {{{'f', {0, 1}, {2}, {}}, {'w', {2}, {}, {1}}}, {0, 1, 2}, {0}, {1}, {2}}; }
partition const in_two{{part_id{0}, part_id{1}}, 2};

}  // namespace

TEST_CASE(
    "run_stages: stages with memory of their own give the results of the whole graph, step after step") {
  testing::rng random(21);
  std::uint32_t const k = 3;
  int cuts = 0, updates = 0, results = 0;
  for (int round = 0; round < 4000; ++round) {
    auto const g = random_tape(random, round % 3 == 0);
    auto s = snapshot_of(g);
    auto const cut = random_cut(random, s, k);
    plan_options options;
    if (random.one_in(2)) options.inputs = input_order::definition;
    if (random.one_in(2)) options.outputs = output_order::first_use;
    auto p = plan_if_legal(s, cut, options);
    if (!p) continue;
    ++cuts;
    staged_graph const stages(g, std::move(s), std::move(*p));
    std::vector<cell> whole(g.storages.size());
    std::vector own(k, std::vector<cell>(g.storages.size()));
    whole[2] = std::make_shared<unsigned>(9u);
    for (auto& memory : own) memory[2] = std::make_shared<unsigned>(9u);
    for (unsigned step = 0; step < 3; ++step) {
      std::vector const inputs{5 * step, 1 + 5 * step};
      auto const made = run_stages(
          stages, inputs,
          [&](stage_id i, std::span<unsigned> in) {
            stage_memory b{g, in, own[index(i)]};
            emit(stages, i, b);
            return b.given;
          },
          [&](stage_id i, std::size_t v, unsigned now) {
            *own[index(i)][v] = now;
            ++updates;
          });

      for (std::size_t i = 0; i < 2; ++i) whole[i] = std::make_shared<unsigned>(inputs[i]);
      execute_all(g, whole);
      std::vector<unsigned> expected;
      for (std::size_t i = 0; i < g.given.size(); ++i)
        if (stages.snapshot().from[stages.snapshot().outputs[i]] != source::state)
          expected.push_back(*whole[g.given[i]]);
      CHECK(made == expected);
      results += static_cast<int>(made.size());
    }
  }
  CHECK(cuts > 1000);
  CHECK(updates > 100);
  CHECK(results > 6000);
}

TEST_CASE("run_stages: carries out updates after all stages have run") {
  auto const g = counter();
  auto const stages = split(g, in_two);
  std::vector<std::string> calls;
  auto const run = [&](stage_id i, std::span<int> in) {
    calls.push_back("run " + std::to_string(index(i)) + " of " + std::to_string(in.size()));
    return std::vector{int(index(i)) + 40};
  };
  auto const update = [&](stage_id i, std::size_t v, int now) {
    calls.push_back("update " + std::to_string(v) + " of " + std::to_string(index(i)) + " to " +
                    std::to_string(now));
  };
  CHECK(run_stages(stages, std::vector{3}, run, update) == std::vector{40});
  CHECK(calls == std::vector<std::string>{"run 0 of 1", "run 1 of 1", "update 1 of 0 to 41"});
}

TEST_CASE("run_stages: names the count that is wrong, and updates without a function that carries them out") {
  auto const g = counter();
  auto const stages = split(g, in_two);
  int ran = 0;
  auto const run = [&](stage_id, std::span<int>) {
    ++ran;
    return std::vector<int>{};
  };
  auto const update = [](stage_id, std::size_t, int) {};
  using testing::error_text;
  CHECK(error_text([&] { run_stages(stages, std::vector<int>{}, run, update); }) ==
        "run_stages: 0 inputs are given, but the graph has 1");
  CHECK(error_text([&] { run_stages(stages, std::vector{1}, run); }) ==
        "run_stages: stage 1 writes state of stage 0; pass update(stage, v, value), which stores it for the "
        "next step");
  CHECK(ran == 0);
  CHECK(error_text([&] { run_stages(stages, std::vector{1}, run, update); }) ==
        "run_stages: stage 0 returned 0 values, but the number of its outputs is 1");
}

TEST_CASE("run_stages: names the fault of a plan") {
  auto const g = counter();
  auto const fault_of = [&](auto spoil) {
    auto s = snapshot_of(g);
    auto p = make_plan(s, in_two);
    spoil(p);
    staged_graph const stages(g, std::move(s), std::move(p));
    auto const run = [&](stage_id i, std::span<int>) {
      return std::vector<int>(stages.plan().stages[index(i)].outputs.size());
    };
    return testing::error_text(
        [&] { run_stages(stages, std::vector{1}, run, [](stage_id, std::size_t, int) {}); });
  };
  CHECK(fault_of([](plan&) {}) == "accepted");
  CHECK(fault_of([](plan& p) { p.stages[0].outputs.clear(); }) ==
        "run_stages: no stage has output an input of stage 1; see find_plan_fault");
  CHECK(fault_of([](plan& p) { p.stages[1].outputs.clear(); }) ==
        "run_stages: no stage has output an update of stage 0; see find_plan_fault");
  CHECK(fault_of([](plan& p) { p.stages[0].state.clear(); }) ==
        "run_stages: stage 0 does not hold the state that an update of the plan writes; see find_plan_fault");
}

TEST_CASE("run_stages: without an update function, runs graphs that keep no state") {
  tape const g{{{'f', {0}, {1}, {}}, {'f', {1, 0}, {2}, {}}}, {0, 1, 2}, {0}, {}, {2, 0}};
  auto const stages = split(g, in_two);
  auto const run = [](stage_id, std::span<int> in) {
    int sum = 0;
    for (int const x : in) sum += x;
    return std::vector{sum + 1};
  };
  CHECK(run_stages(stages, std::vector{5}, run) == std::vector{12, 5});
}
