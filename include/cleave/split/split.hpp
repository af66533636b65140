// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/graph/check_graph_concepts.hpp"
#include "cleave/graph/concepts.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/partition/model/partition.hpp"
#include "cleave/split/emit.hpp"
#include "cleave/split/make_plan.hpp"
#include "cleave/split/plan.hpp"

namespace cleave::inline v0_2::detail {

/// A stage in the handles of the user's graph.
template <class Graph>
struct stage_of {
  std::vector<node_t<Graph>> nodes;
  std::vector<value_t<Graph>> inputs, state, outputs;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// A graph with the plan of its cut. It refers to the graph, which must outlive it.
template <class Graph, std::unsigned_integral Index = std::uint32_t>
class staged_graph {
 public:
  staged_graph(Graph const& g, cleave::snapshot<Graph, Index> s, basic_plan<Index> p)
      : graph_(&g), snapshot_(std::move(s)), plan_(std::move(p)) {}
  staged_graph(Graph const&& /* is gone when emit asks it: give it a name first */,
               cleave::snapshot<Graph, Index>, basic_plan<Index>) = delete;

  /// Returns the number of stages.
  std::size_t size() const { return plan_.stages.size(); }
  Graph const& graph() const { return *graph_; }
  cleave::snapshot<Graph, Index> const& snapshot() const { return snapshot_; }
  basic_plan<Index> const& plan() const { return plan_; }

  /// Returns stage i, which is part i, in the handles of the graph. O(size of the stage).
  /// \pre `i` is below `size()`
  detail::stage_of<Graph> operator[](stage_id i) const {
    expects(index(i) < size(), "a stage of this graph");
    auto const& stage = plan_.stages[index(i)];
    auto const values = [&](std::vector<Index> const& list) {
      std::vector<value_t<Graph>> handles;
      for (Index const v : list) handles.push_back(snapshot_.value[v]);
      return handles;
    };
    detail::stage_of<Graph> here{{}, values(stage.inputs), values(stage.state), values(stage.outputs)};
    for (Index const n : stage.nodes) here.nodes.push_back(snapshot_.node[n]);
    return here;
  }

 private:
  Graph const* graph_;
  cleave::snapshot<Graph, Index> snapshot_;
  basic_plan<Index> plan_;
};

/// Cuts `g` into the parts of `p`. Returns the graph with its plan; stage i is part i. Expected O(V + E +
/// parts log parts).
/// \throws the errors of snapshot_of and make_plan
template <std::unsigned_integral Index = std::uint32_t, dataflow_graph Graph>
staged_graph<Graph, Index> split(Graph const& g, partition const& p, plan_options const& options = {}) {
  auto s = snapshot_of<Index>(g);
  auto cut = make_plan(s, p, options);
  return {g, std::move(s), std::move(cut)};
}
template <std::unsigned_integral Index = std::uint32_t, dataflow_graph Graph>
staged_graph<Graph, Index> split(Graph const&& /* is gone when emit asks it: give it a name first */,
                                 partition const&, plan_options const& = {}) = delete;

template <std::unsigned_integral Index = std::uint32_t, detail::unfinished_graph Graph>
detail::refused split(Graph const&, partition const&, plan_options const& = {}) {
  detail::refuse_graph<Graph>();
}

/// Writes stage i of `stages` into `b`. Expected O(size of the stage).
/// \throws lookup_error if `b.clone` looks up a value that the stage does not have
template <class Graph, std::unsigned_integral Index, stage_builder<Graph> Builder>
void emit(staged_graph<Graph, Index> const& stages, stage_id i, Builder& b) {
  expects(index(i) < stages.size(), "a stage of this graph");
  detail::emit_stage(stages.graph(), stages.snapshot(), stages.plan().stages[index(i)], b);
}

template <class Graph, std::unsigned_integral Index, detail::unfinished_builder<Graph> Builder>
detail::refused emit(staged_graph<Graph, Index> const&, stage_id, Builder&) {
  detail::refuse_builder<Builder, Graph>();
}

}  // namespace cleave
