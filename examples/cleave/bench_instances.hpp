// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cleave/core/error.hpp>
#include <cleave/core/printable.hpp>
#include <cleave/graph/adjacency.hpp>
#include <cleave/io/graph_files/graph_file.hpp>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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

using bench_rows = cleave::adjacency<std::int32_t, std::int64_t, std::int64_t>;

/// The graph of an instance; empty, with a note, where a file of a folder is none.
/// \throws cleave::error where a file that was named is none.
inline std::optional<bench_rows> rows_of(bench_instance const& i) {
  try {
    return cleave::read_graph_file<std::int32_t, std::int64_t>(i.path);
  } catch (cleave::error const& e) {
    if (i.named) throw;
    note(std::string(e.what()) + "; left out");
    return {};
  }
}

}  // namespace tool
