// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/numbering.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/partition/model/partition.hpp"
#include "cleave/partition/model/validity.hpp"
#include "cleave/split/emit.hpp"
#include "cleave/split/make_plan.hpp"
#include "cleave/split/modules/module_builder.hpp"
#include "cleave/split/modules/outer_builder.hpp"
#include "cleave/split/modules/split_module.hpp"

namespace cleave::inline v0_2::detail {

/// Thrown if a node's tag is not in the list of tags, or the list has a tag twice. The witness is the tag.
using tag_error = tagged_error<struct tag_tag, std::string>;

/// Thrown if a node needs a value or an effect of a node whose tag is listed later. The witness is the needed
/// node and the node that needs it.
using tag_order_error =
    tagged_error<struct tag_order_tag, std::pair<module_graph::position, module_graph::position>>;

/// A `stage_builder` that writes a piece like `module_builder`, but puts each placeholder and attribute just
/// before the first node that reads it.
class first_use_builder {
 public:
  using position = module_graph::position;

  first_use_builder(module_graph const& whole, module_builder_options const& options)
      : builder_(whole, options) {}

  position argument(position v, source from) {
    at_.insert(v);
    places_.push_back({from, {}});
    return v;
  }
  template <class Lookup>
  std::vector<position> clone(position n, Lookup lookup) {
    auto const made = builder_.clone(n, [&](position v) { return place(lookup(v)); });
    at_.insert(n);
    places_.push_back({source::node, made.front()});
    return {n};
  }
  void result(position v, position made) { builder_.result(v, place(made)); }

  module_graph finish() && { return std::move(builder_).finish(); }

 private:
  struct placement {
    source from;
    std::optional<position> at;
  };

  /// Returns the position of `v` in the piece. Adds `v` if the piece does not have it yet.
  position place(position v) {
    auto& p = places_[at_.find(v)];
    if (!p.at) p.at = builder_.argument(v, p.from);
    return *p.at;
  }

  module_builder builder_;
  numbering<position, std::uint32_t> at_;  // nodes of the whole graph, in step with …
  std::vector<placement> places_;
};

/// Returns the part of each call of `g`: the position of its tag in `tags`.
/// \throws unassigned_node_error, tag_error
template <class F>
partition assign_tags(module_graph const& g, F& tag_of, std::vector<std::string> const& tags) {
  numbering<std::string, std::uint32_t> listed;
  for (auto const& tag : tags)
    if (auto const known = listed.size(); listed.insert(tag) < known)
      throw tag_error("tag " + quoted(tag) + " is twice in the list of tags", tag);
  partition p{{}, narrow<std::uint32_t>(tags.size())};
  for (auto const n : g.nodes()) {
    std::optional<std::string> const tag = tag_of(g[n]);
    if (!tag) throw unassigned_node_error(g, n);
    auto const part = listed.find(*tag);
    if (part == none<std::uint32_t>)
      throw tag_error("node " + quoted(g[n].name) + " has tag " + quoted(*tag) +
                          ", which is not in the list of tags; add it where the node may run",
                      *tag);
    p.of.push_back(part_id{part});
  }
  return p;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Cuts `g` by tags as torch.fx's split_by_tags does. The calls with one tag are one piece, whose path is the
/// tag. Pieces run in the order of `tags`. A tag without calls gives a piece that returns the empty tuple.
/// Each piece has its own copy of the attributes that it reads. Modules keep their paths and nodes their
/// names. `qualified_names` has the called modules and the attributes of each piece. `g` is not modified.
/// Expected O(V + E + tags log tags).
///
/// \param tag_of returns the tag of a node as text, or as an optional text that is empty if the tag is not
/// known. It is called once for each call, in graph order.
/// \param tags the tags, each once, in the order in which the pieces run
/// \throws unassigned_node_error, missing_target_error, tag_error, and tag_order_error if a piece depends on
/// one whose tag is listed later
template <class F>
split_module_result split_by_tags(module_graph const& g, F tag_of, std::vector<std::string> const& tags,
                                  result_form results = result_form::bare_if_single) {
  if (auto const n = detail::find_missing_target(g)) throw detail::missing_target_error(g, *n);
  auto const p = detail::assign_tags(g, tag_of, tags);
  auto const s = snapshot_of(g);
  if (auto const edge = detail::find_backward_edge(s, p)) {
    auto const producer = g.nodes()[edge->producer], consumer = g.nodes()[edge->consumer];
    auto const tagged = [&](module_graph::position n, std::size_t at) {
      return quoted(g[n].name) + " (tag " + quoted(tags[index(p.of[at])]) + ")";
    };
    throw detail::tag_order_error("node " + tagged(consumer, edge->consumer) + " needs " +
                                      tagged(producer, edge->producer) + ", whose tag is listed later",
                                  {producer, consumer});
  }
  check_partition(s, p);
  std::vector<stage_id> listed;
  for (std::uint32_t i = 0; i < p.parts; ++i) listed.push_back(stage_id{i});
  auto const cut = detail::plan_maker(s, p).make(std::move(listed), output_order::first_use);

  module_builder_options const options{
      .nodes = node_naming::original, .results = results, .modules = module_paths::original};
  split_module_result result;
  std::vector<module_graph> graphs;
  for (std::uint32_t i = 0; i < p.parts; ++i) {
    auto const& stage = cut.stages[i];
    detail::first_use_builder b(g, options);
    detail::emit_stage(g, s, stage, b);
    graphs.push_back(std::move(b).finish());
    module_piece made;
    made.label = made.path = tags[i];
    made.reason = "the calls with the tag " + quoted(tags[i]);
    for (auto const n : stage.nodes) made.nodes.push_back(s.node[n]);
    for (auto const v : stage.inputs) made.inputs.push_back(s.value[v]);
    for (auto const v : stage.outputs) made.outputs.push_back(s.value[v]);
    for (auto const v : stage.state) made.own_attributes.push_back(s.value[v]);
    numbering<std::string_view, std::uint32_t> named;
    for (auto const& n : graphs.back().list())
      if (n.kind == node_kind::call_module || n.kind == node_kind::get_attr)
        if (auto const known = named.size(); named.insert(n.target) == known)
          result.qualified_names.emplace_back(tags[i] + "." + n.target, g[n.from].target);
    result.pieces.push_back(std::move(made));
    result.order.push_back(i);
  }
  detail::list_relations(s, p, result.pieces);
  result.outer = detail::outer_builder(g, attribute_place::returned, options)
                     .build(result.pieces, std::move(graphs), result.order);
  return result;
}

}  // namespace cleave
