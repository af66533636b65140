// SPDX-License-Identifier: MIT
#include "cleave/split/modules/liveness.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "cleave/split/modules/split_hierarchy.hpp"
#include "support/module_nodes.hpp"
#include "support/random_module_tree.hpp"

using namespace cleave;

using namespace cleave::detail;
using testing::add;

namespace {

using names = std::vector<std::string>;

names names_of(liveness_table const& t, std::vector<std::uint32_t> const& values) {
  names list;
  for (auto const v : values) list.push_back(t.values[v].name);
  return list;
}

}  // namespace

TEST_CASE("liveness_of: a value passes through all stages between its producer and its last reader") {
  module_graph g;
  auto const x = add(g, node_kind::placeholder, "x"), mask = add(g, node_kind::placeholder, "mask");
  auto const a = add(g, node_kind::call_module, "s0", {node_argument(x)});
  auto const a0 = add(g, node_kind::call_function, "i", {node_argument(a), {std::int64_t{0}}}, "getitem");
  auto const b = add(g, node_kind::call_module, "s1", {node_argument(a0), node_argument(a0)});
  auto const a1 = add(g, node_kind::call_function, "j", {node_argument(a), {std::int64_t{1}}}, "getitem");
  auto const c =
      add(g, node_kind::call_module, "s2", {node_argument(b), node_argument(a1), node_argument(mask)});
  add(g, node_kind::output, "output", {tuple_argument({c, a0})});
  auto const t = liveness_of(g);
  REQUIRE(t.stages.size() == 3);
  CHECK(names_of(t, t.inputs) == names{"x", "mask"});
  CHECK(t.inputs_in_order());
  CHECK(names_of(t, t.stages[0].receives) == names{"x", "mask"});
  CHECK(names_of(t, t.stages[0].passes) == names{"mask"});
  CHECK(names_of(t, t.stages[1].arguments) == names{"s0.0", "s0.0"});
  CHECK(names_of(t, t.stages[1].receives) == names{"s0.0", "s0.0", "s0.1", "mask"});
  CHECK(names_of(t, t.stages[1].passes) == names{"s0.1", "mask", "s0.0"});
  CHECK(names_of(t, t.stages[2].receives) == names{"s1", "s0.1", "mask", "s0.0"});
  CHECK(names_of(t, t.stages[2].gives) == names{"s2", "s0.0"});
}

TEST_CASE("liveness_of: distinguishes values of the same name by their producer") {
  module_graph g;
  auto const x = add(g, node_kind::placeholder, "x"), y = add(g, node_kind::placeholder, "y", {}, "s1");
  auto const a = add(g, node_kind::call_module, "s0", {node_argument(x)});
  auto const b = add(g, node_kind::call_module, "s1", {node_argument(a)});
  auto const c = add(g, node_kind::call_module, "s2", {node_argument(b), node_argument(y)});
  add(g, node_kind::output, "output", {node_argument(c)});
  auto const t = liveness_of(g);
  CHECK(names_of(t, t.stages[1].receives) == names{"s0", "s1 (input)"});
  CHECK(names_of(t, t.stages[2].receives) == names{"s1 (stage 1)", "s1 (input)"});
}

TEST_CASE("liveness_of: names nested elements outermost first, and treats equal elements as one value") {
  module_graph g;
  auto const x = add(g, node_kind::placeholder, "x");
  auto const a = add(g, node_kind::call_module, "s0", {node_argument(x)});
  auto const one = add(g, node_kind::call_function, "i", {node_argument(a), {std::int64_t{1}}}, "getitem");
  auto const h = add(g, node_kind::call_function, "h", {node_argument(one), {std::string("h")}}, "getitem");
  auto const again = add(g, node_kind::call_function, "j", {node_argument(a), {std::int64_t{1}}}, "getitem");
  auto const h2 =
      add(g, node_kind::call_function, "k", {node_argument(again), {std::string("h")}}, "getitem");
  auto const b = add(g, node_kind::call_module, "s1", {node_argument(h), node_argument(h2)});
  add(g, node_kind::output, "output", {node_argument(b)});
  auto const t = liveness_of(g);
  CHECK(names_of(t, t.stages[1].receives) == names{"s0.1.h", "s0.1.h"});
  CHECK(t.stages[1].receives[0] == t.stages[1].receives[1]);
}

TEST_CASE(
    "liveness_of: a stage receives exactly the earlier values that it or later stages need, on random "
    "trees") {
  testing::rng random(41);
  for (int round = 0; round < 300; ++round) {
    testing::random_module_tree tree(random, 6, 3);
    auto const r = split_hierarchy(tree.root, tree.cuts());
    auto const t = liveness_of(r.outer);
    for (std::size_t k = 0; k < t.stages.size(); ++k) {
      auto const& s = t.stages[k];
      std::set<std::uint32_t> needed;
      for (std::size_t later = k; later < t.stages.size(); ++later)
        needed.insert(t.stages[later].arguments.begin(), t.stages[later].arguments.end());
      for (auto const v : r.outer.outputs())
        if (r.outer[v].kind != node_kind::get_attr) needed.insert(t.value_of[v]);
      std::set<std::uint32_t> expected;
      for (auto const v : needed)
        if (t.values[v].base < s.call) expected.insert(v);
      CHECK(std::set(s.receives.begin(), s.receives.end()) == expected);
      CHECK(std::ranges::equal(
          s.arguments, std::vector(s.receives.begin(),
                                   s.receives.begin() + static_cast<std::ptrdiff_t>(s.arguments.size()))));
      if (k + 1 < t.stages.size()) CHECK(s.gives == t.stages[k + 1].receives);
      for (auto const v : s.passes) CHECK(t.values[v].base != s.call);
    }
  }
}

TEST_CASE("find_work_between_stages: returns a node between stages, and liveness_of rejects the graph") {
  module_graph g;
  auto const x = add(g, node_kind::placeholder, "x");
  auto const a = add(g, node_kind::call_module, "s0", {node_argument(x)});
  auto const b = add(g, node_kind::call_function, "add_1", {node_argument(a), node_argument(x)}, "add");
  add(g, node_kind::output, "output", {node_argument(b)});
  CHECK(find_work_between_stages(g) == b);
  CHECK_THROWS_AS(liveness_of(g), liveness_error);

  module_graph variable;
  auto const p = add(variable, node_kind::placeholder, "p");
  auto const i =
      add(variable, node_kind::call_function, "i", {node_argument(p), node_argument(p)}, "getitem");
  CHECK(find_work_between_stages(variable) == i);
}

TEST_CASE("liveness_of: finds no stages in a graph without them, and does not send returned state") {
  module_graph g;
  auto const w = add(g, node_kind::get_attr, "w");
  g.add_attribute({"w", module_attribute::kind::parameter, {}, {}, {}, {}});
  auto const x = add(g, node_kind::placeholder, "x");
  CHECK(liveness_of(g).stages.empty());
  auto const a = add(g, node_kind::call_module, "s0", {node_argument(x)});
  add(g, node_kind::output, "output", {tuple_argument({w, a})});
  auto const t = liveness_of(g);
  CHECK(names_of(t, t.stages[0].receives) == names{"x"});
}
