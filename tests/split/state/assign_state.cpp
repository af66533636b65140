// SPDX-License-Identifier: MIT
#include "cleave/split/state/assign_state.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/split/make_plan.hpp"
#include "support/random_state.hpp"
#include "support/rng.hpp"
#include "support/snapshot_builder.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;

namespace {

using names = std::vector<std::string>;

/// Two stages. The first one embeds, the second one projects with the same weight under another name.
struct tied_model {
  tied_model() {
    snapshot_builder b;
    auto const x = b.input(), embedding = b.state(), bias = b.state(), projection = b.state();
    auto const h = b.node(1, {x, embedding, bias});
    b.output(b.node(1, {h, projection}));
    s = b.build();
    p = make_plan(s, {{part_id{0}, part_id{1}}, 2});
    m.tensors = {{"emb.weight", "w"}, {"emb.bias", ""}, {"out.weight", "w"}, {"old.weight", "w"}};
    m.tensor = {none<std::uint32_t>, 0, 1, 2, none<std::uint32_t>, none<std::uint32_t>};
  }
  snapshot_arrays s;
  plan p;
  basic_model_state<std::uint32_t> m;
};

names held(state_assignment const& placed, basic_model_state<std::uint32_t> const& m, std::size_t stage) {
  names list;
  for (auto const& h : placed.stages[stage]) list.push_back(m.tensors[h.tensor].name);
  return list;
}

state_fault fault_of(tied_model const& model, state_options const& options) {
  auto const f = find_state_fault(model.s, model.p, model.m, options);
  REQUIRE(f);
  CHECK_THROWS_AS(assign_state(model.s, model.p, model.m, options), state_error);
  return *f;
}

}  // namespace

TEST_CASE("assign_state: each stage holds its tensors under the names it reads, and ties are reported") {
  tied_model const model;
  auto const placed = assign_state(model.s, model.p, model.m);
  CHECK(held(placed, model.m, 0) == names{"emb.weight", "emb.bias", "old.weight"});
  CHECK(held(placed, model.m, 1) == names{"out.weight"});
  REQUIRE(placed.replicas.size() == 1);
  CHECK(placed.replicas[0] == tie{"w", {{"emb.weight", "w", stage_id{0}}, {"out.weight", "w", stage_id{1}}}});
  CHECK(placed.unused.empty());
}

TEST_CASE(
    "assign_state: puts an alias into the stage of its owning module, or omits an alias without owner") {
  tied_model model;
  CHECK(held(assign_state(model.s, model.p, model.m, {.names = alias_policy::beside_modules}), model.m, 0) ==
        names{"emb.weight", "emb.bias"});
  model.m.modules = {"old"};  // the node of the second stage is inside the owner of the third name
  model.m.inside = {{0, 0, 1}, {0}};
  auto const placed = assign_state(model.s, model.p, model.m);
  CHECK(held(placed, model.m, 0) == names{"emb.weight", "emb.bias"});
  CHECK(held(placed, model.m, 1) == names{"out.weight", "old.weight"});
  CHECK(placed.stages[1] == std::vector<held_state>{{2, true}, {3, false}});
}

TEST_CASE("assign_state: the first stage that reads a transmitted tensor holds it under all its names") {
  tied_model const model;
  auto const placed = assign_state(model.s, model.p, model.m, {.shared = shared_state::transmit});
  CHECK(held(placed, model.m, 0) == names{"emb.weight", "emb.bias", "out.weight", "old.weight"});
  CHECK(held(placed, model.m, 1).empty());
  CHECK(placed.replicas.empty());
  CHECK(placed.sent == std::vector<sent_state>{{0, stage_id{0}, {stage_id{1}}}});
}

