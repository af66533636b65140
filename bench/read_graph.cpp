// SPDX-License-Identifier: MIT
// Measures the speed of reading each graph file format, with all checks, on one thread from memory.
//   bench_read_graph [FILE ...]
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/formats/graph_files/graph_file.hpp"
#include "cleave/formats/graph_json.hpp"
#include "cleave/graph/module_graph.hpp"
#include "instances/catalogue.hpp"
#include "measure.hpp"

namespace {

using namespace cleave;

using namespace cleave::detail;

/// The nodes and edges of a text.
struct size {
  std::size_t nodes = 0, edges = 0;
};

size read(std::string text, graph_format format) {
  if (is_directed(format)) {
    auto const d = read_cost_dag_text(std::move(text), format);
    return {d.nodes(), d.arcs.size()};
  }
  auto const g = read_graph_text(std::move(text), format);
  return {g.view().nodes(), g.view().directed_edges() / 2};
}

void row(char const* format_name, std::string const& name, std::string const& text, graph_format format) {
  size n;
  auto const seconds = bench::repeat(9, [&] {
    auto copy = text;
    return bench::seconds([&] { n = read(std::move(copy), format); });
  });
  auto const megabytes = static_cast<double>(text.size()) / 1e6;
  std::printf("| %s | %s | %zu | %zu | %.1f | %.0f (%.0f to %.0f) | %.1f |\n", format_name, name.c_str(),
              n.nodes, n.edges, megabytes, megabytes / seconds.median, megabytes / seconds.most,
              megabytes / seconds.least, static_cast<double>(n.nodes + n.edges) / seconds.median / 1e6);
  std::fflush(stdout);
}

void title() {
  std::puts(
      "| format | graph | nodes | edges | MB | MB/s, median (least to most) | 10^6 nodes and edges/s |");
  std::puts("|---|---|--:|--:|--:|---|--:|");
}

/// Converts the operations to calls of a module graph.
module_graph calls_of(cost_dag const& d) {
  auto const order = order_of(d);
  std::vector<module_graph::position> position(d.nodes());
  for (module_graph::position i = 0; i < order.size(); ++i) position[order[i]] = i;
  std::vector<std::vector<module_argument>> operands(d.nodes());
  for (auto const& a : d.arcs) operands[position[a.to]].push_back(node_argument(position[a.from]));
  module_graph g;
  for (auto const n : order) {
    module_node call;
    call.name = "call_" + std::to_string(n);
    call.target = "operation";
    call.args = std::move(operands[position[n]]);
    call.metadata = {{"cost", {d.work[n]}}, {"bytes", {static_cast<std::int64_t>(d.memory[n] * 1e6)}}};
    g.add(std::move(call));
  }
  return g;
}

/// A pseudo-random weight, equal at both ends of an edge.
bench::graph with_weights(bench::graph g) {
  auto const v = g.view();
  for (std::size_t n = 0; n < v.nodes(); ++n) {
    g.node_weight.push_back(static_cast<std::int64_t>(1 + n % 100));
    for (auto const to : v.neighbours(n))
      g.edge_weight.push_back(static_cast<std::int64_t>(1 + (n ^ to) % 1000));
  }
  return g;
}

void run_own() {
  auto const plain = std::get<bench::graph>(*bench::find_instance("rgg2d_18"));
  auto weighted = with_weights(plain);
  auto const name = std::string("rgg2d_18");
  row("METIS", name, write_metis_graph(plain.view()), graph_format::metis);
  row("METIS", name + ", weights", write_metis_graph(weighted.view()), graph_format::metis);
  weighted.node_weight.clear();
  row("Matrix Market", name, write_matrix_market(plain.view()), graph_format::matrix_market);
  row("Matrix Market", name + ", weights", write_matrix_market(weighted.view()), graph_format::matrix_market);
  row("list of edges", name, write_edge_list(plain.view()), graph_format::edge_list);
  row("list of edges", name + ", weights", write_edge_list(weighted.view()), graph_format::edge_list);
  row("DIMACS", name, write_dimacs_graph(plain.view()), graph_format::dimacs);
  row("DIMACS", name + ", weights", write_dimacs_graph(weighted.view()), graph_format::dimacs);
  auto const operations = std::get<cost_dag>(*bench::find_instance("tfm_L512_H64"));
  row(".dag", "tfm_L512_H64", write_dag_file(operations), graph_format::dag);
  row("JSON, dnn-partitioning's", "tfm_L512_H64", write_workload_json(operations), graph_format::json);
  row("JSON, ours", "tfm_L512_H64", write_graph_json(calls_of(operations)), graph_format::json);
}

}  // namespace

int main(int count, char** arguments) {
  try {
    title();
    if (count == 1) run_own();
    for (int i = 1; i < count; ++i) {
      auto const text = text_of_graph_file(arguments[i]);
      row("file", arguments[i], text, graph_format_of(arguments[i], text));
    }
  } catch (std::exception const& e) {
    return std::fprintf(stderr, "%s\n", e.what()), 1;
  }
}
