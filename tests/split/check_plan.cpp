// SPDX-License-Identifier: MIT
#include "cleave/split/check_plan.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cleave/graph/snapshot.hpp"
#include "cleave/split/make_plan.hpp"
#include "support/random_plan.hpp"
#include "support/rng.hpp"
#include "support/snapshot_builder.hpp"

using namespace cleave;

using namespace cleave::detail;
using kind = plan_fault::kind;

namespace {

/// x -> a -> b -> c; a and c read w; b and c are returned. Stage 0 has a and b, stage 1 has c.
snapshot_arrays small() {
  testing::snapshot_builder b;
  auto const x = b.input();
  auto const w = b.state();
  auto const a = b.node(1, {x, w});
  b.name("a");
  auto const v = b.node(1, {a});
  b.name("b");
  b.output(v);
  b.output(b.node(1, {v, w}));
  b.name("c");
  return b.build();
}

plan planned(snapshot_arrays const& g) {
  return make_plan(g, partition{{part_id{0}, part_id{0}, part_id{1}}, 2});
}

kind fault_of(snapshot_arrays const& g, plan const& p) {
  auto const f = find_plan_fault(g, p);
  REQUIRE(f);
  CHECK(!plan_fault_text(g, *f).empty());
  CHECK_THROWS_AS(check_plan(g, p), plan_error);
  return f->what;
}

}  // namespace

TEST_CASE("find_plan_fault: returns kind and place of each fault, and plan_fault_text describes it") {
  auto const g = small();
  auto const good = planned(g);
  REQUIRE_FALSE(find_plan_fault(g, good));
  CHECK_NOTHROW(check_plan(g, good));
  auto const with = [&](auto change) {
    auto p = good;
    change(p);
    return fault_of(g, p);
  };
  CHECK(with([](plan& p) { p.order.pop_back(); }) == kind::order);
  CHECK(with([](plan& p) { p.order[0] = stage_id{1}; }) == kind::order);
  CHECK(with([](plan& p) { p.order[0] = stage_id{7}; }) == kind::unknown_stage);
  CHECK(with([](plan& p) { p.stages[0].nodes[0] = 9; }) == kind::unknown_node);
  CHECK(with([](plan& p) { p.stages[0].outputs[0] = 99; }) == kind::unknown_value);
  CHECK(with([](plan& p) { p.stages[0].nodes.pop_back(); }) == kind::missing_node);
  CHECK(with([](plan& p) { p.stages[1].nodes.push_back(0); }) == kind::repeated_node);
  CHECK(with([](plan& p) { p.stages[0].nodes.push_back(0); }) == kind::repeated_node);
  CHECK(with([](plan& p) { std::swap(p.stages[0].nodes[0], p.stages[0].nodes[1]); }) == kind::absent_value);
  CHECK(with([](plan& p) { p.stages[1].inputs.clear(); }) == kind::absent_value);
  CHECK(with([](plan& p) { p.stages[1].inputs.push_back(3); }) == kind::repeated_value);
  CHECK(with([](plan& p) { p.stages[1].inputs.push_back(0); }) == kind::unused_value);
  CHECK(with([](plan& p) { std::swap(p.stages[1].inputs, p.stages[1].state); }) == kind::misplaced_value);
  CHECK(with([](plan& p) { p.stages[0].inputs.push_back(3); }) == kind::misplaced_value);
  CHECK(with([](plan& p) { p.stages[0].outputs.clear(); }) == kind::missing_output);
  CHECK(with([](plan& p) { p.stages[0].outputs.push_back(2); }) == kind::unneeded_output);
  CHECK(with([](plan& p) { p.stages[1].outputs.push_back(3); }) == kind::foreign_output);
  CHECK(with([](plan& p) { p.stages[0].outputs.push_back(3); }) == kind::repeated_value);
  CHECK(with([](plan& p) { p.transfers.clear(); }) == kind::missing_transfer);
  CHECK(with([](plan& p) { p.transfers.push_back(p.transfers[0]); }) == kind::unneeded_transfer);
  CHECK(with([](plan& p) { p.updates = p.transfers; }) == kind::unneeded_transfer);
  CHECK(with([](plan& p) { std::swap(p.order[0], p.order[1]); }) == kind::backward_transfer);

  auto p = good;
  p.stages[1].inputs.clear();
  CHECK(*find_plan_fault(g, p) == plan_fault{kind::absent_value, stage_id{1}, plan_fault::no_stage, 2, 3});
  CHECK(plan_fault_text(g, *find_plan_fault(g, p)) ==
        "node c (#2) in stage 1 needs value #3 of node b (#1), which the stage does not have there");
}