TEST_CASE("assign_state: an option selects a tensor by any of its names") {
  tied_model const model;
  using enum shared_state;
  auto const placed =
      assign_state(model.s, model.p, model.m, {.shared = refuse, .by_name = {{"old.weight", transmit}}});
  CHECK(placed.sent.size() == 1);
  auto const unknown = fault_of(model, {.by_name = {{"out.wieght", transmit}}});
  CHECK(unknown.what == state_fault::kind::unknown_name);
  CHECK(unknown.nearest.front() == "out.weight");
  auto const twice = fault_of(model, {.by_name = {{"emb.weight", transmit}, {"out.weight", replicate}}});
  CHECK(twice.what == state_fault::kind::two_choices);
  CHECK(describe(twice).find("'emb.weight' (as 'out.weight')") != std::string::npos);
}

TEST_CASE("assign_state: names a shared tensor and both stages if sharing is refused") {
  tied_model const model;
  auto const f = fault_of(model, {.shared = shared_state::refuse});
  CHECK(f == state_fault{state_fault::kind::shared, "emb.weight", "out.weight", stage_id{0}, stage_id{1}});
  CHECK(describe(f).find("'emb.weight' is read in stage 0 and in stage 1 (as 'out.weight')") == 0);
}

TEST_CASE("find_state_fault: names both stages if one writes a buffer that another reads or writes") {
  tied_model model;
  model.m.writes = {{0, 1, 1}, {0}};
  auto const f = fault_of(model, {});
  CHECK(f.what == state_fault::kind::written_elsewhere);
  CHECK(describe(f).find("'emb.weight' is written in stage 0 and read in stage 1 (as 'out.weight')") == 0);
  model.m.writes = {{0, 1, 2}, {0, 3}};
  CHECK(fault_of(model, {}) ==
        state_fault{state_fault::kind::written_twice, "emb.weight", "old.weight", stage_id{0}, stage_id{1}});
  model.m.writes = {{0, 1, 1}, {1}};  // only the stage that writes it reads it
  CHECK_FALSE(find_state_fault(model.s, model.p, model.m));
}

TEST_CASE("find_state_fault: counts writes that the graph itself shows") {
  tied_model model;
  model.s.slot[4] = model.s.slot[2];  // the first node overwrites the bias
  model.s.latest[model.s.slot[2]] = 4;
  CHECK_FALSE(find_state_fault(model.s, model.p, model.m));
  model.s.slot[4] = model.s.slot[3];
  model.s.latest[model.s.slot[3]] = 4;
  CHECK(fault_of(model, {}).what == state_fault::kind::written_elsewhere);
}

TEST_CASE("assign_state: each stage that calls a module holds its inner state, which cannot be transmitted") {
  tied_model model;
  model.m.tensors.push_back({"norm.scale", ""});
  model.m.reads = {{0, 1, 2}, {4, 4}};
  auto const placed = assign_state(model.s, model.p, model.m);
  CHECK(held(placed, model.m, 0) == names{"emb.weight", "emb.bias", "norm.scale", "old.weight"});
  CHECK(held(placed, model.m, 1) == names{"out.weight", "norm.scale"});
  CHECK(placed.replicas.size() == 2);
  auto const f = fault_of(model, {.by_name = {{"norm.scale", shared_state::transmit}}});
  CHECK(f.what == state_fault::kind::unsendable);
  CHECK(describe(f).find("'norm.scale' is to be transmitted") == 0);
}

TEST_CASE("assign_state: reports tensors that no stage reads, and does not treat constants as state") {
  tied_model model;
  model.m.tensors.push_back({"rest.scale", "", state_kind::buffer});
  model.m.tensors.push_back({"eps", "", state_kind::constant});
  CHECK(assign_state(model.s, model.p, model.m).unused == std::vector<std::uint32_t>{4});
  for (auto& t : model.m.tensors) t.what = state_kind::constant;
  auto const placed = assign_state(model.s, model.p, model.m, {.shared = shared_state::refuse});
  CHECK(placed.replicas.empty());
  CHECK(held(placed, model.m, 1) == names{"out.weight"});
}

