// SPDX-License-Identifier: MIT
#include "cleave/graph/decompose_sizes.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "support/module_nodes.hpp"

using namespace cleave;

using namespace cleave::detail;
using testing::node;
using strings = std::vector<std::string>;

namespace {

/// A graph of x with a symbolic shape, the size of x, and a node that reads the size.
module_graph with_reader(module_node reader) {
  module_graph g;
  auto x = node(node_kind::placeholder, "x");
  x.shape = {std::string("s0"), std::int64_t{4}, std::string("2*s1 + s0")};
  auto const at = g.add(x);
  g.add(node(node_kind::call_method, "size", {node_argument(at)}));
  g.add(std::move(reader));
  return g;
}

strings names(module_graph const& g) {
  strings list;
  for (auto const& n : g.list()) list.push_back(n.name);
  return list;
}

}  // namespace

TEST_CASE(
    "decompose_sizes: adds each dimension after the tensor, last one first, and splices it into calls") {
  auto const g = decompose_sizes(
      with_reader(node(node_kind::call_method, "view", {node_argument(0), node_argument(1)})));
  CHECK(names(g) == strings{"x", "sym_size_int_1", "sym_size_int", "view"});
  CHECK(g[1].args == std::vector<module_argument>{{node_ref{0}}, {std::int64_t{2}}});
  CHECK(g[1].binds == "");
  CHECK(g[1].symbols == strings{"s0", "s1"});
  CHECK(g[2].binds == "s0");
  CHECK(g[3].args ==
        std::vector<module_argument>{{node_ref{0}}, {node_ref{2}}, {std::int64_t{4}}, {node_ref{1}}});
}

TEST_CASE("decompose_sizes: replaces a size inside an operand by the tuple of its dimensions") {
  auto reader = node(node_kind::call_function, "f", {{container{container::kind::list, 1}, node_ref{1}}});
  reader.kwargs.push_back({"shape", node_argument(1)});
  auto const g = decompose_sizes(with_reader(reader));
  module_argument const tuple{container{container::kind::tuple, 3}, node_ref{2}, std::int64_t{4},
                              node_ref{1}};
  CHECK(g[3].kwargs[0].value == tuple);
  CHECK(g[3].args[0].size() == 5);
  auto const returned = decompose_sizes(with_reader(node(node_kind::output, "output", {node_argument(1)})));
  CHECK(returned[3].args == std::vector<module_argument>{tuple});
}

TEST_CASE("decompose_sizes: replaces an indexed size by the dimension, and keeps an index out of range") {
  for (auto const& [index, expected] : {std::pair{1, token(std::int64_t{4})}, {-3, token(node_ref{2})}}) {
    auto g =
        with_reader(node(node_kind::call_function, "getitem", {node_argument(1), {std::int64_t{index}}}));
    g.add(node(node_kind::output, "output", {node_argument(2)}));
    auto const made = decompose_sizes(g);
    CHECK(names(made) == strings{"x", "sym_size_int_1", "sym_size_int", "output"});
    CHECK(made[3].args[0].front() == expected);
  }
  auto const outside = decompose_sizes(
      with_reader(node(node_kind::call_function, "getitem", {node_argument(1), {std::int64_t{3}}})));
  CHECK(outside[3].name == "getitem");
}

TEST_CASE("decompose_sizes: leaves the size of a tensor without a shape unchanged") {
  module_graph g;
  auto const x = g.add(node(node_kind::placeholder, "x"));
  auto const size = g.add(node(node_kind::call_method, "size", {node_argument(x)}));
  g.add(node(node_kind::call_method, "view", {node_argument(x), node_argument(size)}));
  auto const made = decompose_sizes(g);
  CHECK(std::vector(made.list().begin(), made.list().end()) == std::vector(g.list().begin(), g.list().end()));
}

TEST_CASE("symbols_in: returns each symbol once and no numbers") {
  CHECK(symbols_in("2*s1 + s0*s1 - u10//3") == strings{"s0", "s1", "u10"});
  CHECK(symbols_in("17").empty());
  CHECK(symbols_in("").empty());
}
