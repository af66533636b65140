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

/// A directed instance, as its file has it and as our algorithms take it.
struct bench_dag {
  cleave::cost_dag file;
  cleave::dag_snapshot snapshot;
};

/// What a run is to do.
struct bench_task {
  bench_graph graph;
  bench_dag const* dag = nullptr;  ///< then there is no graph
  std::uint32_t parts = 2;
  double eps = 0.03;
  std::uint64_t seed = 1;
  std::uint32_t threads = 1;

  std::size_t nodes() const { return dag != nullptr ? dag->file.nodes() : graph.nodes(); }
  std::size_t edges() const { return dag != nullptr ? dag->file.arcs.size() : graph.directed_edges() / 2; }
};

struct bench_answer {
  std::vector<std::uint32_t> part_of;
  std::optional<std::int64_t> claimed_cut{};  ///< what the algorithm itself says, where it does
  std::optional<double> claimed_bottleneck{}, bound{};
};

/// An algorithm that the bench knows: `prepare` brings the graph into its form, the call that it returns is
/// what is timed.
struct bench_algorithm {
  enum class input : std::uint8_t { graph, dag };
  std::string name, about;
  input takes = input::graph;
  std::function<std::function<bench_answer()>(bench_task const&)> prepare;
  bool has_threads = false;  ///< else it runs on one, however many are asked for
};

/// All that this build has, and the names of those that it was built without.
std::vector<bench_algorithm> bench_algorithms();
std::vector<std::string> bench_algorithms_left_out();

/// Those that cut directed graphs so that no part needs a later one.
std::vector<bench_algorithm> dag_algorithms();

/// The presets of `partition_kway`.
std::vector<bench_algorithm> kway_algorithms();

/// Those of `classic_methods`.
std::vector<bench_algorithm> classic_algorithms();

/// METIS: empty where the build found none.
std::vector<bench_algorithm> metis_algorithms();

}  // namespace tool
