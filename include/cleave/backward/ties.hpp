// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/core/tie.hpp"
#include "cleave/core/transport.hpp"
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
      auto const owner =
          std::to_string(at) + " " + std::to_string(index(s.stage)) + " " + std::string(detail::owner_of(s.name));
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
