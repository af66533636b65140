// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/graph/concepts.hpp"
#include "cleave/graph/dense.hpp"
#include "cleave/graph/scoped_snapshot.hpp"
#include "cleave/graph/scopes.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/partition/model/partition.hpp"
#include "cleave/partition/model/validity.hpp"
#include "cleave/split/make_plan.hpp"
#include "cleave/split/part_order.hpp"
#include "cleave/split/plan.hpp"
#include "cleave/split/plan_options.hpp"
#include "cleave/split/scope_copies.hpp"
#include "cleave/split/scope_order.hpp"
#include "cleave/split/split.hpp"

namespace cleave {

/// `make_plan` for a graph with scopes, where `s` is what `with_scopes` gives: each node runs under its
/// state. What stages need for that is in their lists of nodes, as copies of nodes that enter, exit or set:
/// where they are first needed, by kinds and then by program order; exits where the next node is not under
/// them, the last entered first. A stage that runs last sets what the graph leaves behind.
/// \throws scope_cut_error where a forbidden scope is cut, scope_order_error where no order keeps a state.
template <std::unsigned_integral Index>
basic_plan<Index> make_plan(basic_dense<Index> const& s, partition const& p,
                            basic_scopes<Index> const& scopes, plan_options const& options = {}) {
  if (auto const cut = detail::find_cut_scope(s, p, scopes)) throw scope_cut_error(s, p, scopes, *cut);
  if (scopes.list.empty()) return make_plan(s, p, options);
  detail::check_assignment(s, p);
  auto const parts = detail::part_graph_of(s, p);
  if (detail::emission_order(parts, options.stages).size() < p.parts) check_partition(s, p);  // names the cycle
  auto order = detail::scoped_order(s, p, parts, scopes, options);
  auto const copy_marks = [&](auto& stages, auto const& in_order) {
    detail::scope_copier<Index> copier(s, scopes, stages);
    copier.run();
    if (options.settings == late_settings::refused) copier.leave_behind(in_order);
  };
  return detail::plan_maker<Index>(s, p).make(std::move(order), options.outputs, options.inputs, copy_marks);
}

/// `split` for a graph with scopes: `mark(node)` says what a node does to the state of one of the kinds, as
/// an optional `scope_mark` of nodes. Each stage keeps the state of its nodes.
/// \throws what scopes_of, with_scopes and make_plan throw besides.
template <std::unsigned_integral Index = std::uint32_t, dataflow_graph Graph, class F>
  requires std::invocable<F&, node_t<Graph>>
staged_graph<Graph, Index> split_with_scopes(Graph const& g, partition const& p,
                                             std::vector<scope_kind> kinds, F mark,
                                             plan_options const& options = {}) {
  auto s = snapshot_of<Index>(g);
  auto const scopes = detail::scopes_of(s, std::move(kinds), std::move(mark));
  s = detail::with_scopes(std::move(s), scopes);
  auto cut = make_plan(s, p, scopes, options);
  return {g, std::move(s), std::move(cut)};
}
template <std::unsigned_integral Index = std::uint32_t, dataflow_graph Graph, class F>
  requires std::invocable<F&, node_t<Graph>>
staged_graph<Graph, Index> split_with_scopes(
    Graph const&& /* is gone when emit asks it: give it a name first */, partition const&,
    std::vector<scope_kind>, F, plan_options const& = {}) = delete;
}  // namespace cleave
