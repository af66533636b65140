// SPDX-License-Identifier: MIT
#pragma once
#include <cleave/formats/graph_files/cost_dag.hpp>
#include <cleave/graph/adjacency.hpp>
#include <cleave/graph/hypergraph.hpp>
#include <cleave/partition/kway/hypergraph_options.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tool {

using bench_graph = cleave::adjacency_view<std::int32_t, std::int64_t, std::int64_t>;

/// A directed instance: the graph of its file and its snapshot for cleave's algorithms.
struct bench_dag {
  cleave::cost_dag file;
  cleave::dag_snapshot snapshot;
};

using bench_hypergraph = cleave::hypergraph<std::uint32_t, std::int64_t>;

/// The task of a run. It has one of three: a graph, a DAG, a hypergraph.
struct bench_task {
  bench_graph graph;
  std::span<std::vector<double> const> further{};  ///< weights of the nodes beyond the first
  bench_dag const* dag = nullptr;
  bench_hypergraph const* hypergraph = nullptr;
  cleave::hypergraph_objective goal = cleave::hypergraph_objective::connectivity;  ///< of a hypergraph
  std::uint32_t parts = 2;
  double eps = 0.03;
  std::uint64_t seed = 1;
  std::uint32_t threads = 1;

  std::size_t nodes() const {
    return dag != nullptr ? dag->file.nodes() : hypergraph != nullptr ? hypergraph->nodes : graph.nodes();
  }
  /// The number of edges, arcs or nets.
  std::size_t edges() const {
    return dag != nullptr          ? dag->file.arcs.size()
           : hypergraph != nullptr ? hypergraph->view().nets()
                                   : graph.directed_edges() / 2;
  }
};

struct bench_answer {
  std::vector<std::uint32_t> part_of;
  std::optional<std::int64_t> claimed_cut{};  ///< the cut reported by the algorithm, if any
  std::optional<double> claimed_bottleneck{}, bound{};
};

/// An algorithm of the bench for one kind of input; an algorithm for two kinds is there twice, with one name.
/// `prepare` converts the input to its format and returns the call to be timed.
struct bench_algorithm {
  enum class input : std::uint8_t { graph, dag, hypergraph };
  std::string name, about;
  input takes = input::graph;
  std::function<std::function<bench_answer()>(bench_task const&)> prepare;
  bool has_threads = false;      ///< else it always runs on one thread
  bool several_weights = false;  ///< whether it balances several weights of the nodes
};

/// All algorithms of this build, and the names of those that are not built in.
std::vector<bench_algorithm> bench_algorithms();
std::vector<std::string> bench_algorithms_left_out();

/// The algorithms that cut directed graphs into acyclic parts.
std::vector<bench_algorithm> dag_algorithms();

/// The presets of `partition_kway`.
std::vector<bench_algorithm> kway_algorithms();

/// The presets of `partition_hypergraph`.
std::vector<bench_algorithm> hypergraph_algorithms();

/// The methods of `classic_methods`.
std::vector<bench_algorithm> classic_algorithms();

/// METIS; empty if the build did not find it.
std::vector<bench_algorithm> metis_algorithms();

}  // namespace tool
