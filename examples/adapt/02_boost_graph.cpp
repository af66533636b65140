// SPDX-License-Identifier: MIT
// Adapts a Boost graph without copying it: each vertex is its own result, and edges lead to the readers.
#include <boost/graph/adjacency_list.hpp>
#include <cleave/cleave.hpp>
#include <iostream>
#include <ranges>
#include <string>
#include <vector>

struct task {
  std::string name;
  double milliseconds;
};
using tasks = boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS, task>;

class task_graph {
 public:
  using vertex = boost::graph_traits<tasks>::vertex_descriptor;

  std::vector<vertex> const& nodes() const { return order_; }
  auto operands(vertex v) const {
    auto const [first, last] = in_edges(v, *g_);
    return std::ranges::subrange(first, last) |
           std::views::transform([g = g_](auto const& edge) { return source(edge, *g); });
  }
  double weight(vertex v) const { return (*g_)[v].milliseconds; }
  std::size_t bytes(vertex) const { return 0; }  // unknown
  std::string const& name(vertex v) const { return (*g_)[v].name; }

  explicit task_graph(tasks const& g) : g_(&g) {  // after operands(), whose type is deduced
    auto const [first, last] = vertices(g);
    order_.assign(first, last);                 // Boost's order, read by the next line
    order_ = cleave::topological_order(*this);  // topological order, or an error with the cycle
  }

 private:
  tasks const* g_;
  std::vector<vertex> order_;
};
static_assert(cleave::weighted_graph<task_graph> && cleave::sized_graph<task_graph> &&
              cleave::named_graph<task_graph>);

int main() {
  tasks build;
  auto const link = add_vertex({"link", 30}, build), test = add_vertex({"test", 40}, build),
             fetch = add_vertex({"fetch", 20}, build), parse = add_vertex({"parse", 30}, build),
             check = add_vertex({"check", 25}, build), compile = add_vertex({"compile", 60}, build);
  add_edge(fetch, parse, build), add_edge(parse, check, build), add_edge(parse, compile, build);
  add_edge(compile, link, build), add_edge(link, test, build), add_edge(check, test, build);

  task_graph const g(build);
  auto const stages = cleave::split(g, cleave::balance(g, 3));
  for (auto const id : stages.plan().order) {
    std::cout << "stage " << index(id) << ':';
    for (auto const v : stages[id].nodes) std::cout << ' ' << g.name(v);
    std::cout << '\n';
  }

  add_edge(test, parse, build);
  try {
    task_graph{build};
  } catch (cleave::error const& e) {
    std::cout << e.what() << '\n';
  }
}

// It prints:
//
//   stage 0: fetch parse check
//   stage 1: compile
//   stage 2: link test
//   the graph has a cycle: link (#0) -> test (#1) -> parse (#3) -> compile (#5) -> link (#0)
