// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/core/dataflow.hpp"
#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/core/rank_grid.hpp"
#include "cleave/core/tie.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/numbering.hpp"

/// Parameters that share memory: the same weight under several names, which must stay equal when stages hold
/// copies of it.
namespace cleave {

/// Which ties count: those with several names; or those that several stages hold.
enum class tie_scope : std::uint8_t { names, stages };
/// Which names a tie lists: every one; or, as Slapo does, of those with one owner in one stage the first, and
/// where stages count, of the first stage the first alone.
enum class tie_names : std::uint8_t { every, upstream };

/// What `g` and the graphs in it register that is no module, each level before those inside of it, in the
/// order of registration; of one path in a level the first. State without a storage of its own is told apart
/// by its path from the root, `original` where that is set. Expected O(size of all paths), no recursion.
inline std::vector<named_state> state_of(module_graph const& g, stage_id stage = stage_id{0}) {
  struct visit {
    module_graph const* graph;
    std::string prefix, root;
    std::size_t next = 0;
  };
  std::vector<named_state> state;
  std::vector<visit> rest;
  rest.push_back({&g, {}, {}});
  while (!rest.empty()) {
    auto& here = rest.back();
    if (here.next == here.graph->attributes().size()) {
      rest.pop_back();
      continue;
    }
    auto const& a = here.graph->attributes()[here.next++];
    auto const path = here.prefix + a.path;
    auto const root = a.original.empty() ? here.root + a.path : a.original;
    if (a.what != module_attribute::kind::module)
      state.push_back({path, a.storage.empty() ? "path " + root : "storage " + a.storage, stage});
    else if (!a.body.empty())
      rest.push_back({&a.body.front(), path + ".", root + "."});
  }
  return state;
}

/// The state of the stages of `outer`, which are its attributes with a body, in the order of their calls, and
/// what `outer` itself holds, under `the_caller`.
inline std::vector<named_state> state_of_stages(module_graph const& outer) {
  std::vector<named_state> state;
  for (auto const& a : outer.attributes())
    if (a.what != module_attribute::kind::module)
      state.push_back(
          {a.path,
           a.storage.empty() ? "path " + (a.original.empty() ? a.path : a.original) : "storage " + a.storage,
           the_caller});
  std::uint32_t stage = 0;
  for (auto const n : outer.nodes()) {
    if (outer[n].kind != node_kind::call_module) continue;
    auto const* a = outer.find_attribute(outer[n].target);
    if (a && !a->body.empty())
      for (auto& s : state_of(a->body.front(), stage_id{stage})) state.push_back(std::move(s));
    ++stage;
  }
  return state;
}

/// The ties among `state`, in the order in which their storages first appear. Expected O(size of all names).
inline std::vector<tie> ties_of(std::vector<named_state> const& state, tie_scope scope = tie_scope::names,
                                tie_names names = tie_names::every) {
  numbering<std::string, std::uint32_t> storages, owners;
  std::vector<tie> ties;
  for (auto const& s : state) {
    auto const at = storages.insert(s.storage);
    if (at == ties.size()) ties.push_back({s.storage, {}});
    auto& members = ties[at].members;
    if (names == tie_names::upstream) {
      auto const known = owners.size();
      auto const owner = std::to_string(at) + " " + std::to_string(index(s.stage)) + " " +
                         std::string(detail::owner_of(s.name));
      if (scope == tie_scope::stages && s.stage == the_caller) continue;
      if (owners.insert(owner) < known) continue;
      if (scope == tie_scope::stages && members.size() == 1 && members.front().stage == s.stage) continue;
    }
    members.push_back(s);
  }
  std::erase_if(ties, [&](tie const& t) {
    return t.members.size() < 2 ||
           (scope == tie_scope::stages &&
            std::ranges::all_of(
                t.members, [&](named_state const& s) { return s.stage == t.members.front().stage; }));
  });
  return ties;
}
}  // namespace cleave

namespace cleave::detail {

/// A tie that a grid of ranks cannot keep: `member` is held by no stage of the grid; or it is a second name
/// in its stage, and the runtime takes one.
struct tie_rank_fault {
  static constexpr char subject[] = "ties: ";
  enum class kind : std::uint8_t { no_such_stage, is_alias };
  kind what;
  std::string member;
  stage_id stage;

  bool operator==(tie_rank_fault const&) const = default;
};

/// `'embed.weight' is held by stage 3, which is not in the grid`.
inline std::string describe(tie_rank_fault const& f) {
  if (f.what == tie_rank_fault::kind::no_such_stage)
    return quoted(f.member) + " is held by " + stage_text(f.stage) + ", which is not in the grid";
  return quoted(f.member) + " is a second name of its weight in " + stage_text(f.stage) +
         "; let one name of each stage take part";
}

/// A tie whose members no ranks of the grid can be found for. The witness: the member.
using tie_rank_error = fault_error<tie_rank_fault>;

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
      return tie_rank_fault{tie_rank_fault::kind::is_alias, m.name, m.stage};
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