TEST_CASE("assign_state: the last stage also holds state that the graph returns unchanged") {
  tied_model model;
  model.s.outputs.push_back(2);
  auto placed = assign_state(model.s, model.p, model.m);
  CHECK(held(placed, model.m, 1) == names{"out.weight", "emb.bias", "emb.weight"});
  CHECK(placed.replicas.size() == 2);
  placed = assign_state(model.s, model.p, model.m, {.shared = shared_state::transmit});
  CHECK(held(placed, model.m, 1).empty());
  CHECK(placed.sent.back() == sent_state{1, stage_id{0}, {the_caller}});
  CHECK_FALSE(find_state_fault(model.s, model.p, model.m, {.by_name = {{"emb.bias", shared_state::refuse}}}));
}

TEST_CASE("assign_state: all stages together hold the original state dictionary, on random programs") {
  rng random(20261);
  for (int round = 0; round < 300; ++round) {
    auto const model = random_state_model(random, called_modules::some);
    auto const placed = assign_state(model.s, model.p, model.m);
    std::set<std::string> original, together;
    for (auto const& t : model.m.tensors)
      if (t.what != state_kind::constant) original.insert(t.name);
    for (auto const& stage : placed.stages)
      for (auto const& h : stage)
        if (model.m.tensors[h.tensor].what != state_kind::constant)
          together.insert(model.m.tensors[h.tensor].name);
    for (auto const t : placed.unused) CHECK(together.insert(model.m.tensors[t].name).second);
    CHECK(together == original);
    for (auto const& copies : placed.replicas)
      for (auto const& c : copies.members) CHECK(original.contains(c.name));
  }
}

TEST_CASE("assign_state: a stage holds each tensor its nodes read once, and aliases only with their owner") {
  rng random(20262);
  for (int round = 0; round < 300; ++round) {
    auto const model = random_state_model(random, called_modules::some);
    auto const by_owner = assign_state(model.s, model.p, model.m, {.names = alias_policy::beside_modules});
    for (std::size_t i = 0; i < model.p.stages.size(); ++i) {
      auto const expected = model.names_by_hand(i);
      std::set<std::string> found, read;
      for (auto const& h : by_owner.stages[i]) {
        CHECK(found.insert(model.m.tensors[h.tensor].name).second);
        if (h.read) read.insert(model.m.tensors[h.tensor].name);
      }
      CHECK(found == expected);
      CHECK(read == model.reads_by_hand(i));
    }
  }
}

TEST_CASE("assign_state: reports a tensor as a tie exactly if two stages hold it") {
  rng random(20263);
  for (int round = 0; round < 300; ++round) {
    auto const model = random_state_model(random, called_modules::some);
    std::map<std::string, std::set<std::uint32_t>> holders, told;
    auto const placed = assign_state(model.s, model.p, model.m);
    for (std::uint32_t i = 0; i < placed.stages.size(); ++i)
      for (auto const& h : placed.stages[i])
        if (!model.is_constant(h.tensor)) holders[model.storage_of(h.tensor)].insert(i);
    std::erase_if(holders, [](auto const& h) { return h.second.size() < 2; });
    for (auto const& copies : placed.replicas)
      for (auto const& c : copies.members) CHECK(told[copies.storage].insert(index(c.stage)).second);
    CHECK(told == holders);
  }
}

TEST_CASE("assign_state: one stage holds a transmitted tensor, and the result lists all other readers") {
  rng random(20264);
  for (int round = 0; round < 300; ++round) {
    auto const model = random_state_model(random);
    auto const placed = assign_state(model.s, model.p, model.m, {.shared = shared_state::transmit});
    CHECK(placed.replicas.empty());
    std::map<std::string, std::set<std::uint32_t>> holders;
    for (std::uint32_t i = 0; i < placed.stages.size(); ++i)
      for (auto const& h : placed.stages[i])
        if (!model.is_constant(h.tensor)) holders[model.storage_of(h.tensor)].insert(i);
    for (auto const& [storage, stages] : holders) CHECK(stages.size() == 1);
    for (auto const& sent : placed.sent) {
      auto& readers = holders[model.storage_of(sent.tensor)];
      CHECK(readers == std::set{index(sent.owner)});
      for (auto const to : sent.to) readers.insert(index(to));
      CHECK(readers == model.readers_by_hand(sent.tensor));
    }
  }
}
