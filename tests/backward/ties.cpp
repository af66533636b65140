// SPDX-License-Identifier: MIT
#include "cleave/backward/ties.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

std::vector<named_state> random_state(testing::rng& random) {
  std::vector<named_state> state;
  for (std::uint32_t stage = 0; stage < 1 + random.below(4); ++stage)
    for (auto n = random.below(6); n-- > 0;)
      state.push_back({"m" + std::to_string(random.below(3)) + ".w" + std::to_string(n),
                       "p" + std::to_string(random.below(5)), stage_id{stage}});
  return state;
}

/// The expected groups, from a comparison of all pairs.
std::set<std::set<std::size_t>> twin(std::vector<named_state> const& state, tie_scope scope) {
  std::set<std::set<std::size_t>> groups;
  for (auto const& a : state) {
    std::set<std::size_t> group;
    bool apart = false;
    for (std::size_t i = 0; i < state.size(); ++i)
      if (state[i].storage == a.storage) {
        group.insert(i);
        apart = apart || state[i].stage != a.stage;
      }
    if (scope == tie_scope::stages ? apart : group.size() > 1) groups.insert(group);
  }
  return groups;
}

}  // namespace

TEST_CASE("ties_of: finds the ties that a comparison of all pairs finds, with every name") {
  testing::rng random(61);
  for (int round = 0; round < 500; ++round) {
    auto const state = random_state(random);
    for (auto const scope : {tie_scope::names, tie_scope::stages}) {
      std::set<std::set<std::size_t>> got;
      for (auto const& t : ties_of(state, scope)) {
        std::set<std::size_t> group;
        for (std::size_t i = 0; i < state.size(); ++i)
          if (std::ranges::find(t.members, state[i]) != t.members.end()) group.insert(i);
        CHECK(std::ranges::all_of(t.members, [&](auto const& m) { return m.storage == t.storage; }));
        got.insert(group);
      }
      CHECK(got == twin(state, scope));
    }
  }
}

TEST_CASE("ties_of: handles a million names") {
  std::vector<named_state> state;
  for (std::uint32_t i = 0; i < 1'000'000; ++i)
    state.push_back({"w" + std::to_string(i), "p" + std::to_string(i / 2), stage_id{i % 2}});
  CHECK(ties_of(state, tie_scope::stages).size() == 500'000);
}

TEST_CASE("ties_of: tie_names::upstream lists the first name of each owner, and one of the first stage") {
  std::vector<named_state> const state{{"a.w", "p", stage_id{0}},
                                       {"a.v", "p", stage_id{0}},
                                       {"b.w", "p", stage_id{0}},
                                       {"c.w", "p", stage_id{1}},
                                       {"d.w", "p", stage_id{1}}};
  auto const names_of = [&](tie_scope scope) {
    std::vector<std::string> names;
    for (auto const& t : ties_of(state, scope, tie_names::upstream))
      for (auto const& m : t.members) names.push_back(m.name);
    return names;
  };
  CHECK(names_of(tie_scope::names) == std::vector<std::string>{"a.w", "b.w", "c.w", "d.w"});
  CHECK(names_of(tie_scope::stages) == std::vector<std::string>{"a.w", "c.w", "d.w"});
}

TEST_CASE("owner_of: returns the path without its last component") {
  CHECK(owner_of("a.b.w") == "a.b");
  CHECK(owner_of("w").empty());
}

TEST_CASE("state_of: lists state at any depth with its path, and state without a storage stays untied") {
  module_graph inner, g;
  inner.add_attribute({"w", module_attribute::kind::parameter, "p", {}, {}, {}});
  inner.add_attribute({"b", module_attribute::kind::buffer, {}, {}, {}, {}});
  g.add_attribute({"w", module_attribute::kind::parameter, "p", {}, {}, {}});
  g.add_attribute({"x.w", module_attribute::kind::parameter, {}, {}, {}, {}});
  module_attribute a{"layers.0", module_attribute::kind::module, {}, {}, {}, {}};
  a.body.push_back(inner);
  g.add_attribute(a);
  a.path = "layers.1";
  g.add_attribute(a);
  auto const state = state_of(g);
  std::vector<std::string> names;
  for (auto const& s : state) names.push_back(s.name);
  CHECK(names ==
        std::vector<std::string>{"w", "x.w", "layers.0.w", "layers.0.b", "layers.1.w", "layers.1.b"});
  REQUIRE(ties_of(state).size() == 1);
  CHECK(ties_of(state)[0].members.size() == 3);
}

TEST_CASE("state_of_stages: state of the outer graph belongs to the caller") {
  module_graph stage, outer;
  stage.add_attribute({"w", module_attribute::kind::parameter, "p", {}, {}, {}});
  outer.add_attribute({"v", module_attribute::kind::parameter, "p", {}, {}, {}});
  for (auto const* path : {"s0", "s1"}) {
    module_attribute a{path, module_attribute::kind::module, {}, {}, {}, {}};
    a.body.push_back(stage);
    outer.add_attribute(std::move(a));
    module_node n;
    n.kind = node_kind::call_module;
    n.name = n.target = path;
    outer.add(std::move(n));
  }
  auto const ties = ties_of(state_of_stages(outer), tie_scope::stages);
  REQUIRE(ties.size() == 1);
  CHECK(ties[0].members == std::vector<named_state>{{"v", "storage p", the_caller},
                                                    {"w", "storage p", stage_id{0}},
                                                    {"w", "storage p", stage_id{1}}});
}
