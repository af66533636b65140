// SPDX-License-Identifier: MIT
#include "cleave/graph/result_structure.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

using namespace cleave;

using namespace cleave::detail;

namespace {

using enum container::kind;

module_graph returning(module_argument const& result) {
  module_graph g;
  for (auto const* name : {"x", "y"}) {
    module_node n;
    n.kind = node_kind::placeholder;
    n.name = n.target = name;
    g.add(n);
  }
  module_node output;
  output.kind = node_kind::output;
  output.args = {result};
  g.add(output);
  return g;
}

module_argument result_of(module_graph const& g) { return g[*g.output()].args.front(); }

token const leaf = std::string("*");

}  // namespace

TEST_CASE("with_result_structure: replaces the leaves by the elements of a flat result, in order") {
  auto const g = returning({container{tuple, 3}, node_ref{0}, node_ref{1}, std::int64_t{7}});
  module_argument const structure{
      container{list, 2}, leaf, container{dict, 1}, std::string("h"), container{tuple, 2}, leaf, leaf};
  CHECK(leaves_of(structure) == 3);
  CHECK(result_of(with_result_structure(g, structure)) ==
        module_argument{container{list, 2}, node_ref{0}, container{dict, 1}, std::string("h"),
                        container{tuple, 2}, node_ref{1}, std::int64_t{7}});
}

TEST_CASE("with_result_structure: accepts nested elements, and treats a bare result as one element") {
  module_argument const pair{container{tuple, 2}, node_ref{0}, node_ref{1}};
  auto nested = pair;
  nested.insert(nested.begin(), container{tuple, 1});
  CHECK(result_of(with_result_structure(returning(nested), {leaf})) == pair);
  CHECK(result_of(with_result_structure(returning({node_ref{1}}), {container{list, 1}, leaf})) ==
        module_argument{container{list, 1}, node_ref{1}});
  module_argument const keyed{container{dict, 1}, std::string("k"), node_ref{0}};
  CHECK(result_of(with_result_structure(returning(keyed), {leaf})) == keyed);
}

TEST_CASE("with_result_structure: rejects a wrong number of leaves and states both numbers") {
  auto const g = returning({container{tuple, 2}, node_ref{0}, node_ref{1}});
  CHECK_THROWS_WITH_AS(with_result_structure(g, {leaf}),
                       "the structure of the result has 1 leaves, the program returns 2 values",
                       structure_error);
  CHECK_THROWS_AS(with_result_structure(module_graph(), {leaf}), structure_error);
}
