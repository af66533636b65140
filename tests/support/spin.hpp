// SPDX-License-Identifier: MIT
#pragma once
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

#include "support/scratch_folder.hpp"

/// The model checker spin as a reader of the library's Promela models.
namespace cleave::testing {

inline bool have_spin() {
  return std::system("spin -V >/dev/null 2>&1 && cc --version >/dev/null 2>&1") == 0;
}

/// Returns true if spin finds no deadlock in a Promela model. Throws all its other complaints.
inline bool finishes_in_spin(std::string const& model) {
  scratch_folder const folder;
  std::ofstream(folder / "model.pml", std::ios::binary) << model;
  auto const command = "cd '" + folder / "" +
                       "' && ulimit -v 2000000 && spin -a model.pml >out 2>&1 && cc -O0 -w -DSAFETY "
                       "-DVECTORSZ=16384 -o pan pan.c >>out 2>&1 "
                       "&& ./pan -m100000 >>out 2>&1";
  bool const ran = std::system(command.c_str()) == 0;
  std::ifstream in(folder / "out", std::ios::binary);
  std::string const said(std::istreambuf_iterator<char>(in), {});
  auto const has = [&](char const* text) { return said.find(text) != said.npos; };
  if (has("invalid end state (at depth")) return false;
  if (!ran || !has("errors: 0") || has("max search depth too small"))
    throw std::runtime_error("spin: " + said);
  return true;
}

}  // namespace cleave::testing
