// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "cleave/core/ids.hpp"

namespace cleave::inline v0_2 {

/// A parameter, buffer or tensor of a tree of modules.
struct named_state {
  std::string name;              ///< its path; in a stage, the path from the stage
  std::string storage;           ///< equal for names that share memory
  stage_id stage = stage_id{0};  ///< the stage that holds it, or `the_caller` for the graph around the stages

  bool operator==(named_state const&) const = default;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the path of the module that owns `name`: everything before the last dot.
inline std::string_view owner_of(std::string_view name) {
  auto const dot = name.rfind('.');
  return dot == name.npos ? std::string_view() : name.substr(0, dot);
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// All names of one storage, in the order of the list that they were taken from.
struct tie {
  std::string storage;
  std::vector<named_state> members;

  bool operator==(tie const&) const = default;
};

}  // namespace cleave
