// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/transport.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/partition/model/partition.hpp"
#include "cleave/partition/named/cut_points.hpp"
#include "cleave/pipe/module_program.hpp"
#include "cleave/pipe/module_state.hpp"
#include "cleave/pipe/pipe_plan.hpp"
#include "cleave/split/emit.hpp"
#include "cleave/split/make_plan.hpp"
#include "cleave/split/modules/module_builder.hpp"
#include "cleave/split/modules/module_call_graph.hpp"
#include "cleave/split/modules/outer_builder.hpp"
#include "cleave/split/plan.hpp"
#include "cleave/split/state/place_state.hpp"
#include "cleave/split/state/send_state.hpp"
#include "cleave/split/state/state_placement.hpp"

namespace cleave {

/// Whether cuts may come from modules and from a policy together; torch's Pipe refuses that.
enum class cut_sources : std::uint8_t { any, one };

}  // namespace cleave

namespace cleave::detail {

/// Cuts at modules and a policy are both given, and `cut_sources::one` allows one.
class cut_source_error : public error {
 public:
  cut_source_error()
      : error(
            "pipe: both the cuts at modules and a policy say where to cut, and the options allow one of "
            "them: "
            "leave one out, or allow cut_sources::any") {}
};

}  // namespace cleave::detail

namespace cleave {

/// Where a module graph is cut into a pipe, and how its stages are written.
struct module_pipe_options {
  std::vector<module_cut> cuts = {};  ///< at modules, besides markers
  cut_sources sources = cut_sources::any;
  module_program_options program = {};
  state_options state = {};
  write_rule writes = write_rule::by_underscore;
  order run = order::program;     ///< in which stages run that do not need each other
  std::string prefix = "stage_";  ///< of the path of a stage in the outer graph, before its number
  module_builder_options stages = {.nodes = node_naming::original, .modules = module_paths::original};
};

/// A module_graph cut into a pipe: its plan, and its stages written out as module_graphs that an outer one
/// calls; each registers the state that it holds, under all the names that it holds it by. Positions of
/// `plan` are those of `program.s`, whose handles are positions in the original.
struct module_pipe {
  module_program program;
  pipe_plan plan;
  module_graph outer;              ///< the stages are its attributes, as bodies
  std::vector<std::string> paths;  ///< of a stage, in the outer graph
  basic_model_state<std::uint32_t> model;
  state_placement state;  ///< of the model, in the stages

  module_graph const& stage(stage_id i) const {
    expects(index(i) < paths.size(), "a stage of this pipe");
    return outer.find_attribute(paths[index(i)])->body.front();
  }
};

}  // namespace cleave

namespace cleave::detail {

/// A builder that looks values up by what stands for them; `write_pipe` is its one use.
class merging_builder {
 public:
  merging_builder(module_call_graph const& calls, module_builder& b) : calls_(calls), b_(b) {}

  module_graph::position argument(module_graph::position v, source from) { return b_.argument(v, from); }
  template <class Lookup>
  auto clone(module_graph::position n, Lookup lookup) {
    return b_.clone(n, [&](module_graph::position v) { return lookup(calls_.first_read_of(v)); });
  }
  void result(module_graph::position v, module_graph::position made) { b_.result(v, made); }