TEST_CASE("find_plan_fault: checks groups, effects, copies and companions") {
  testing::snapshot_builder b;
  auto const x = b.input();
  auto const shape = b.node(0, {});
  b.replicable();
  b.node(1, {x, shape});
  b.node(1, {x, shape});
  b.after(1);
  auto const g = b.build();
  auto const good = make_plan(g, partition{{part_id{0}, part_id{0}, part_id{1}}, 2});
  REQUIRE_FALSE(find_plan_fault(g, good));
  auto p = good;
  std::swap(p.order[0], p.order[1]);
  CHECK(fault_of(g, p) == kind::early_node);
  p = make_plan(g, partition{{part_id{0}, part_id{0}, part_id{0}}, 2});
  std::swap(p.stages[0].nodes[1], p.stages[0].nodes[2]);
  CHECK(fault_of(g, p) == kind::early_node);
  p = make_plan(g, partition{{part_id{0}, part_id{0}, part_id{0}}, 2});
  p.stages[1].nodes.push_back(0);
  CHECK(fault_of(g, p) == kind::unneeded_copy);
  b.together(1, 2);
  CHECK(fault_of(b.build(), good) == kind::split_group);
  p = good;
  p.stages[1].nodes.insert(p.stages[1].nodes.begin() + 1, 1);
  CHECK(fault_of(g, p) == kind::repeated_node);
  CHECK_FALSE(find_plan_fault(g, p, [](std::size_t n) { return n == 1; }));

  auto accompanied = small();
  for (std::size_t v = 0; v < accompanied.values(); ++v) {
    if (v == 3) accompanied.companions.add(2);
    accompanied.companions.close();
  }
  CHECK(fault_of(accompanied, planned(small())) == kind::absent_value);
  CHECK_FALSE(find_plan_fault(accompanied, planned(accompanied)));
}

TEST_CASE("find_plan_fault: accepts every plan of make_plan, and its lists in any order") {
  testing::rng random(41);
  std::size_t const rounds = 2000;
  for (std::size_t round = 0; round < rounds; ++round) {
    auto const g = testing::random_rich_graph(random, 1 + random.below(25));
    auto const p =
        testing::random_legal_partition(random, g, static_cast<std::uint32_t>(1 + random.below(4)));
    auto made =
        make_plan(g, p,
                  {.stages = std::vector{order::program, order::fifo, order::upstream}[random.below(3)],
                   .outputs = random.one_in(2) ? output_order::first_use : output_order::production});
    auto const fault = find_plan_fault(g, made);
    CHECK_MESSAGE(!fault, (fault ? plan_fault_text(g, *fault) : ""));
    for (auto& stage : made.stages)
      for (auto* list : {&stage.inputs, &stage.state, &stage.outputs}) std::ranges::reverse(*list);
    std::ranges::reverse(made.transfers);
    CHECK_FALSE(find_plan_fault(g, made));
  }
}

