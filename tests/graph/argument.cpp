// SPDX-License-Identifier: MIT
#include "cleave/graph/argument.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

using namespace cleave;

using namespace cleave::detail;
using enum container::kind;

namespace {

/// [%3, {"k": (%1, %3)}, "text"]
module_argument nested() {
  return {container{list, 3},  node_ref{3}, container{dict, 1}, std::string("k"),
          container{tuple, 2}, node_ref{1}, node_ref{3},        std::string("text")};
}

}  // namespace

TEST_CASE("each_node: visits node references depth first, left to right, with repeats") {
  std::vector<std::uint32_t> read;
  each_node(nested(), [&](std::uint32_t n) { read.push_back(n); });
  CHECK(read == std::vector<std::uint32_t>{3, 1, 3});
}

TEST_CASE("subtree_end: points past the last element, and a dict counts keys and values") {
  auto const a = nested();
  CHECK(subtree_end(a, 0) == a.size());
  CHECK(subtree_end(a, 1) == 2);
  CHECK(subtree_end(a, 2) == 7);
  CHECK(subtree_end(a, 4) == 7);
  CHECK(elements_of({dict, 2}) == 4);
  CHECK(elements_of({slice, 3}) == 3);
}

TEST_CASE("complete: accepts exactly one subtree") {
  CHECK(complete(nested()));
  CHECK(complete({token()}));
  CHECK(complete({container{tuple, 0}}));
  CHECK_FALSE(complete({}));
  CHECK_FALSE(complete({container{list, 1}}));
  CHECK_FALSE(complete({true, false}));
}

TEST_CASE("map_nodes: replaces each node reference and keeps everything else") {
  auto const moved = map_nodes(nested(), [](std::uint32_t n) { return n + 10; });
  CHECK(moved[1] == token(node_ref{13}));
  CHECK(moved[5] == token(node_ref{11}));
  CHECK(map_nodes(moved, [](std::uint32_t n) { return n - 10; }) == nested());
  CHECK(tuple_argument({4, 5}) == module_argument{container{tuple, 2}, node_ref{4}, node_ref{5}});
}

TEST_CASE("argument: its functions handle a million levels of nesting") {
  module_argument deep(1'000'000, container{list, 1});
  deep.push_back(node_ref{7});
  CHECK(complete(deep));
  CHECK(subtree_end(deep, 0) == deep.size());
  std::size_t nodes = 0;
  each_node(deep, [&](std::uint32_t) { ++nodes; });
  CHECK(nodes == 1);
}
