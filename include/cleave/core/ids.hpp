// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "cleave/core/language.hpp"

namespace cleave::inline v0_2 {

/// Ids of different kinds have different types, so that one cannot be passed in place of another.
enum class part_id : std::uint32_t {};        ///< a part of a graph, before it is cut
enum class stage_id : std::uint32_t {};       ///< a piece of a graph, after it is cut
enum class rank_id : std::uint32_t {};        ///< a process or thread that runs stages
enum class microbatch_id : std::uint32_t {};  ///< a slice of the batch

/// The part id of a node that belongs to no part.
inline constexpr part_id no_part{0xffffffff};

/// The code that runs the stages: the end of an edge that is not a stage.
inline constexpr stage_id the_caller{0xffffffff};

template <class T>
concept id = requires { requires __is_enum(T); } && sizeof(T) == sizeof(std::uint32_t);

/// Returns the number behind an id, for use as an array index.
template <id Id>
constexpr std::uint32_t index(Id i) {
  return static_cast<std::uint32_t>(i);
}
}  // namespace cleave
