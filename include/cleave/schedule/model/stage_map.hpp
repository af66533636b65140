// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/schedule/model/placement.hpp"

namespace cleave::inline v0_2 {

/// A stage and its rank as given by the user, unchecked.
struct stage_on_rank {
  std::int64_t stage = 0, rank = 0;

  bool operator==(stage_on_rank const&) const = default;
};

/// A list of stages and ranks that is not a placement.
struct stage_map_fault {
  static constexpr char subject[] = "map of stages: ";
  enum class kind : std::uint8_t {
    unknown_stage,  ///< the stage is not in [0, `allowed`), where `allowed` is the number of entries
    repeated,       ///< an earlier entry has the same stage
    unknown_rank,   ///< the rank is not in [0, `allowed`)
  };
  kind what;
  std::size_t at = 0;  ///< index in the list
  stage_on_rank entry = {};
  std::uint64_t allowed = 0;

  bool operator==(stage_map_fault const&) const = default;
};

/// Returns a sentence that names the fault, its place and a remedy.
inline std::string describe(stage_map_fault const& f) {
  using enum stage_map_fault::kind;
  auto const at = "entry #" + std::to_string(f.at) + " puts stage " + std::to_string(f.entry.stage) +
                  " on rank " + std::to_string(f.entry.rank) + ", ";
  switch (f.what) {
    case unknown_stage:
      return at + "but there are " + std::to_string(f.allowed) + " stages; number them from 0 without a gap";
    case repeated:
      return at + "but an earlier entry has that stage; name each once";
    case unknown_rank:
      return at + "but there are " + std::to_string(f.allowed) + " ranks; number them from 0";
  }
  return {};
}

using stage_map_error = fault_error<stage_map_fault>;

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the first invalid entry, or nothing. O(stages).
inline std::optional<stage_map_fault> find_stage_map_fault(std::span<stage_on_rank const> map,
                                                           std::uint32_t ranks) {
  using enum stage_map_fault::kind;
  std::vector<char> named(map.size());
  for (std::size_t i = 0; i < map.size(); ++i) {
    auto const [stage, rank] = map[i];
    if (stage < 0 || static_cast<std::uint64_t>(stage) >= map.size())
      return stage_map_fault{unknown_stage, i, map[i], map.size()};
    if (named[static_cast<std::size_t>(stage)]) return stage_map_fault{repeated, i, map[i]};
    named[static_cast<std::size_t>(stage)] = 1;
    if (rank < 0 || rank >= std::int64_t{ranks}) return stage_map_fault{unknown_rank, i, map[i], ranks};
  }
  return std::nullopt;
}

/// Returns a chain of stages on the ranks of a list. Entries may be in any order. O(stages).
/// \throws stage_map_error
inline stage_placement place_stages(std::span<stage_on_rank const> map, std::uint32_t ranks) {
  if (auto const f = find_stage_map_fault(map, ranks)) throw stage_map_error(*f);
  auto const stages = static_cast<std::uint32_t>(map.size());
  stage_placement p{ranks, std::vector<rank_id>(stages), chain_edges(stages)};
  for (auto const [stage, rank] : map)
    p.rank_of[static_cast<std::size_t>(stage)] = rank_id{static_cast<std::uint32_t>(rank)};
  return p;
}

}  // namespace cleave::detail
