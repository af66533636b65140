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

#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/numbering.hpp"
#include "cleave/partition/named/cut_stages.hpp"
#include "cleave/partition/named/hierarchical_cut.hpp"
#include "cleave/split/modules/level_call.hpp"
#include "cleave/split/modules/module_builder.hpp"
#include "cleave/split/modules/open_level.hpp"
#include "cleave/split/modules/piece_numbers.hpp"
#include "cleave/split/modules/split_module.hpp"

namespace cleave {

/// How a tree of modules is cut and its levels opened.
struct split_hierarchy_options {
  hierarchy_options cuts = {};
  detail::unread_work unread = detail::unread_work::kept;
  element_reading elements = element_reading::by_maker;
};

/// A stage of a split hierarchy.
struct hierarchy_stage {
  std::string path;              ///< in the outer graph
  std::vector<level_call> runs;  ///< its work, in order
};

/// A tree of modules cut into a flat list of stages. A stage is a graph; where it has a slice of an opened
/// module, that slice is a module of its own in it, with a body; all other modules are as they were, and
/// their `original` is their path from the root. Nodes keep `from`, the node of their level.
struct split_hierarchy_result {
  module_graph outer;  ///< calls the stages one after another; they are its attributes, as bodies
  hierarchical_cut cut;
  std::vector<hierarchy_stage> stages;

  module_graph const& graph(hierarchy_stage const& stage) const {
    return outer.find_attribute(stage.path)->body.front();
  }
};

}  // namespace cleave

namespace cleave::detail {

/// Splits the levels of a cut, the inner ones first; `split_hierarchy` is its one use.
class hierarchy_splitter {
 public:
  using position = module_graph::position;

  hierarchy_splitter(hierarchical_cut cut, split_hierarchy_options const& options)
      : cut_(std::move(cut)),
        options_(options),
        numbers_(piece_numbers(cut_)),
        closed_(cut_.levels.size()),
        opened_(cut_.levels.size()),
        state_(cut_.levels.size()),
        is_sorted_(cut_.levels.size()) {}

  split_hierarchy_result split() {
    std::vector<char> ended(cut_.levels.size());  // of a level: its calls are cut
    ended[0] = 1;
    for (auto const& level : cut_.levels)
      for (auto const& [n, inside] : level.opened) ended[inside] = std::ranges::binary_search(level.ends, n);
    for (auto i = static_cast<std::uint32_t>(cut_.levels.size()); i-- > 0;) close(i, ended[i]);

    split_hierarchy_result result;
    for (position n = 0; n < closed_[0].outer.list().size(); ++n)
      if (auto const& node = closed_[0].outer[n]; node.kind == node_kind::call_module)
        result.stages.push_back({node.target, runs_of(closed_[0].nodes[n].piece)});
    for (auto& p : pieces_) p.graph = finished(p.graph, opened_[p.level], false);
    result.outer = finished(closed_[0].outer, closed_[0].nodes, true);
    result.cut = std::move(cut_);
    return result;
  }

 private:
  struct piece {
    module_graph graph;
    std::uint32_t level;
    std::vector<opened_node> calls;
    bool works = false;
    std::size_t uses = 0;  // how many graphs hold it
  };

  void close(std::uint32_t level, bool followed_by_cut) {
    auto made = level_opener(cut_, level, closed_, numbers_[level], options_.unread, options_.elements,
                             16 * options_.cuts.most_nodes)
                    .open(followed_by_cut);
    numbering<std::string_view, std::uint32_t> names;
    for (auto const& n : made.graph.list()) names.insert(n.name);
    auto const part_of = [&](module_node const& n) -> std::optional<std::string> {
      auto const part = made.part[names.find(n.name)];
      return part == none<std::uint32_t> ? std::nullopt : std::optional(std::to_string(part));
    };
    auto result = split_module(made.graph, part_of,
                               {.attributes = attribute_place::first_use,
                                .attribute_parts = attribute_rule::assignable,
                                .symbols = symbol_rule::bound_before_use});

    keep(level, std::move(result), std::move(made));
  }

  /// Takes over the pieces of a level and the graph that calls them.
  void keep(std::uint32_t level, split_module_result result, opened_level made) {
    numbering<std::string_view, std::uint32_t> paths;
    auto const first = static_cast<std::uint32_t>(pieces_.size());
    for (auto const& p : result.pieces) {
      paths.insert(p.path);
      piece kept{result.graph(p), level, {}};
      for (auto const n : p.nodes) {
        auto const& from = made.nodes[n];
        bool const call = module_graph::is_call(made.graph[n]);
        if (from.what == opened_node::kind::piece) ++pieces_[from.piece].uses;
        if (from.what == opened_node::kind::piece || call) kept.calls.push_back(from);
        kept.works =
            kept.works || (from.what == opened_node::kind::piece ? pieces_[from.piece].works
                                                                 : call && !reads_element(made.graph[n]));
      }
      pieces_.push_back(std::move(kept));
    }
    auto& closed = closed_[level];
    for (auto const& n : result.outer.list()) {
      opened_node at{opened_node::kind::element, {}, 0};
      if (n.kind == node_kind::call_module) {
        at = {opened_node::kind::piece, {}, first + paths.find(n.target)};
        closed.works.push_back(pieces_[at.piece].works);
        if (level == 0) ++pieces_[at.piece].uses;
      } else if (n.from < made.nodes.size()) {
        at = made.nodes[n.from];
      }
      closed.nodes.push_back(at);
    }
    closed.ends = made.ends;
    closed.outer = std::move(result.outer);
    opened_[level] = std::move(made.nodes);
  }

