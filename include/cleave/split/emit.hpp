// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <ranges>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/graph/concepts.hpp"
#include "cleave/graph/numbering.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/split/builder.hpp"
#include "cleave/split/plan.hpp"

namespace cleave::inline v0_2 {

/// Thrown if a builder's `clone` looks up a value that its stage neither receives nor has made before. The
/// witness is the position of the node.
using lookup_error = tagged_error<struct lookup_tag, std::size_t>;

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Writes one stage of a plan of `s`, the snapshot of `g`, into `b`. Expected O(size of the stage). `g` is
/// not modified.
///
/// Values are looked up by version: an operand means the content of its slot at that point of the stage. The
/// first `opening` nodes, which read nothing, are cloned before the arguments are requested.
/// \throws lookup_error if `clone` looks up a value that the stage does not have at that point
template <dataflow_graph Graph, std::unsigned_integral Index, stage_builder<Graph> Builder>
void emit_stage(Graph const& g, snapshot<Graph, Index> const& s, basic_stage<Index> const& stage, Builder& b,
                std::size_t opening = 0) {
  using made = made_t<Builder, Graph>;
  numbering<Index, Index> slots;  // slots that the stage has seen …
  std::vector<made> holds;        // … and the names of their current values
  slots.reserve(stage.inputs.size() + stage.state.size() + stage.nodes.size());
  holds.reserve(stage.inputs.size() + stage.state.size() + stage.nodes.size());
  auto const hold = [&](Index slot, made m) {
    Index const at = slots.insert(slot);
    if (at == holds.size())
      holds.push_back(std::move(m));
    else
      holds[at] = std::move(m);
  };
  auto const find_held = [&](Index slot) -> made const* {
    Index const at = slots.find(slot);
    return at == none<Index> ? nullptr : &holds[at];
  };

  auto const clone = [&](Index n) {
    auto&& results = b.clone(s.node[n], [&](value_t<Graph> const& v) -> made {
      auto const* m = find_held(s.find_slot(v));
      if (!m)
        raise(lookup_error("emit: node " + s.label(n) +
                               " looks up a value that its stage neither receives nor has made; operands(n), "
                               "or the bodies that regions(n) names, must list all that clone(n) reads",
                           n));
      return *m;
    });
    auto result = std::ranges::begin(results);
    for (auto v : results_of(g, s.node[n])) {
      expects(result != std::ranges::end(results), "clone to return a name for each result");
      hold(s.find_slot(v), *result);
      ++result;
    }
  };

  expects(opening <= stage.nodes.size(), "an opening among the nodes of the stage");
  for (std::size_t i = 0; i < opening; ++i) clone(stage.nodes[i]);
  auto const sent = [](source from) {  // state among the inputs is sent by the stage that holds it
    return is_held(from) ? source::node : from;
  };
  for (Index const v : stage.inputs) hold(s.slot[v], b.argument(s.value[v], sent(s.from[v])));
  for (Index const v : stage.state) hold(s.slot[v], b.argument(s.value[v], s.from[v]));
  for (std::size_t i = opening; i < stage.nodes.size(); ++i) clone(stage.nodes[i]);
  for (Index const v : stage.outputs) {
    auto const* m = find_held(s.slot[v]);
    expects(m != nullptr, "a plan of this snapshot");
    b.result(s.value[v], *m);
  }
}

template <dataflow_graph Graph, std::unsigned_integral Index, unfinished_builder<Graph> Builder>
refused emit_stage(Graph const&, snapshot<Graph, Index> const&, basic_stage<Index> const&, Builder&,
                   std::size_t = 0) {
  refuse_builder<Builder, Graph>();
}

}  // namespace cleave::detail
