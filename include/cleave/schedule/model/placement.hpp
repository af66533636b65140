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

namespace cleave {

/// Stage `to` reads what stage `from` makes; gradients go the other way.
struct stage_edge {
  stage_id from, to;

  auto operator<=>(stage_edge const&) const = default;
};

/// Which rank runs each stage, and which stages feed which.
struct stage_placement {
  std::uint32_t ranks = 0;
  std::vector<rank_id> rank_of;   ///< of a stage
  std::vector<stage_edge> edges;  ///< ascending, each once

  constexpr std::uint32_t stages() const { return static_cast<std::uint32_t>(rank_of.size()); }
  bool operator==(stage_placement const&) const = default;
};

/// A count that no schedule can have. The witness: the count.
using schedule_count_error = tagged_error<struct schedule_count_tag, std::uint64_t>;

}  // namespace cleave

namespace cleave::detail {

/// How many actions a schedule may have in all: what fits in memory, and in 32 bits with room to spare.
inline constexpr std::uint64_t most_actions = std::uint64_t{1} << 30;

}  // namespace cleave::detail

namespace cleave {

/// Refuses counts before anything is allocated for them: each must be 1 at least, and eight actions for each
/// stage and microbatch must stay below `most_actions`. \throws schedule_count_error
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
              std::to_string(detail::most_actions / 8) + " pairs of stage and microbatch are scheduled",
          count);
    product *= count;
  }
}

}  // namespace cleave

namespace cleave::detail {

/// The same for schedules with idle steps, of which each rank has a few for every other rank.
/// \throws schedule_count_error
constexpr void require_counts_with_idle(std::uint64_t ranks, std::uint64_t stages_per_rank,
                                        std::uint64_t microbatches) {
  require_counts(ranks, stages_per_rank, microbatches);
  if (ranks > most_actions / 8 / ranks)
    throw schedule_count_error(
        "schedule: " + std::to_string(ranks) + " ranks are too many for a schedule with idle steps", ranks);
}

}  // namespace cleave::detail

namespace cleave {

/// Stage s feeds stage s + 1, for s from `first` on.
constexpr std::vector<stage_edge> chain_edges(std::uint32_t stages, std::uint32_t first = 0) {
  std::vector<stage_edge> edges;
  for (std::uint32_t s = 0; s + 1 < stages; ++s)
    edges.push_back({stage_id{first + s}, stage_id{first + s + 1}});
  return edges;
}

/// A chain that goes round the ranks: stage s is on rank s mod `ranks`. O(stages).
/// \throws schedule_count_error
constexpr stage_placement loop_placement(std::uint32_t ranks, std::uint32_t stages_per_rank = 1) {
  require_counts(ranks, stages_per_rank, 1);
  stage_placement p{ranks, {}, chain_edges(ranks * stages_per_rank)};
  for (std::uint32_t s = 0; s < ranks * stages_per_rank; ++s) p.rank_of.push_back(rank_id{s % ranks});
  return p;
}

}  // namespace cleave

namespace cleave::detail {

/// A chain that goes to and fro: with two stages a rank, stage s is on rank s, then on rank 2 ranks - 1 - s.
/// O(stages). \throws schedule_count_error
constexpr stage_placement wave_placement(std::uint32_t ranks, std::uint32_t stages_per_rank = 2) {
  auto p = loop_placement(ranks, stages_per_rank);
  for (std::uint32_t s = 0; s < p.stages(); ++s)
    if ((s / ranks) % 2 == 1) p.rank_of[s] = rank_id{ranks - 1 - s % ranks};
  return p;
}

/// Two chains over the same ranks, in opposite directions: stage s < ranks is on rank s, stage ranks + s on
/// rank ranks - 1 - s. O(stages). \throws schedule_count_error
constexpr stage_placement bidirectional_placement(std::uint32_t ranks) {
  auto p = wave_placement(ranks, 2);
  p.edges = chain_edges(ranks);
  for (auto const e : chain_edges(ranks, ranks)) p.edges.push_back(e);
  return p;
}

}  // namespace cleave::detail

namespace cleave {

/// How a chain of stages goes over the ranks: round and round, or to and fro.
enum class map_style : std::uint8_t { loop, v };

}  // namespace cleave

namespace cleave::detail {

/// `loop` or `v`, as PyTorch calls them.
constexpr std::optional<map_style> find_map_style(std::string_view name) {
  if (name == "loop") return map_style::loop;
  if (name == "v") return map_style::v;
  return std::nullopt;
}

/// A name that no way over the ranks has. The witness: the name.
using map_style_error = tagged_error<struct map_style_tag, std::string>;

}  // namespace cleave::detail

namespace cleave {

/// \throws map_style_error
inline map_style map_style_of(std::string_view name) {
  if (auto const style = detail::find_map_style(name)) return *style;
  throw detail::map_style_error("no map of stages is called " + quoted(name) + "; there are 'loop' and 'v'",
                                std::string(name));
}

/// A chain of `stages` over `ranks`. A loop may end anywhere, so that some ranks have a stage less or none;
/// to and fro every rank has as many. O(stages + ranks).
/// \throws schedule_count_error, and shape_error where `v` does not come out even
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

/// The stages of each rank, ascending. O(stages + ranks).
constexpr std::vector<std::vector<stage_id>> stages_by_rank(stage_placement const& p) {
  std::vector<std::vector<stage_id>> stages(p.ranks);
  for (std::uint32_t s = 0; s < p.stages(); ++s) stages[index(p.rank_of[s])].push_back(stage_id{s});
  return stages;
}

}  // namespace cleave