  /// The work of a piece, and of the pieces inside it, in order.
  std::vector<level_call> runs_of(std::uint32_t outermost) const {
    std::vector<level_call> runs;
    std::vector<std::pair<std::uint32_t, std::size_t>> rest{{outermost, 0}};
    while (!rest.empty()) {
      auto const [at, next] = rest.back();
      if (next == pieces_[at].calls.size()) {
        rest.pop_back();
        continue;
      }
      ++rest.back().second;
      auto const& call = pieces_[at].calls[next];
      if (call.what == opened_node::kind::piece)
        rest.emplace_back(call.piece, 0);
      else if (call.what == opened_node::kind::own && !reads_element(node_of(call)))
        runs.push_back(call.of);
    }
    return runs;
  }

  module_node const& node_of(opened_node const& n) const {
    return (*cut_.levels[n.of.level].graph)[n.of.node];
  }

  /// `graph`, whose nodes are copies of `nodes` by their `from`, with the insides of what it calls; the
  /// pieces in it are finished already.
  module_graph finished(module_graph const& graph, std::vector<opened_node> const& nodes, bool outer) {
    module_graph made;
    made.reserve(graph.list().size());
    numbering<std::string_view, std::uint32_t> targets;
    std::vector<opened_node> of_target;
    for (position n = 0; n < graph.list().size(); ++n) {
      auto node = graph[n];
      auto const at = outer ? nodes[n] : node.from < nodes.size() ? nodes[node.from] : opened_node{};
      bool const own = at.what == opened_node::kind::own && (outer || node.from < nodes.size());
      node.from = own ? at.of.node : none<position>;
      if ((node.kind == node_kind::call_module || node.kind == node_kind::get_attr) &&
          targets.insert(graph[n].target) == of_target.size())
        of_target.push_back(at);
      made.add(std::move(node));
    }
    made.metadata = graph.metadata;
    for (auto const& a : graph.attributes()) {
      auto const target = targets.find(a.path);
      module_attribute copy{a.path, a.what, a.storage, {}, a.original, a.metadata};
      if (target == none<std::uint32_t>) {
        made.add_attribute(std::move(copy));
      } else if (auto const& of = of_target[target]; of.what == opened_node::kind::piece) {
        copy.original.clear();
        auto& inside = pieces_[of.piece];
        copy.body.push_back(--inside.uses == 0 ? std::move(inside.graph) : inside.graph);
        made.add_attribute(std::move(copy));
      } else {
        add_module(made, std::move(copy), of);
      }
    }
    return made;
  }

  /// Registers `a`, what `of` names, with its inside and the state that is registered below its path.
  void add_module(module_graph& made, module_attribute a, opened_node const& of) {
    auto const& level = *cut_.levels[of.of.level].graph;
    auto const& target = node_of(of).target;
    auto const path = a.path;
    bool const module = a.what == module_attribute::kind::module;
    if (auto const* whole = level.find_attribute(target)) a.body = whole->body;
    made.add_attribute(std::move(a));
    if (!module) return;
    for (auto const* below : state_below(of.of.level, target)) {
      module_attribute s = *below;
      s.path = path + below->path.substr(target.size());
      if (s.original.empty()) s.original = joined_path(cut_.levels[of.of.level].path, below->path);
      if (!made.find_attribute(s.path)) made.add_attribute(std::move(s));
    }
  }

  /// The attributes of a level below `path` that are no modules, in their order. O(log(attributes) + result).
  std::vector<module_attribute const*> state_below(std::uint32_t level, std::string const& path) {
    auto& sorted = state_[level];
    auto const name = [](module_attribute const* a) -> std::string const& { return a->path; };
    if (!std::exchange(is_sorted_[level], 1)) {
      for (auto const& a : cut_.levels[level].graph->attributes())
        if (a.what != module_attribute::kind::module) sorted.push_back(&a);
      std::ranges::sort(sorted, {}, name);
    }
    std::vector<module_attribute const*> below;
    auto const prefix = path + ".";
    for (auto a = std::ranges::lower_bound(sorted, prefix, {}, name);
         a != sorted.end() && (*a)->path.starts_with(prefix); ++a)
      below.push_back(*a);
    std::ranges::sort(below);  // attributes lie in one array
    return below;
  }

  hierarchical_cut cut_;
  split_hierarchy_options options_;
  std::vector<std::vector<std::uint32_t>> numbers_;
  std::vector<closed_level> closed_;
  std::vector<std::vector<opened_node>> opened_;  // of a level: its nodes, opened
  std::vector<piece> pieces_;                     // those inside of others first
  std::vector<std::vector<module_attribute const*>> state_;
  std::vector<char> is_sorted_;
};

}  // namespace cleave::detail

namespace cleave {

/// Cuts `root` after each call that one of `cuts` names, level by level, until it is a flat list of stages,
/// as Slapo does. Stages run in program order and are exactly `stages_of(cut_modules(root, cuts))`; that they
/// compute the same is left to tests. State is read by the stages that need it; what a stage is given is in
/// the order of first use. Nothing is written into `root`, which must outlive the result's `cut`. Expected
/// O(V + E + size of the result).
///
/// \throws module_cut_error, also where values that modules give grow beyond all bounds; level_call_error,
/// missing_target_error.
inline split_hierarchy_result split_hierarchy(module_graph const& root, std::vector<std::string> const& cuts,
                                              split_hierarchy_options const& options = {}) {
  auto cut = detail::cut_modules(root, cuts, options.cuts);
  for (auto const& level : cut.levels)
    if (auto const n = detail::find_missing_target(*level.graph)) throw detail::missing_target_error(*level.graph, *n);
  if (auto const fault = detail::find_level_call_fault(cut)) throw detail::level_call_error(cut, *fault);
  return detail::hierarchy_splitter(std::move(cut), options).split();
}

}  // namespace cleave
