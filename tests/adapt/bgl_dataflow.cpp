// SPDX-License-Identifier: MIT
#include "cleave/graph/snapshot_arrays.hpp"  // its `source` must not hide Boost's
//
#include "cleave/adapt/bgl/dataflow.hpp"

#include <doctest/doctest.h>

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <concepts>
#include <cstddef>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cleave/adapt/bgl/parts.hpp"
#include "cleave/graph/adapter_fault.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/partition/slices/balance.hpp"
#include "support/error_text.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

struct task {
  std::string name;
  double milliseconds = 1;
  int stage = -1;
};
struct file {
  std::size_t size = 0;
};
template <class Vertices, class Direction>
using tasks = boost::adjacency_list<boost::vecS, Vertices, Direction, task, file>;

/// fetch -> parse -> {check, compile}, compile -> link -> test, check -> test, listed in another order.
template <class Graph>
Graph build_tasks() {
  Graph g;
  std::map<std::string, typename boost::graph_traits<Graph>::vertex_descriptor> at;
  for (auto const& [name, time] : std::vector<std::pair<std::string, double>>{
           {"link", 30}, {"test", 40}, {"fetch", 20}, {"parse", 30}, {"check", 25}, {"compile", 60}})
    at[name] = add_vertex(task{name, time}, g);
  for (auto const& [from, to, size] :
       std::vector<std::tuple<std::string, std::string, std::size_t>>{{"fetch", "parse", 9},
                                                                      {"parse", "check", 2},
                                                                      {"parse", "compile", 3},
                                                                      {"compile", "link", 8},
                                                                      {"link", "test", 1},
                                                                      {"check", "test", 5}})
    add_edge(at[from], at[to], file{size}, g);
  return g;
}

template <class Dataflow>
std::string names(Dataflow const& g) {
  std::string text;
  for (auto const v : g.nodes()) text += g.name(v) + " ";
  return text;
}

using directed = tasks<boost::vecS, boost::directedS>;
using listed = tasks<boost::listS, boost::bidirectionalS>;

// It refers to its graph, so it cannot be made of a temporary one.
static_assert(std::constructible_from<bgl_dataflow<directed>, directed const&> &&
              !std::constructible_from<bgl_dataflow<directed>, directed>);

}  // namespace

TEST_CASE_TEMPLATE("bgl_dataflow: orders the nodes of a directed graph by its edges", Graph, directed,
                   listed) {
  auto const tasks_to_do = build_tasks<Graph>();
  bgl_dataflow const g(tasks_to_do, &task::milliseconds, largest_out_edge(tasks_to_do, &file::size),
                       &task::name);
  using read = std::remove_const_t<decltype(g)>;
  static_assert(weighted_graph<read> && sized_graph<read> && named_graph<read>);
  CHECK_FALSE(find_adapter_fault(g));
  CHECK(names(g) == "fetch parse check compile link test ");
  auto const parse = g.nodes()[1], test = g.nodes()[5];
  CHECK(g.operands(test).size() == 2);
  CHECK(g.operands(parse)[0] == g.nodes()[0]);
  CHECK(g.weight(parse) == 30);
  CHECK(g.bytes(parse) == 3);
}

TEST_CASE("put_parts: writes the parts of a bgl_dataflow into the graph, and bgl_part_map returns the same") {
  auto tasks_to_do = build_tasks<listed>();
  bgl_dataflow const g(tasks_to_do, &task::milliseconds);
  auto const cut = balance(snapshot_of(g), 3);
  put_parts(cut, g, get(&task::stage, tasks_to_do));
  bgl_part_map const part(cut, g);
  for (std::size_t at = 0; at < cut.of.size(); ++at) {
    auto const v = g.nodes()[at];
    CHECK(tasks_to_do[v].stage == static_cast<int>(index(cut.of[at])));
    CHECK(get(part, v) == index(cut.of[at]));
  }
}

TEST_CASE("bgl_dataflow: without properties, weights are 1, sizes are 0 and nodes have no names") {
  boost::compressed_sparse_row_graph<> const empty;
  CHECK(bgl_dataflow(empty).nodes().empty());
  std::vector<std::pair<int, int>> const edges{{2, 0}, {2, 0}, {0, 1}};
  boost::compressed_sparse_row_graph<> const rows(boost::edges_are_unsorted_multi_pass, edges.begin(),
                                                  edges.end(), 3);
  bgl_dataflow const g(rows);
  static_assert(!named_graph<std::remove_const_t<decltype(g)>>);
  CHECK(std::vector(g.nodes().begin(), g.nodes().end()) == std::vector<std::size_t>{2, 0, 1});
  CHECK(g.operands(0).size() == 2);  // parallel edges count as repeated operands
  CHECK(g.weight(1) == 1);
  CHECK(g.bytes(1) == 0);
}

TEST_CASE("bgl_dataflow: reports a cycle with the names of its nodes") {
  auto g = build_tasks<directed>();
  add_edge(1, 3, g);  // test -> parse
  CHECK(cleave::testing::error_text([&] { bgl_dataflow(g, unsaid{}, unsaid{}, &task::name); }) ==
        "the graph has a cycle: link (#0) -> test (#1) -> parse (#3) -> compile (#5) -> link (#0)");
}
