// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "cleave/checkpoint/checkpoint.hpp"
#include "cleave/checkpoint/checkpoint_writer.hpp"
#include "support/project_files.hpp"
#include "support/random_tensors.hpp"
#include "support/rng.hpp"

namespace cleave::testing {

using namespace detail;

/// Writes a checkpoint as `ranks` ranks do; a random rank writes each tensor.
inline std::uint64_t write_as_ranks(std::string const& folder, checkpoint_label const& label,
                                    std::vector<named_tensor> const& state, std::size_t ranks, rng& random,
                                    checkpoint_options const& options = {}) {
  std::vector<std::vector<named_tensor>> of_rank(ranks);
  for (auto const& t : state) of_rank[random.below(ranks)].push_back(t);
  std::vector<checkpoint_part> parts;
  for (std::size_t r = 0; r < ranks; ++r)
    parts.push_back(
        write_checkpoint_part(folder, label.step, rank_id{static_cast<std::uint32_t>(r)}, of_rank[r]));
  return complete_checkpoint(folder, label, parts, options);
}

inline bool same_elements(tensor_view const& a, tensor_view const& b) {
  auto const bytes = a.elements().bytes();
  return a.type == b.type && a.shape == b.shape && (bytes == 0 || std::memcmp(a.data, b.data, bytes) == 0);
}

/// Returns the contents of all files, by name.
inline std::map<std::string, std::string> texts_in(std::string const& folder) {
  std::map<std::string, std::string> texts;
  for (auto const& entry : std::filesystem::directory_iterator(folder))
    texts[entry.path().filename().string()] = project::text_of(entry.path());
  return texts;
}

inline void write_text(std::string const& file, std::string const& text) {
  std::ofstream(file, std::ios::binary) << text;
}

}  // namespace cleave::testing
