// SPDX-License-Identifier: MIT
// Fuzzes the graph formats, operation lists and partition files. Each input is read or rejected with an
// error. A graph that is read must satisfy its invariants, survive a round trip and be evaluable.
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/formats/graph_files/graph_file.hpp"
#include "cleave/formats/graph_files/hmetis_hypergraph.hpp"
#include "cleave/formats/graph_files/metis_rows.hpp"
#include "cleave/formats/graph_files/part_file.hpp"
#include "cleave/formats/graph_files/patoh_hypergraph.hpp"
#include "cleave/graph/adjacency.hpp"
#include "cleave/graph/hypergraph.hpp"
#include "cleave/partition/kway/options.hpp"
#include "cleave/partition/kway/partition_hypergraph.hpp"
#include "cleave/partition/verify/verify_partition.hpp"
#include "fuzz/unless_refused.hpp"

using namespace cleave;

using namespace cleave::detail;
using cleave::testing::unless_refused;

namespace {

template <class Graph>
bool same(Graph const& a, Graph const& b) {
  return a.offsets == b.offsets && a.targets == b.targets && a.node_weight == b.node_weight &&
         a.edge_weight == b.edge_weight;
}

/// A graph in METIS' format survives a round trip unchanged. In other formats rows are sorted and self-loops
/// dropped.
template <class Weight>
void check_graph(std::string const& text, graph_format format) {
  std::vector<std::vector<double>> further;
  auto const g = unless_refused([&] {
    return read_graph_text<std::uint32_t, Weight>(text, format, {0, matrix_values::weights, &further});
  });
  if (!g) return;
  expects(!find_adjacency_fault(g->view()), "a graph that keeps its promises");
  if (g->view().nodes() > 10'000) return;  // writing as much text again takes long
  auto const written = write_metis_graph(g->view(), further);
  std::vector<std::vector<double>> further_again;
  expects(same(read_metis_graph<std::uint32_t, Weight>(written, &further_again), *g), "METIS again");
  expects(further_again == further, "all weights again");
  if (format == graph_format::metis) return;
  if (g->node_weight.empty() || g->edge_weight.empty()) {
    auto const again = read_dimacs_graph<std::uint32_t, Weight>(write_dimacs_graph(g->view()));
    expects(same(again, *g), "DIMACS again");
  }
  if (!g->node_weight.empty()) return;
  auto const list = read_edge_list<std::uint32_t, Weight>(write_edge_list(g->view()));
  expects(same(list, *g), "a list of edges again");
  auto const matrix =
      read_matrix_market<std::uint32_t, Weight>(write_matrix_market(g->view()), matrix_values::weights);
  expects(same(matrix, *g), "a matrix again");
}

/// Reading a METIS file row by row gives the same graph, or an error if reading the whole does.
template <class Weight>
void check_rows(std::string const& text) {
  if (text.starts_with("\xef\xbb\xbf")) return;  // only files may begin with a mark
  auto const whole = unless_refused([&] { return read_metis_graph<std::uint64_t, Weight>(text); });
  auto const rows = unless_refused([&] {
    std::istringstream in(text);
    metis_rows<Weight> from(in);
    adjacency<std::uint64_t, Weight> g;
    while (from.next()) {
      g.targets.insert(g.targets.end(), from.neighbours().begin(), from.neighbours().end());
      g.edge_weight.insert(g.edge_weight.end(), from.edge_weights().begin(), from.edge_weights().end());
      g.node_weight.push_back(from.node_weight());
      g.offsets.push_back(g.targets.size());
    }
    return g;
  });
  expects(whole.has_value() == rows.has_value(), "a file that is read in both ways or in none");
  if (!whole) return;
  auto weights = whole->node_weight;
  if (weights.empty()) weights.assign(whole->view().nodes(), Weight{1});
  expects(rows->offsets == whole->offsets && rows->targets == whole->targets &&
              rows->edge_weight == whole->edge_weight && rows->node_weight == weights,
          "the same graph");
}

template <class Hypergraph>
bool same_hypergraph(Hypergraph const& a, Hypergraph const& b) {
  return a.nodes == b.nodes && a.offsets == b.offsets && a.pins == b.pins && a.net_weight == b.net_weight &&
         a.node_weight == b.node_weight;
}

/// A hypergraph in the format of hMETIS or PaToH survives a round trip in both, and can be cut.
template <class Weight>
void check_hypergraph(std::string const& text, bool is_patoh) {
  auto const h = unless_refused([&] {
    return is_patoh ? read_patoh_hypergraph<std::uint32_t, Weight>(text)
                    : read_hmetis_hypergraph<std::uint32_t, Weight>(text);
  });
  if (!h) return;
  expects(!find_hypergraph_fault(h->view()), "a hypergraph that keeps its promises");
  if (h->nodes > 200) return;
  auto const again = read_hmetis_hypergraph<std::uint32_t, Weight>(write_hmetis_hypergraph(h->view()));
  expects(same_hypergraph(again, *h), "hMETIS again");
  auto const patoh = read_patoh_hypergraph<std::uint32_t, Weight>(write_patoh_hypergraph(h->view()));
  expects(same_hypergraph(patoh, *h), "PaToH again");
  auto const p = partition_hypergraph(h->view(), 3, {.preset = kway_preset::fast});
  expects(p.of.size() == h->nodes, "a part for each node");
}

void check_operations(std::string const& text) {
  for (auto const format : {graph_format::dag, graph_format::json}) {
    auto const d = unless_refused([&] { return read_cost_dag_text(text, format); });
    if (!d) continue;
    expects(read_workload_json(write_workload_json(*d)).arcs == d->arcs, "operations again");
    if (format == graph_format::dag) expects(read_dag_file(write_dag_file(*d)) == *d, "a .dag file again");
    auto const s = unless_refused([&] { return snapshot_of_dag(*d); });
    if (s) expects(s->graph.nodes() == d->nodes(), "a node for each operation");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::string const text(reinterpret_cast<char const*>(data), size);
  for (auto const format : {graph_format::metis, graph_format::matrix_market, graph_format::edge_list,
                            graph_format::dimacs, graph_format::dag, graph_format::json}) {
    check_graph<std::int64_t>(text, format);
    check_graph<double>(text, format);
  }
  check_rows<std::int64_t>(text);
  check_rows<double>(text);
  check_operations(text);
  for (bool const is_patoh : {false, true}) {
    check_hypergraph<std::int64_t>(text, is_patoh);
    check_hypergraph<double>(text, is_patoh);
  }
  adjacency<std::uint32_t> const four{{0, 1, 2, 3, 4}, {1, 0, 3, 2}, {}, {}};
  if (auto const p = unless_refused([&] { return read_part_file(text, 4); }); p && p->parts < 1000) {
    expects(read_part_file(write_part_file(*p), 4, p->parts) == *p, "parts again");
    expects(verify_partition(four.view(), *p).part_size.size() == p->parts, "parts that are judged");
  }
  return 0;
}