 private:
  module_call_graph const& calls_;
  module_builder& b_;
};

/// Stage i of a pipe as a module_graph. O(its size).
inline module_graph write_stage(module_program const& p, basic_stage<std::uint32_t> const& stage,
                                module_builder_options const& options) {
  module_builder b(p.whole(), options);
  b.reserve(stage.inputs.size() + stage.state.size() + stage.nodes.size() + 1);
  merging_builder merged(p.graph, b);
  emit_stage(p.graph, p.s, stage, merged);
  return std::move(b).finish();
}

/// The node that stands for `v` in a program: of state that is read several times the first read, under its
/// own path, or under that of a tied one where reads were joined.
inline module_graph::position stand_in(module_program const& p, module_graph::position v) {
  auto const first = p.graph.first_read_of(v);
  if (p.whole()[v].kind != node_kind::get_attr) return first;
  auto const slot = p.s.find_slot(first);
  return slot == none<std::uint32_t> ? first : p.s.value[p.s.latest[slot]];
}

/// The whole with what it returns named by what stands for it.
inline module_graph with_merged_outputs(module_program const& p) {
  module_graph const& g = p.whole();
  module_graph merged;
  for (auto n : g.list()) {
    for (auto& a : n.args)
      if (n.kind == node_kind::output) a = with_nodes(std::move(a), [&](auto v) { return stand_in(p, v); });
    merged.add(std::move(n));
  }
  for (auto const& a : g.attributes()) merged.add_attribute(a);
  merged.metadata = g.metadata;
  return merged;
}

/// Of each stage the earlier ones that it needs: their values, or that they have run. O(V + E).
inline std::vector<std::vector<std::uint32_t>> needed_stages(module_program const& p, pipe_plan const& cut) {
  std::vector<std::vector<std::uint32_t>> needs(cut.plan.stages.size());
  for (auto const& t : cut.plan.transfers) needs[index(t.to)].push_back(index(t.from));
  std::vector<std::uint32_t> stage_of(p.s.nodes(), index(the_caller));
  for (std::uint32_t i = 0; i < needs.size(); ++i)
    for (auto const n : cut.plan.stages[i].nodes) {
      stage_of[n] = i;
      for (auto const m : p.s.after[n])
        if (stage_of[m] < i) needs[i].push_back(stage_of[m]);
    }
  for (auto& list : needs) {
    std::ranges::sort(list);
    auto const repeated = std::ranges::unique(list);
    list.erase(repeated.begin(), repeated.end());
  }
  return needs;
}

/// Places the state of the model, writes the stages of `cut` and the graph that calls them. Expected O(V + E
/// + names), and what place_state says of ties.
/// \throws state_error
inline module_pipe write_pipe(module_program program, pipe_plan cut,
                              module_pipe_options const& options = {}) {
  auto const& s = program.s;
  auto model = model_state_of(program, options.writes);
  auto state = place_state(s, cut.plan, model, options.state);
  if (!state.sent.empty()) {
    cut.plan = send_state(s, std::move(cut.plan), model, state);
    cut.edges = pipe_edges_of<std::uint32_t>(s, cut.plan);
  }
  module_graph const& g = program.whole();
  auto const handles = [&](auto const& list, auto const& of) {
    std::vector<module_graph::position> at;
    for (auto const i : list) at.push_back(of[i]);
    return at;
  };
  std::vector<module_piece> pieces;
  std::vector<module_graph> graphs;
  std::vector<std::uint32_t> order;
  std::vector<std::string> paths;
  auto const needs = needed_stages(program, cut);
  for (auto const& stage : cut.plan.stages) {
    auto const i = std::to_string(pieces.size());
    module_piece piece{i, options.prefix + i, {}, {}, {}, {}, {}, {}};
    piece.nodes = handles(stage.nodes, s.node);
    piece.inputs = handles(stage.inputs, s.value);
    piece.outputs = handles(stage.outputs, s.value);
    piece.own_attributes = handles(stage.state, s.value);
    piece.dependencies = needs[pieces.size()];
    paths.push_back(piece.path);
    order.push_back(static_cast<std::uint32_t>(pieces.size()));
    graphs.push_back(write_stage(program, stage, options.stages));
    hold_names(graphs.back(), g, model, state.stages[pieces.size()]);
    pieces.push_back(std::move(piece));
  }
  auto const outputs = g.outputs();
  bool const repeats = std::ranges::any_of(outputs, [&](auto v) { return stand_in(program, v) != v; });
  auto const build = [&](module_graph const& whole) {
    return outer_builder(whole, attribute_place::first_use, {.results = options.stages.results})
        .build(pieces, std::move(graphs), order);
  };
  auto outer = repeats ? build(with_merged_outputs(program)) : build(g);
  return {std::move(program), std::move(cut),   std::move(outer),
          std::move(paths),   std::move(model), std::move(state)};
}

/// Asks for no cut.
struct no_policy {
  cut_list operator()(auto const&) const { return {}; }
};

/// Leaves a partition as it is.
struct no_change {
  cut_partition operator()(module_program const&, cut_partition p) const { return p; }
};

}  // namespace cleave::detail

namespace cleave {

/// Cuts `g` into a pipe: at markers, at the modules of the options, and as `policy` says, all together.
/// `policy(s)` is given the snapshot and returns a cut_list, or a partition that cuts once more what lies
/// between the other cuts: `[](auto const& s) { return balance(s, 4); }`. `change(program, parts)` has the
/// last word, for example `sink_without_gradient{}`. Nothing is written into `g`, which
/// must outlive the pipe. Expected O(V + E + parts log parts).
/// \throws what program_of, cuts_at_markers, cuts_at_modules and make_pipe_plan throw; no_output_error where
/// `g` has no output node; state_error.
template <class Policy = detail::no_policy, class Change = detail::no_change>
module_pipe make_module_pipe(module_graph const& g, module_pipe_options const& options = {},
                             Policy policy = {}, Change change = {}) {
  if (!g.output()) throw detail::no_output_error();
  if (options.sources == cut_sources::one && !options.cuts.empty() &&
      !std::same_as<Policy, detail::no_policy>)
    throw detail::cut_source_error();
  auto program = detail::program_of(g, options.program);
  if (options.state.shared == shared_state::transmit || !options.state.by_name.empty()) {
    auto const model = detail::model_state_of(program, options.writes);
    program.s = detail::join_sent_reads(std::move(program.s), model, options.state);
  }
  auto cuts = joined(cuts_at_markers(program), cuts_at_modules(program, options.cuts));
  auto const& s = program.s;
  using answer = std::remove_cvref_t<decltype(policy(s))>;
  cut_partition parts;
  if constexpr (std::same_as<answer, cut_list>)
    parts = cut_at(s, joined(std::move(cuts), policy(s)));
  else
    parts = refined(cut_at(s, std::move(cuts)), policy(s));
  parts = change(program, std::move(parts));
  auto made =
      make_plan(s, parts, program.scopes, {.stages = options.run, .outputs = output_order::first_use});
  auto cut = detail::pipe_planner<std::uint32_t>(s, parts, std::move(made)).plan();
  return detail::write_pipe(std::move(program), std::move(cut), options);
}

/// The graph must outlive the pipe: give it a name.
template <class... Rest>
module_pipe make_module_pipe(module_graph&& g, module_pipe_options const& options = {}, Rest&&...) = delete;

}  // namespace cleave
