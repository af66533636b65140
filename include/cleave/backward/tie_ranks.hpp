// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/backward/ties.hpp"
#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/core/rank_grid.hpp"

namespace cleave::detail {

/// A tie that a grid of ranks cannot keep: `member` is held by no stage of the grid; or it is a second name
/// in its stage, and the runtime takes one.
struct tie_rank_fault {
  enum class kind : std::uint8_t { no_such_stage, second_name };
  kind what;
  std::string member;
  stage_id stage;

  bool operator==(tie_rank_fault const&) const = default;
};

/// A tie whose members no ranks of the grid can be found for. The witness: the member.
class tie_rank_error : public witness_error<tie_rank_fault> {
 public:
  explicit tie_rank_error(tie_rank_fault f)
      : witness_error("ties: " + quoted(f.member) +
                          (f.what == tie_rank_fault::kind::second_name
                               ? " is a second name of its weight in " + stage_text(f.stage) +
                                     "; let one name of each stage take part"
                               : " is held by " + stage_text(f.stage) + ", which is not in the grid"),
                      f) {}
};

/// How many names of one weight a runtime takes in a stage.
enum class names_in_stage : std::uint8_t { any, one };

/// Why `grid` cannot keep `t`, or nothing. O(stages + members).
inline std::optional<tie_rank_fault> find_tie_rank_fault(rank_grid const& grid, tie const& t,
                                                         names_in_stage names = names_in_stage::any) {
  std::vector<char> held(grid.size(rank_axis::pipe));
  for (auto const& m : t.members) {
    if (index(m.stage) >= held.size())
      return tie_rank_fault{tie_rank_fault::kind::no_such_stage, m.name, m.stage};
    if (std::exchange(held[index(m.stage)], 1) && names == names_in_stage::one)
      return tie_rank_fault{tie_rank_fault::kind::second_name, m.name, m.stage};
  }
  return std::nullopt;
}

/// The ranks that hold copies of one weight: each group has one rank for each member, at the same place of
/// the other axes, ascending.
struct tie_ranks {
  std::vector<std::vector<rank_id>> groups;
  std::vector<stage_id> stages;  ///< of the members, ascending

  bool operator==(tie_ranks const&) const = default;
};

/// O(ranks * members).
/// \throws tie_rank_error
inline tie_ranks ranks_of_tie(rank_grid const& grid, tie const& t) {
  if (auto fault = find_tie_rank_fault(grid, t)) throw tie_rank_error(*std::move(fault));
  tie_ranks made;
  for (auto const& m : t.members) made.stages.push_back(m.stage);
  std::ranges::sort(made.stages);
  for (auto const stage : made.stages) {
    auto const ranks = grid.ranks_at(rank_axis::pipe, index(stage));
    made.groups.resize(ranks.size());
    for (std::size_t i = 0; i < ranks.size(); ++i) made.groups[i].push_back(ranks[i]);
  }
  for (auto& group : made.groups) std::ranges::sort(group);
  return made;
}

/// What a rank says of a tied weight to a runtime that makes all ranks join each group of ranks.
struct tie_registration {
  std::string key;                           ///< the name of the first member, dots as underscores
  std::vector<std::vector<rank_id>> groups;  ///< as `tie_ranks` has them
  std::string owner, name;  ///< the module that owns it in the rank's stage, and its name there
  bool held = false;        ///< whether the stage of the rank has it; else both are empty

  bool operator==(tie_registration const&) const = default;
};

/// What `rank` registers for `t`. O(ranks * members).
/// \throws tie_rank_error, also where a stage has two names of the weight.
inline tie_registration registration_of_tie(rank_grid const& grid, tie const& t, rank_id rank) {
  if (auto fault = find_tie_rank_fault(grid, t, names_in_stage::one)) throw tie_rank_error(*std::move(fault));
  tie_registration r;
  r.groups = ranks_of_tie(grid, t).groups;
  if (!t.members.empty()) r.key = t.members.front().name;
  for (char& c : r.key)
    if (c == '.') c = '_';
  for (auto const& m : t.members)
    if (index(m.stage) == grid[rank].pipe) {
      r.owner = owner_of(m.name);
      r.name = m.name.substr(m.name.rfind('.') + 1);
      r.held = true;
    }
  return r;
}

}  // namespace cleave::detail
