// SPDX-License-Identifier: MIT
#pragma once
#include <cleave/graph/adjacency.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench_algorithms.hpp"

namespace tool {

/// An instance of the bench, by its name in tables: a file or a generated graph.
struct bench_instance {
  std::string name;
  std::string path{};  ///< empty for generated graphs
  bool named = true;   ///< named by the user, not found in a folder; must be readable
};

/// Resolves `word`: a generated graph (`rgg2d_18`, `rgg2d:100k`), a family or a size of these
/// (`rgg2d`, `small`), a file, or all graphs and hypergraphs in a folder, by name.
/// \throws cleave::error if there is no such instance.
std::vector<bench_instance> instances_of(std::string const& word);

/// Names and descriptions of generated instances.
std::vector<std::pair<std::string, std::string>> generated_instances();

/// An instance in memory: adjacency rows of an undirected graph, a DAG, or a hypergraph.
struct loaded_instance {
  cleave::adjacency<std::int32_t, std::int64_t, std::int64_t> rows{};
  std::vector<std::vector<double>> further{};  ///< weights of the nodes beyond the first, a list for each
  std::optional<bench_dag> dag{};
  std::optional<bench_hypergraph> hypergraph{};

  bench_algorithm::input kind() const {
    using input = bench_algorithm::input;
    return dag ? input::dag : hypergraph ? input::hypergraph : input::graph;
  }
};

/// Reads an instance. Empty, with a note, if a file in a folder is not a graph.
/// \throws cleave::error if a file named by the user is not a graph.
std::optional<loaded_instance> load(bench_instance const& i);

}  // namespace tool
