// SPDX-License-Identifier: MIT
#include "cleave/split/modules/split_hierarchy.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "support/module_nodes.hpp"

using namespace cleave;

using namespace cleave::detail;
using testing::add;
using enum container::kind;

namespace {

token number(std::int64_t i) { return i; }

void add_module(module_graph& g, std::string const& path, module_graph const* body = nullptr) {
  module_attribute a{path, module_attribute::kind::module, {}, {}, {}, {}};
  if (body) a.body.push_back(*body);
  g.add_attribute(std::move(a));
}

}  // namespace

TEST_CASE("module_inliner: values of a level with several results are read from their makers") {
  module_graph body;
  auto const h = add(body, node_kind::placeholder, "h");
  auto const a = add(body, node_kind::call_module, "a", {node_argument(h)});
  auto const b = add(body, node_kind::call_module, "b", {node_argument(a)});
  add(body, node_kind::output, "output", {tuple_argument({a, b})});
  add_module(body, "a");
  add_module(body, "b");
  module_graph g;
  auto const x = add(g, node_kind::placeholder, "x");
  auto const m = add(g, node_kind::call_module, "m", {node_argument(x)});
  auto const second = add(g, node_kind::call_function, "second", {node_argument(m), {number(-1)}}, "getitem");
  auto const first = add(g, node_kind::call_function, "first", {node_argument(m), {number(0)}}, "getitem");
  auto const sum =
      add(g, node_kind::call_function, "sum", {node_argument(second), node_argument(first)}, "add");
  add(g, node_kind::output, "output", {tuple_argument({sum, m})});  // a tuple inside a tuple
  add_module(g, "m", &body);

  auto const r = split_hierarchy(g, {"m.a"});
  REQUIRE(r.stages.size() == 2);
  for (auto const& stage : r.stages)
    for (auto const& n : r.graph(stage).list()) CHECK(n.target != "getitem");
  auto const& given = r.outer[*r.outer.output()].args.front();
  REQUIRE(given.size() == 5);
  CHECK(std::get<container>(given[2]) == container{tuple, 2});
}

TEST_CASE("split_hierarchy: rejects results that double at each level before they fill the memory") {
  module_graph body;
  auto const h = add(body, node_kind::placeholder, "h");
  auto const a = add(body, node_kind::call_module, "a", {node_argument(h)});
  add(body, node_kind::output, "output", {tuple_argument({h, h})});
  add_module(body, "a");
  CHECK(a == 1);
  module_graph g;
  auto last = add(g, node_kind::placeholder, "x");
  std::vector<std::string> cuts;
  for (int i = 0; i < 60; ++i) {
    auto const path = "m" + std::to_string(i);
    last = add(g, node_kind::call_module, path, {node_argument(last)});
    add_module(g, path, &body);
    cuts.push_back(path + ".a");
  }
  add(g, node_kind::output, "output", {node_argument(last)});
  try {
    split_hierarchy(g, cuts, {.cuts = {.most_nodes = 10'000}});
    FAIL("split");
  } catch (module_cut_error const& e) {
    CHECK(e.witness.what == module_cut_fault::kind::too_large);
  }
}

TEST_CASE("module_inliner: each part reads shared state itself, and the outer graph reads returned state") {
  module_graph body;
  auto const h = add(body, node_kind::placeholder, "h");
  auto const w = add(body, node_kind::get_attr, "w");
  auto const a = add(body, node_kind::call_module, "a", {node_argument(h), node_argument(w)});
  auto const b = add(body, node_kind::call_module, "b", {node_argument(a), node_argument(w)});
  add(body, node_kind::output, "output", {tuple_argument({b, w})});
  add_module(body, "a");
  add_module(body, "b");
  body.add_attribute({"w", module_attribute::kind::parameter, "p", {}, {}, {}});
  module_graph g;
  auto const x = add(g, node_kind::placeholder, "x");
  auto const m = add(g, node_kind::call_module, "m", {node_argument(x)});
  add(g, node_kind::output, "output", {node_argument(m)});
  add_module(g, "m", &body);
  auto const r = split_hierarchy(g, {"m.a"});
  REQUIRE(r.stages.size() == 2);
  auto const* returned = r.outer.find_attribute("m.w");
  REQUIRE(returned);
  CHECK(returned->original == "m.w");
  CHECK(returned->storage == "p");
  for (auto const& stage : r.stages) {
    CHECK(r.graph(stage).inputs().size() == 1);
    auto const& inner = r.graph(stage).attributes()[0].body.front();
    CHECK(inner.state().size() == 1);
    CHECK(inner.find_attribute("w")->original == "m.w");
  }
}