TEST_CASE("find_plan_fault: finds any random change except a free choice of stage for a replicable node") {
  testing::rng random(42);
  std::size_t changed = 0;
  for (int round = 0; round < 4000; ++round) {
    auto const g = testing::random_rich_graph(random, 2 + random.below(15));
    auto const p = testing::random_legal_partition(random, g, 3);
    auto const good = make_plan(g, p);
    auto bad = good;
    auto& stage = bad.stages[random.below(bad.stages.size())];
    std::vector<std::uint32_t>* const lists[] = {&stage.nodes, &stage.inputs, &stage.state, &stage.outputs};
    auto const which = random.below(4);
    auto& list = *lists[which];
    auto const limit = which == 0 ? g.nodes() : g.values();
    if (random.one_in(5) && !bad.transfers.empty())
      bad.transfers[random.below(bad.transfers.size())].to =
          stage_id{static_cast<std::uint32_t>(random.below(bad.stages.size()))};
    else if (random.one_in(2) || list.empty())
      list.insert(list.begin() + static_cast<std::ptrdiff_t>(random.below(list.size() + 1)),
                  static_cast<std::uint32_t>(random.below(limit)));
    else
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(random.below(list.size())));
    if (bad == good) continue;
    ++changed;
    // Two plans are valid alike if they differ in the stage of an unread replicable node, or in the stage
    // that returns its result.
    if (find_plan_fault(g, bad)) continue;
    for (std::size_t i = 0; i < bad.stages.size(); ++i)
      for (auto const n : bad.stages[i].nodes)
        if (std::ranges::count(good.stages[i].nodes, n) == 0) CHECK(g.replicable[n]);
    CHECK(bad.transfers == good.transfers);
  }
  CHECK(changed > 3000);
}

TEST_CASE("plan_faults: returns all faults, the first one as find_plan_fault does") {
  auto const g = small();
  auto p = planned(g);
  p.stages[1].inputs.clear();
  p.stages[0].outputs.push_back(2);
  p.transfers.push_back({2, stage_id{1}, stage_id{0}});
  auto const faults = plan_faults(g, p, [](std::size_t) { return false; });
  std::vector<kind> kinds;
  for (auto const& f : faults) kinds.push_back(f.what);
  CHECK(kinds == std::vector{kind::absent_value, kind::unneeded_transfer, kind::unneeded_transfer,
                             kind::backward_transfer});
  CHECK(faults.front() == *find_plan_fault(g, p));
  CHECK(plan_faults(g, planned(g), [](std::size_t) { return false; }).empty());
}

TEST_CASE("plan_faults: reports a value that a stage only passes on, unless that is allowed") {
  testing::snapshot_builder b;
  auto const a = b.node(1, {b.input()});
  b.node(1, {});
  b.output(b.node(1, {a}));
  auto const g = b.build();
  plan p{{{{0}, {0}, {}, {a}}, {{1}, {a}, {}, {a}}, {{2}, {a}, {}, {3}}},
         {stage_id{0}, stage_id{1}, stage_id{2}},
         {{a, stage_id{0}, stage_id{1}}, {a, stage_id{1}, stage_id{2}}},
         {}};
  auto const nobody = [](std::size_t) { return false; };
  CHECK(find_plan_fault(g, p)->what == kind::unused_value);
  CHECK(plan_faults(g, p, nobody, passing::allowed).empty());
  p.transfers[1].from = stage_id{0};  // stage 1 sends the value to no stage
  CHECK(plan_faults(g, p, nobody, passing::allowed) ==
        std::vector{
            plan_fault{kind::unneeded_output, stage_id{1}, plan_fault::no_stage, none<std::size_t>, a}});
  p.transfers[0].from = stage_id{2};
  CHECK_FALSE(plan_faults(g, p, nobody, passing::allowed).empty());
}

TEST_CASE("code_of: gives each kind of plan fault its own code") {
  std::vector<std::string> codes;
  for (auto k = kind::unknown_stage; k <= kind::backward_transfer;
       k = static_cast<kind>(static_cast<int>(k) + 1))
    codes.emplace_back(code_of(k));
  CHECK(codes.front() == "stage-unknown");
  CHECK(codes.back() == "transfer-backward");
  std::ranges::sort(codes);
  CHECK(std::ranges::adjacent_find(codes) == codes.end());
}
