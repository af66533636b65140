// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/schedule/model/schedule_names.hpp"

namespace cleave::inline v0_2 {

/// An edge between stages: `to` reads outputs of `from`. Gradients flow in the opposite direction.
struct stage_edge {
  stage_id from, to;

  auto operator<=>(stage_edge const&) const = default;
};

/// The rank of each stage, and the edges between stages.
struct stage_placement {
  std::uint32_t ranks = 0;
  std::vector<rank_id> rank_of;   ///< by stage
  std::vector<stage_edge> edges;  ///< ascending, without duplicates

  constexpr std::uint32_t stages() const { return static_cast<std::uint32_t>(rank_of.size()); }
  bool operator==(stage_placement const&) const = default;
};

/// Thrown for a count that no schedule can have. The witness is the count.
using schedule_count_error = tagged_error<struct schedule_count_tag, std::uint64_t>;

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The maximum number of actions of a schedule. It fits in memory, and in 32 bits with room to spare.
inline constexpr std::uint64_t most_actions = std::uint64_t{1} << 30;

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Rejects invalid counts before anything is allocated for them. Each count must be at least 1. Eight actions
/// per stage and microbatch must not exceed `most_actions`. \throws schedule_count_error
constexpr void require_counts(std::uint64_t ranks, std::uint64_t stages_per_rank,
                              std::uint64_t microbatches) {
  auto const require = [](std::uint64_t count, char const* what) {
    if (count == 0)
      throw schedule_count_error(std::string("schedule: the number of ") + what + " must be 1 or more", 0);
  };
  require(ranks, "ranks");
  require(stages_per_rank, "stages per rank");
  require(microbatches, "microbatches");
  std::uint64_t product = 8;
  for (auto const count : {ranks, stages_per_rank, microbatches}) {
    if (count > detail::most_actions / product)
      throw schedule_count_error(
          "schedule: " + std::to_string(ranks) + " ranks with " + std::to_string(stages_per_rank) +
              " stages each and " + std::to_string(microbatches) + " microbatches are too many; at most " +
              std::to_string(detail::most_actions / 8) + " pairs of stage and microbatch are allowed",
          count);
    product *= count;
  }
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Rejects invalid counts for schedules with idle steps, which have a few idle steps per pair of ranks.
/// \throws schedule_count_error
constexpr void require_counts_with_idle(std::uint64_t ranks, std::uint64_t stages_per_rank,
                                        std::uint64_t microbatches) {
  require_counts(ranks, stages_per_rank, microbatches);
  if (ranks > most_actions / 8 / ranks)
    throw schedule_count_error(
        "schedule: " + std::to_string(ranks) + " ranks are too many for a schedule with idle steps", ranks);
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the edges of a chain: stage s feeds stage s + 1, for `stages` stages from `first` on.
constexpr std::vector<stage_edge> chain_edges(std::uint32_t stages, std::uint32_t first = 0) {
  std::vector<stage_edge> edges;
  for (std::uint32_t s = 0; s + 1 < stages; ++s)
    edges.push_back({stage_id{first + s}, stage_id{first + s + 1}});
  return edges;
}

/// Returns a chain of stages placed round-robin: stage s is on rank s mod `ranks`. O(stages).
/// \throws schedule_count_error
constexpr stage_placement loop_placement(std::uint32_t ranks, std::uint32_t stages_per_rank = 1) {
  require_counts(ranks, stages_per_rank, 1);
  stage_placement p{ranks, {}, chain_edges(ranks * stages_per_rank)};
  for (std::uint32_t s = 0; s < ranks * stages_per_rank; ++s) p.rank_of.push_back(rank_id{s % ranks});
  return p;
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns a chain of stages placed in a zigzag. With two stages per rank, stage s is on rank s in the first
/// half and on rank 2 ranks - 1 - s in the second. O(stages). \throws schedule_count_error
constexpr stage_placement wave_placement(std::uint32_t ranks, std::uint32_t stages_per_rank = 2) {
  auto p = loop_placement(ranks, stages_per_rank);
  for (std::uint32_t s = 0; s < p.stages(); ++s)
    if ((s / ranks) % 2 == 1) p.rank_of[s] = rank_id{ranks - 1 - s % ranks};
  return p;
}

/// Returns two chains over the same ranks, in opposite directions. Stage s < ranks is on rank s, stage ranks
/// + s is on rank ranks - 1 - s. O(stages). \throws schedule_count_error
constexpr stage_placement bidirectional_placement(std::uint32_t ranks) {
  auto p = wave_placement(ranks, 2);
  p.edges = chain_edges(ranks);
  for (auto const e : chain_edges(ranks, ranks)) p.edges.push_back(e);
  return p;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// The order in which a chain of stages visits the ranks: round-robin, or forward and back.
enum class map_style : std::uint8_t { loop, v };

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the style with PyTorch's name for it, `loop` or `v`, or nothing.
constexpr std::optional<map_style> find_map_style(std::string_view name) {
  if (name == "loop") return map_style::loop;
  if (name == "v") return map_style::v;
  return std::nullopt;
}

/// Thrown for a name that is not a map style. The witness is the name.
using map_style_error = tagged_error<struct map_style_tag, std::string>;

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the style called `loop` or `v`. \throws map_style_error
inline map_style map_style_of(std::string_view name) {
  if (auto const style = detail::find_map_style(name)) return *style;
  throw detail::map_style_error("no map of stages is called " + quoted(name) + "; use 'loop' or 'v'",
                                std::string(name));
}

/// Returns a chain of `stages` stages placed over `ranks` ranks. With `loop`, some ranks may have one stage
/// less or none. With `v`, every rank has the same number of stages. O(stages + ranks).
/// \throws schedule_count_error, and shape_error if `stages` is not a multiple of `ranks` for `v`
constexpr stage_placement map_stages(map_style style, std::uint32_t ranks, std::uint32_t stages) {
  require_counts(ranks, 1, 1);
  require_counts(stages, 1, 1);
  bool const to_and_fro = style == map_style::v;
  if (to_and_fro && stages % ranks != 0)
    throw shape_error("map 'v'", {shape_fault::kind::stages_not_everywhere, stages, ranks});
  stage_placement p{ranks, {}, chain_edges(stages)};
  for (std::uint32_t s = 0; s < stages; ++s) {
    auto const along = s % ranks;
    p.rank_of.push_back(rank_id{to_and_fro && s / ranks % 2 == 1 ? ranks - 1 - along : along});
  }
  return p;
}

/// Returns the stages of each rank, ascending. O(stages + ranks).
constexpr std::vector<std::vector<stage_id>> stages_by_rank(stage_placement const& p) {
  std::vector<std::vector<stage_id>> stages(p.ranks);
  for (std::uint32_t s = 0; s < p.stages(); ++s) stages[index(p.rank_of[s])].push_back(stage_id{s});
  return stages;
}

}  // namespace cleave
