// SPDX-License-Identifier: MIT
#pragma once
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>

#include "support/scratch_folder.hpp"

/// Graphviz as a reader of the library's DOT files.
namespace cleave::testing {

inline bool have_graphviz() { return std::system("dot -V >/dev/null 2>&1") == 0; }

/// Returns the output of `dot -T<format>` for `text`; throws its warnings and errors.
inline std::string graphviz(std::string const& text, std::string const& format) {
  scratch_folder const folder;
  std::ofstream(folder / "graph.dot", std::ios::binary) << text;
  auto const read = [&](std::string const& file) {
    std::ifstream in(folder / file, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  auto const command = "cd '" + folder / "" + "' && dot -T" + format + " graph.dot >out 2>err";
  bool const ran = std::system(command.c_str()) == 0;
  if (auto const complaints = read("err"); !ran || !complaints.empty())
    throw std::runtime_error("dot: " + complaints);
  return read("out");
}

}  // namespace cleave::testing
