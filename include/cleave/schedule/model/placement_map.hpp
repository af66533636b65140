// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/schedule_shape.hpp"

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
class map_style_error : public witness_error<std::string> {
 public:
  explicit map_style_error(std::string_view name)
      : witness_error("no map of stages is called " + quoted(name) + "; there are 'loop' and 'v'",
                      std::string(name)) {}
};
}  // namespace cleave::detail

namespace cleave {

/// \throws map_style_error
inline map_style map_style_of(std::string_view name) {
  if (auto const style = detail::find_map_style(name)) return *style;
  throw detail::map_style_error(name);
}

/// A chain of `stages` over `ranks`. A loop may end anywhere, so that some ranks have a stage less or none;
/// to and fro every rank has as many. O(stages + ranks).
/// \throws schedule_count_error, and shape_error where `v` does not come out even
constexpr placement map_stages(map_style style, std::uint32_t ranks, std::uint32_t stages) {
  demand_counts(ranks, 1, 1);
  demand_counts(stages, 1, 1);
  bool const to_and_fro = style == map_style::v;
  if (to_and_fro && stages % ranks != 0)
    throw shape_error("map 'v'", {shape_fault::kind::stages_not_everywhere, stages, ranks});
  placement p{ranks, {}, chain_edges(stages)};
  for (std::uint32_t s = 0; s < stages; ++s) {
    auto const along = s % ranks;
    p.rank_of.push_back(rank_id{to_and_fro && s / ranks % 2 == 1 ? ranks - 1 - along : along});
  }
  return p;
}

/// The stages of each rank, ascending. O(stages + ranks).
constexpr std::vector<std::vector<stage_id>> stages_by_rank(placement const& p) {
  std::vector<std::vector<stage_id>> stages(p.ranks);
  for (std::uint32_t s = 0; s < p.stages(); ++s) stages[index(p.rank_of[s])].push_back(stage_id{s});
  return stages;
}

}  // namespace cleave

