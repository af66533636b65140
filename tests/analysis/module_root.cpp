// SPDX-License-Identifier: MIT
#include "cleave/analysis/module_root.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "support/linear_stages.hpp"
#include "support/rng.hpp"

using namespace cleave;

namespace {

TEST_CASE("stage_root_of: reads a root back from the graph that it is written as") {
  testing::rng random(41);
  for (int i = 0; i < 200; ++i) {
    auto const [root, loss] = testing::random_root(random, 1 + random.below(10));
    auto const read = stage_root_of(testing::root_graph(root, loss));
    REQUIRE(read.values() == root.values() + 1);  // and the output
    CHECK(read.kind.back() == root_kind::other);
    for (std::uint32_t v = 0; v < root.values(); ++v) {
      CHECK(read.kind[v] == root.kind[v]);
      CHECK(std::ranges::equal(read.reads[v], root.reads[v]));
      CHECK(read.element[v] == root.element[v]);
    }
  }
}

TEST_CASE("stage_root_of: state has no gradient, and nested and keyword arguments are read in order") {
  module_graph g;
  auto const add = [&](node_kind kind, std::vector<module_argument> args) {
    module_node n;
    n.kind = kind;
    n.name = n.target = "n" + std::to_string(g.list().size());
    n.args = std::move(args);
    return g.add(std::move(n));
  };
  auto const x = add(node_kind::placeholder, {}), w = add(node_kind::get_attr, {});
  module_node call;
  call.kind = node_kind::call_module;
  call.args = {tuple_argument({w, x}), {token()}};
  call.kwargs = {{"k", node_argument(x)}};
  g.add(std::move(call));
  auto const root = stage_root_of(g);
  CHECK(root.kind == std::vector{root_kind::input, root_kind::other, root_kind::stage});
  CHECK(std::ranges::equal(root.reads[2], std::vector<std::uint32_t>{w, x, x}));
}

}  // namespace
