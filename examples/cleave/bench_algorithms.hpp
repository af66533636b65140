// SPDX-License-Identifier: MIT
#pragma once
#include <cleave/formats/graph_files/cost_dag.hpp>
#include <cleave/graph/adjacency.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tool {

using bench_graph = cleave::adjacency_view<std::int32_t, std::int64_t, std::int64_t>;

/// A directed instance: the graph of its file and its snapshot for cleave's algorithms.
struct bench_dag {
  cleave::cost_dag file;
  cleave::dag_snapshot snapshot;
};

/// The task of a run.
struct bench_task {
  bench_graph graph;
  bench_dag const* dag = nullptr;  ///< if set, there is no graph
  std::uint32_t parts = 2;
  double eps = 0.03;
  std::uint64_t seed = 1;
  std::uint32_t threads = 1;

  std::size_t nodes() const { return dag != nullptr ? dag->file.nodes() : graph.nodes(); }
  std::size_t edges() const { return dag != nullptr ? dag->file.arcs.size() : graph.directed_edges() / 2; }
};

struct bench_answer {
  std::vector<std::uint32_t> part_of;
  std::optional<std::int64_t> claimed_cut{};  ///< the cut reported by the algorithm, if any
  std::optional<double> claimed_bottleneck{}, bound{};
};

/// An algorithm of the bench. `prepare` converts the graph to its format and returns the call to be timed.
struct bench_algorithm {
  enum class input : std::uint8_t { graph, dag };
  std::string name, about;
  input takes = input::graph;
  std::function<std::function<bench_answer()>(bench_task const&)> prepare;
  bool has_threads = false;  ///< else it always runs on one thread
};

/// All algorithms of this build, and the names of those that are not built in.
std::vector<bench_algorithm> bench_algorithms();
std::vector<std::string> bench_algorithms_left_out();

/// The algorithms that cut directed graphs into acyclic parts.
std::vector<bench_algorithm> dag_algorithms();

/// The presets of `partition_kway`.
std::vector<bench_algorithm> kway_algorithms();

/// The methods of `classic_methods`.
std::vector<bench_algorithm> classic_algorithms();

/// METIS; empty if the build did not find it.
std::vector<bench_algorithm> metis_algorithms();

}  // namespace tool
