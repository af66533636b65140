// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "cleave/core/ids.hpp"

namespace cleave {

/// A parameter, buffer or tensor of a tree of modules.
struct named_state {
  std::string name;              ///< its path; in a stage, from the stage
  std::string storage;           ///< equal where memory is shared
  stage_id stage = stage_id{0};  ///< who holds it; `the_caller`: the graph around the stages

  bool operator==(named_state const&) const = default;
};

}  // namespace cleave

namespace cleave::detail {

/// The module that owns `name`: all before its last word.
inline std::string_view owner_of(std::string_view name) {
  auto const dot = name.rfind('.');
  return dot == name.npos ? std::string_view() : name.substr(0, dot);
}

}  // namespace cleave::detail

namespace cleave {

/// All names of one storage, in the order of the list that they came from.
struct tie {
  std::string storage;
  std::vector<named_state> members;

  bool operator==(tie const&) const = default;
};

}  // namespace cleave
