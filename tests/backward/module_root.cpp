// SPDX-License-Identifier: MIT
#include "cleave/backward/stage_root.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "support/linear_stages.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

TEST_CASE("stage_root_of: restores a root from the module graph that was written for it") {
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

TEST_CASE("stage_root_of: numbers text and negative keys once each, after elements with a number") {
  module_graph g;
  auto const add = [&](node_kind kind, std::string const& target, std::vector<module_argument> args) {
    module_node n;
    n.kind = kind;
    n.target = target;
    n.args = std::move(args);
    return g.add(std::move(n));
  };
  auto const item = [&](std::uint32_t of, token const& key) {
    return add(node_kind::call_function, "getitem", {node_argument(of), {key}});
  };
  auto const s = add(node_kind::call_module, "s", {});
  auto const last = item(s, std::int64_t{-1}), text = item(s, "1"), again = item(s, std::int64_t{-1});
  auto const third = item(s, std::int64_t{2}), first = item(s, std::int64_t{0});
  auto const inner = item(last, "a"), same = item(again, "a"), other = item(again, "b");
  auto const root = stage_root_of(g);
  CHECK(root.element[third] == 2);
  CHECK(root.element[first] == 0);
  CHECK(root.element[last] == 3);
  CHECK(root.element[text] == 4);
  CHECK(root.element[again] == 3);
  CHECK(root.element[inner] == 0);
  CHECK(root.element[same] == 0);
  CHECK(root.element[other] == 1);
}

}  // namespace
