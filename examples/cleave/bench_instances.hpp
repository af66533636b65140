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

/// A graph of the bench, by the name it has in tables: a file, or a generated one.
struct bench_instance {
  std::string name;
  std::string path{};  ///< empty: generated
  bool named = true;   ///< by the user, not found in a folder: then it must be readable
};

/// What `word` stands for: a generated graph (`rgg2d_18`, `rgg2d:100k`), a family or a size of these
/// (`rgg2d`, `small`), a file, or all graphs in a folder, by name.
/// \throws cleave::error where there is none.
std::vector<bench_instance> instances_of(std::string const& word);

/// Names of generated instances, and what they are.
std::vector<std::pair<std::string, std::string>> generated_instances();

/// An instance in memory: of an undirected one the rows, of a directed one the DAG.
struct loaded_instance {
  cleave::adjacency<std::int32_t, std::int64_t, std::int64_t> rows{};
  std::optional<bench_dag> dag{};
};

/// Empty, with a note, where a file of a folder is no graph.
/// \throws cleave::error where a file that was named is none.
std::optional<loaded_instance> load(bench_instance const& i);

}  // namespace tool
