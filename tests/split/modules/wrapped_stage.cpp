// SPDX-License-Identifier: MIT
#include "cleave/split/modules/wrapped_stage.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "cleave/split/modules/split_hierarchy.hpp"
#include "support/element_interpretation.hpp"
#include "support/module_nodes.hpp"
#include "support/random_module_tree.hpp"

using namespace cleave;

using namespace cleave::detail;
using testing::add;
using testing::element_interpretation;
using testing::integer_value;

namespace {}  // namespace

TEST_CASE(
    "wrapped_stage: takes the outputs of the stage before and returns a tuple, the last one the result") {
  testing::rng random(51);
  for (int round = 0; round < 200; ++round) {
    testing::random_module_tree tree(random, 6, 3);
    auto const r = split_hierarchy(tree.root, tree.cuts());
    auto const t = liveness_of(r.outer);
    for (std::size_t k = 0; k < t.stages.size(); ++k) {
      auto const g = wrapped_stage(r.outer, t, k);
      CHECK(g.inputs().size() == (k == 0 ? t.inputs.size() : t.stages[k].receives.size()));
      CHECK(find_missing_target(g) == std::nullopt);
      REQUIRE(g.output());
      auto const& given = g[*g.output()].args.front();
      if (k + 1 == t.stages.size()) {
        CHECK(given.size() == r.outer[*r.outer.output()].args.front().size());
      } else {
        REQUIRE(std::get_if<container>(&given.front()));
        CHECK(given.size() == 1 + t.stages[k + 1].receives.size());
      }
    }
  }
}

TEST_CASE("wrapped_stage: the first stage takes all inputs in the caller's order, with their defaults") {
  module_graph g;
  auto const unused = add(g, node_kind::placeholder, "unused");
  auto const late = add(g, node_kind::placeholder, "late"), x = add(g, node_kind::placeholder, "x");
  module_node optional;
  optional.kind = node_kind::placeholder;
  optional.name = optional.target = "optional";
  optional.default_value = {std::int64_t{3}};
  auto const o = g.add(std::move(optional));
  for (auto const* path : {"s0", "s1"})
    g.add_attribute({path, module_attribute::kind::module, {}, {}, {}, {}});
  auto const a = add(g, node_kind::call_module, "s0", {node_argument(x), node_argument(o)});
  auto const b = add(g, node_kind::call_module, "s1", {node_argument(a), node_argument(late)});
  module_argument result{container{container::kind::dict, 2}, std::string("b"), node_ref{b}, std::string("x"),
                         node_ref{x}};
  add(g, node_kind::output, "output", {result});
  CHECK(unused == 0);

  auto const t = liveness_of(g);
  std::vector<integer_value> inputs;
  for (std::uint64_t i = 1; i < 4; ++i) inputs.push_back(integer_value::computed(i));
  element_interpretation meaning;
  std::size_t sent = 0;
  auto const channel = [&](std::size_t, integer_value const& v) {
    sent = v.items->size();
    return *v.items;
  };
  CHECK(evaluate_stages(g, t, inputs, meaning, channel) == evaluate(g, inputs, meaning));
  CHECK(sent == 3);  // a, late and x
}

TEST_CASE("evaluate_stages: evaluates a graph without stages as it is") {
  module_graph g;
  auto const x = add(g, node_kind::placeholder, "x");
  add(g, node_kind::output, "output", {node_argument(x)});
  element_interpretation meaning;
  std::vector<integer_value> const inputs{integer_value::computed(5)};
  CHECK(evaluate_stages(g, liveness_of(g), inputs, meaning,
                        [](std::size_t, integer_value const& v) { return *v.items; }) == inputs[0]);
}
