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

/// Tied parameters: one weight under several names. Copies of it in several stages must stay equal.
namespace cleave::inline v0_2 {

/// The ties that count: weights with several names, or weights that several stages hold.
enum class tie_scope : std::uint8_t { names, stages };
/// The names that a tie lists. `every`: all of them. `upstream`, as in Slapo: only the first name per owning
/// module and stage; with `tie_scope::stages`, only the first name in the first stage.
enum class tie_names : std::uint8_t { every, upstream };

/// Returns the tensors that `g` and the graphs nested in it register, depth first in the order of
/// registration. Without a storage, state is identified by its path from the root, or by `original` if that
/// is set. Expected O(size of all paths), without recursion.
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

/// Returns the state of an outer graph and of its stages. The state of `outer` itself comes first, under
/// `the_caller`. The stages are the attributes with a body, in the order of their calls.
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

/// Returns the ties among `state`, in the order in which their storages first appear. Expected O(size of all
/// names).
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

namespace cleave::inline v0_2::detail {

/// The reason why a grid of ranks cannot keep a tie equal. Either no stage of the grid holds `member`, or
/// `member` is a second name in its stage and the runtime accepts one.
struct tie_rank_fault {
  static constexpr char subject[] = "ties: ";
  enum class kind : std::uint8_t { no_such_stage, is_alias };
  kind what;
  std::string member;
  stage_id stage;

  bool operator==(tie_rank_fault const&) const = default;
};

/// Returns a message such as `'embed.weight' is held by stage 3, which is not in the grid`.
inline std::string describe(tie_rank_fault const& f) {
  if (f.what == tie_rank_fault::kind::no_such_stage)
    return quoted(f.member) + " is held by " + stage_text(f.stage) + ", which is not in the grid";
  return quoted(f.member) + " is a second name of its weight in " + stage_text(f.stage) +
         "; the runtime accepts one name per stage: use tie_names::upstream";
}

/// Thrown if the grid has no ranks for a member of a tie. The witness has the member.
using tie_rank_error = fault_error<tie_rank_fault>;

/// The number of names of one weight that a runtime accepts in a stage.
enum class names_in_stage : std::uint8_t { any, one };

/// Returns the reason why `grid` cannot keep `t` equal, or nothing. O(stages + members).
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

/// The ranks that hold copies of one weight. Each group has one rank for each member, all at the same
/// coordinates on the other axes, ascending.
struct tie_ranks {
  std::vector<std::vector<rank_id>> groups;
  std::vector<stage_id> stages;  ///< of the members, ascending

  bool operator==(tie_ranks const&) const = default;
};

/// Returns the groups of ranks that hold the copies of `t`. O(ranks × members).
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

/// The registration of a tied weight by one rank, for runtimes in which all ranks join each group of ranks.
struct tie_registration {
  std::string key;                           ///< name of the first member, with dots replaced by underscores
  std::vector<std::vector<rank_id>> groups;  ///< as in `tie_ranks`
  std::string owner, name;  ///< module that owns the weight in the rank's stage, and the weight's name in it
  bool held = false;  ///< true if the rank's stage holds the weight; otherwise `owner` and `name` are empty

  bool operator==(tie_registration const&) const = default;
};

/// Returns the registration of `t` by `rank`. O(ranks × members).
/// \throws tie_rank_error, also if a stage has two names of the weight
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
