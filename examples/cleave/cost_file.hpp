// SPDX-License-Identifier: MIT
#pragma once
#include <cleave/core/bytes.hpp>
#include <cleave/core/error.hpp>
#include <cleave/core/printable.hpp>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files.hpp"

namespace tool {

/// The measured cost of one node.
struct cost_entry {
  std::string name;
  double seconds = 0;                  ///< the median of its runs
  std::optional<std::size_t> bytes{};  ///< of its result; only from CSV
  std::size_t line = 0;                ///< of its first run in a CSV file
};

/// A file with measured costs of nodes: a profile of onnxruntime, or CSV.
struct cost_file {
  fs::path path;
  bool is_profile = false;
  std::size_t runs = 1;  ///< the most that an entry has
  std::vector<cost_entry> entries;
  std::map<std::string, std::vector<std::size_t>> result_bytes{};  ///< by node; also of nodes without a time
};

/// Reads a file of costs: JSON with the events of an onnxruntime profile if its first character is `[` or
/// `{`, else CSV with `name,time[,bytes]` per line. Several runs of a node become their median.
///
/// A time in CSV is in seconds, or has one of the suffixes s, ms, us, µs, ns. A first line that begins with
/// `name,` is a header. In a profile, events inside the time of another node are left out: they belong to the
/// body of an If or a Loop. Events of the category `Shape`, which ./dev profile-onnx adds, give only the
/// sizes of results.
/// \throws cleave::error with the file, the line and the remedy
cost_file read_cost_file(fs::path const& path);

/// Reads the text of a file of costs; `path` is for errors.
cost_file read_cost_text(std::string text, fs::path const& path);

}  // namespace tool
