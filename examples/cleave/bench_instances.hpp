// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cleave/core/error.hpp>
#include <cleave/core/printable.hpp>
#include <cleave/graph/adjacency.hpp>
#include <cleave/io/graph_files/cost_dag.hpp>
#include <cleave/io/graph_files/graph_file.hpp>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench_algorithms.hpp"
#include "files.hpp"
#include "terminal.hpp"

namespace tool {

/// A graph of the bench: a file, by the name it has in tables.
struct bench_instance {
  std::string name, path;
  bool named = false;  ///< by the user, not found in a folder: then it must be readable
};

/// `rgg2d_18` of `graphs/rgg2d_18.graph`.
inline std::string instance_name(fs::path const& file) { return file.stem().string(); }

/// What `word` stands for: a file, or all graphs in a folder, by name.
/// \throws cleave::error where there is none.
inline std::vector<bench_instance> instances_of(std::string const& word) {
  std::error_code unknown;
  if (!fs::is_directory(word, unknown)) {
    if (fs::exists(word, unknown)) return {{instance_name(word), word, true}};
    throw cleave::error(cleave::printable(word, 200) +
                        ": there is no such file, folder or generated instance");
  }
  std::vector<bench_instance> found;
  for (auto const& entry : fs::directory_iterator(word)) {
    auto const path = entry.path().string();
    if (path.ends_with(".by-degree.graph")) continue;  // what bench/peers writes for KaMinPar
    if (std::ranges::any_of(cleave::graph_suffixes, [&](auto const& s) { return path.ends_with(s.suffix); }))
      found.push_back({instance_name(entry.path()), path});
  }
  std::ranges::sort(found, {}, &bench_instance::name);
  if (found.empty()) throw cleave::error(cleave::printable(word, 200) + ": no graph file is in this folder");
  return found;
}

/// An instance in memory: of an undirected one the rows, of a directed one the DAG.
struct loaded_instance {
  cleave::adjacency<std::int32_t, std::int64_t, std::int64_t> rows;
  std::optional<bench_dag> dag;
};

/// Whether its name says which way edges go.
inline bool is_directed(bench_instance const& i) {
  return std::ranges::any_of(cleave::graph_suffixes, [&](auto const& s) {
    return i.path.ends_with(s.suffix) && cleave::is_directed(s.format);
  });
}

/// Empty, with a note, where a file of a folder is no graph.
/// \throws cleave::error where a file that was named is none.
inline std::optional<loaded_instance> load(bench_instance const& i) {
  try {
    loaded_instance loaded;
    if (is_directed(i)) {
      auto file = cleave::read_cost_dag(i.path);
      auto snapshot = cleave::snapshot_of_dag(file);
      loaded.dag = bench_dag{std::move(file), std::move(snapshot)};
    } else {
      loaded.rows = cleave::read_graph_file<std::int32_t, std::int64_t>(i.path);
    }
    return loaded;
  } catch (cleave::error const& e) {
    if (i.named) throw;
    note(std::string(e.what()) + "; left out");
    return {};
  }
}

}  // namespace tool
