// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/core/dataflow.hpp"
#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/graph/argument.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/numbering.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/partition/model/partition.hpp"
#include "cleave/partition/named/cut_points.hpp"
#include "cleave/pipe/module_program.hpp"
#include "cleave/pipe/pipe_plan.hpp"
#include "cleave/split/emit.hpp"
#include "cleave/split/make_plan.hpp"
#include "cleave/split/modules/module_builder.hpp"
#include "cleave/split/modules/module_call_graph.hpp"
#include "cleave/split/modules/outer_builder.hpp"
#include "cleave/split/plan.hpp"
#include "cleave/split/state/assign_state.hpp"
#include "cleave/split/state/state_assignment.hpp"
#include "cleave/split/state/tensor_classes.hpp"

namespace cleave::inline v0_2 {

/// The rule by which calls of a module_graph write to state. `by_underscore`: functions and methods whose
/// name ends in a single underscore (`add_`) write their first operand, as in torch. `none`: no call writes.
enum class write_rule : std::uint8_t { by_underscore, none };

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the kind of state of an attribute that is not a module. A buffer with the metadata `persistent:
/// false` is not saved. A plain tensor is a constant.
inline state_kind state_kind_of(module_attribute const& a) {
  if (a.what == module_attribute::kind::tensor) return state_kind::constant;
  if (a.what == module_attribute::kind::parameter) return state_kind::parameter;
  for (auto const& [key, value] : a.metadata)
    if (key == "persistent" && value == module_argument{false}) return state_kind::unsaved_buffer;
  return state_kind::buffer;
}

/// Returns true if `n` writes its first operand.
inline bool writes_in_place(module_node const& n) {
  bool const named = n.kind == node_kind::call_function || n.kind == node_kind::call_method;
  return named && n.target.size() > 1 && n.target.ends_with('_') && !n.target.ends_with("__");
}

/// Finds the tensors registered below a module path, in the order of registration.
class tensors_below {
 public:
  explicit tensors_below(std::vector<model_tensor> const& tensors) {
    for (std::uint32_t t = 0; t < tensors.size(); ++t) sorted_.emplace_back(tensors[t].name, t);
    std::ranges::sort(sorted_);
  }

  /// O(log names + tensors found), plus sorting these.
  std::vector<std::uint32_t> operator()(std::string const& module) const {
    auto const prefix = module + ".";
    std::vector<std::uint32_t> found;
    for (auto at = std::ranges::lower_bound(sorted_, std::pair(std::string_view(prefix), std::uint32_t{0}));
         at != sorted_.end() && at->first.starts_with(prefix); ++at)
      found.push_back(at->second);
    std::ranges::sort(found);
    return found;
  }

 private:
  std::vector<std::pair<std::string_view, std::uint32_t>> sorted_;
};

/// Returns the state of a program for `assign_state`: all attributes that are not modules, and the modules
/// that nodes are inside. A call of a module reads all tensors registered below its path. Expected O(size of
/// the program + names log names), plus the state of a module for each call of it.
inline basic_model_state<std::uint32_t> model_state_of(module_program const& p,
                                                       write_rule writes = write_rule::by_underscore) {
  module_graph const& g = p.whole();
  basic_model_state<std::uint32_t> m;
  numbering<std::string_view, std::uint32_t> paths, modules;
  for (auto const& a : g.attributes())
    if (a.what != module_attribute::kind::module) {
      paths.insert(a.path);
      m.tensors.push_back({a.path, a.storage, state_kind_of(a)});
    }
  for (auto const v : p.s.value)
    m.tensor.push_back(g[v].kind == node_kind::get_attr ? paths.find(g[v].target) : none<std::uint32_t>);

  tensors_below const below(m.tensors);
  for (std::uint32_t n = 0; n < p.s.nodes(); ++n) {
    auto const& node = g[p.s.node[n]];
    for (auto const& [key, value] : node.metadata)
      if (key == p.options.calls)
        for (auto const& t : value)
          if (auto const* call = std::get_if<std::string>(&t))
            m.inside.add(modules.insert(module_of_call(*call)));
    if (node.kind == node_kind::call_module) {
      m.inside.add(modules.insert(node.target));
      for (auto const t : below(node.target)) m.reads.add(t);
    }
    m.inside.close();
    m.reads.close();
    auto const read = p.s.operands[n];
    if (writes == write_rule::by_underscore && !read.empty() && writes_in_place(node))
      if (auto const t = m.tensor[read.front()]; t != none<std::uint32_t>) m.writes.add(t);
    m.writes.close();
  }
  for (auto const path : modules.handles()) m.modules.emplace_back(path);
  return m;
}

/// Registers every name under which a stage holds a tensor. O(names).
inline void hold_names(module_graph& stage, module_graph const& whole,
                       basic_model_state<std::uint32_t> const& m, std::vector<held_state> const& held) {
  for (auto const& h : held) {
    auto const& name = m.tensors[h.tensor].name;
    if (stage.find_attribute(name)) continue;
    module_attribute a = *whole.find_attribute(name);
    if (a.original.empty()) a.original = name;
    stage.add_attribute(std::move(a));
  }
}

/// Redirects all reads of a transmitted tensor to the read that comes first in the program, whatever name
/// they use. A tied tensor is then sent once. Must run before the cut is planned. O(V + E + names), plus one
/// search for each name in `options`.
/// \throws state_error if an option names no tensor, or if two options contradict each other
template <class Snapshot>
Snapshot join_sent_reads(Snapshot s, basic_model_state<typename Snapshot::index_type> const& m,
                         state_options const& options) {
  using Index = typename Snapshot::index_type;
  tensor_classes const classes(m.tensors);
  auto const choice = classes.choices(m.tensors, options);
  std::vector<Index> first(classes.size(), none<Index>), instead;
  for (std::size_t v = 0; v < s.values(); ++v) instead.push_back(static_cast<Index>(v));
  bool joined = false;
  auto const read = [&](Index v) {
    Index const t = s.producer[v] == none<Index> ? m.tensor[v] : none<Index>;
    if (t == none<Index> || s.latest[s.slot[v]] != v) return;  // tensors that are written are not sent
    auto const c = classes[t];
    if (choice[c] != shared_state::transmit) return;
    if (first[c] == none<Index>) first[c] = v;
    joined |= instead[v] != first[c];
    instead[v] = first[c];
  };
  for (Index const v : s.operands.item) read(v);
  for (Index const v : s.outputs) read(v);
  if (!joined) return s;
  for (auto* list : {&s.operands.item, &s.outputs})
    for (Index& v : *list) v = instead[v];
  if constexpr (requires { s.slot_of_handle; })
    for (Index& slot : s.slot_of_handle) slot = s.slot[instead[s.latest[slot]]];
  s.users = users_of(s.operands, s.values());
  return s;
}

/// Adds the transfers of sent state to a plan. Helper of `send_state`.
template <std::unsigned_integral Index>
class state_sender {
 public:
  state_sender(basic_snapshot_arrays<Index> const& s, basic_plan<Index> p, basic_model_state<Index> const& m,
               state_assignment const& placed)
      : s_(s),
        p_(std::move(p)),
        owner_(s.values(), the_caller),
        sent_(s.values()),
        given_(s.values(), the_caller),
        listed_(s.values(), the_caller) {
    tensor_classes const classes(m.tensors);
    std::vector<stage_id> owner(classes.size(), the_caller);
    for (auto const& sent : placed.sent) owner[classes[sent.tensor]] = sent.owner;
    for (std::size_t v = 0; v < s.values(); ++v)
      if (s.producer[v] == none<Index> && m.tensor[v] != none<Index>) owner_[v] = owner[classes[m.tensor[v]]];
    for (stage_id const i : p_.order)
      for (Index const v : p_.stages[index(i)].outputs) sent_[v] = owner_[v] == i;
  }

  basic_plan<Index> send() {
    for (stage_id const i : p_.order) receive(i);
    for (Index const v : s_.outputs)
      if (owner_[v] != the_caller) give(v);
    return std::move(p_);
  }

 private:
  bool is_sent_to(Index v, stage_id i) const { return owner_[v] != the_caller && owner_[v] != i; }

  /// Moves the values that stage `i` reads and other stages own from its state to its inputs.
  void receive(stage_id i) {
    auto& here = p_.stages[index(i)];
    std::erase_if(here.outputs, [&](Index v) { return is_sent_to(v, i); });
    if (std::erase_if(here.state, [&](Index v) { return is_sent_to(v, i); }) == 0) return;
    std::vector<Index> inputs;
    for (Index const v : here.inputs) given_[v] = i;
    for (Index const n : here.nodes)
      for (Index const v : s_.operands[n])
        if ((given_[v] == i || is_sent_to(v, i)) && std::exchange(listed_[v], i) != i) {
          inputs.push_back(v);
          if (is_sent_to(v, i)) take(v, i);
        }
    for (Index const v : here.inputs)
      if (listed_[v] != i) inputs.push_back(v);  // companions
    here.inputs = std::move(inputs);
  }

  void take(Index v, stage_id i) {
    p_.transfers.push_back({v, owner_[v], i});
    give(v);
  }
  void give(Index v) {
    if (!std::exchange(sent_[v], 1)) p_.stages[index(owner_[v])].outputs.push_back(v);
  }

  basic_snapshot_arrays<Index> const& s_;
  basic_plan<Index> p_;
  std::vector<stage_id> owner_;  // for each value: the stage that sends it, or the caller if it is not sent
  std::vector<char> sent_;       // for each value: true if it is already an output of its owner
  std::vector<stage_id> given_, listed_;  // for each value: the last stage it was recorded for
};

/// Returns `p`, a plan of `s`, with the state that `placed` sends turned into transfers. The owner outputs a
/// sent value after its other results. Other stages take it as an input; their inputs are sorted by first
/// use. If the graph returns the value, the caller receives it. O(V + size of the plan + names).
/// \pre `join_sent_reads` has joined the reads of `s`
template <std::unsigned_integral Index>
basic_plan<Index> send_state(basic_snapshot_arrays<Index> const& s, basic_plan<Index> p,
                             basic_model_state<Index> const& m, state_assignment const& placed) {
  if (placed.sent.empty()) return p;
  return state_sender<Index>(s, std::move(p), m, placed).send();
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// The sources of cuts that may be combined. `one` refuses cuts at modules together with a policy, as torch's
/// Pipe does.
enum class cut_sources : std::uint8_t { any, one };

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Thrown if cuts at modules and a policy are both given although `cut_sources::one` allows one of them.
class cut_source_error : public error {
 public:
  cut_source_error()
      : error(
            "pipe: cuts at modules and a policy are both given, but the options allow only one of them: "
            "remove one, or set sources to cut_sources::any") {}
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Options for cutting a module graph into a pipe and for writing its stages.
struct module_pipe_options {
  std::vector<module_cut> cuts = {};       ///< cuts at modules, in addition to markers
  cut_sources sources = cut_sources::any;  ///< `one` refuses `cuts` together with a policy
  module_program_options program = {};
  state_options state = {};                       ///< placement of state shared by several stages
  write_rule writes = write_rule::by_underscore;  ///< calls that write state in place
  order run = order::program;                     ///< the order of stages that do not depend on each other
  std::string prefix = "stage_";  ///< the path of stage i in the outer graph is this prefix and i
  /// The names of nodes and modules in the stages.
  module_builder_options stages = {.nodes = node_naming::original, .modules = module_paths::original};
};

/// A module_graph cut into a pipe: the plan, the stages as module_graphs, and an outer graph that calls them.
/// Each stage registers the state that it holds, under all of its names. Positions in `plan` refer to
/// `program.s`, whose handles are positions in the original graph.
struct module_pipe {
  module_program program;
  pipe_plan plan;
  module_graph outer;                      ///< calls the stages, which are the bodies of its attributes
  std::vector<std::string> paths;          ///< for each stage: its path in the outer graph
  basic_model_state<std::uint32_t> model;  ///< its tensors, and the nodes that use them
  state_assignment state;                  ///< the stages that hold each tensor of the model

  /// Returns the graph of stage `i`.
  module_graph const& stage(stage_id i) const {
    expects(index(i) < paths.size(), "a stage of this pipe");
    return outer.find_attribute(paths[index(i)])->body.front();
  }
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// A builder that looks up each value by its first read. Helper of `write_stage`.
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

/// Writes one stage of a pipe as a module_graph. O(size of the stage).
inline module_graph write_stage(module_program const& p, basic_stage<std::uint32_t> const& stage,
                                module_builder_options const& options) {
  module_builder b(p.whole(), options);
  b.reserve(stage.inputs.size() + stage.state.size() + stage.nodes.size() + 1);
  merging_builder merged(p.graph, b);
  emit_stage(p.graph, p.s, stage, merged);
  return std::move(b).finish();
}

/// Returns the node that represents `v` in a program. For state that is read several times, this is the first
/// read of its path, or of a tied path if reads were joined.
inline module_graph::position stand_in(module_program const& p, module_graph::position v) {
  auto const first = p.graph.first_read_of(v);
  if (p.whole()[v].kind != node_kind::get_attr) return first;
  auto const slot = p.s.find_slot(first);
  return slot == none<std::uint32_t> ? first : p.s.value[p.s.latest[slot]];
}

/// Returns a copy of the graph in which outputs refer to the representatives of their values (`stand_in`).
inline module_graph merge_outputs(module_program const& p) {
  module_graph const& g = p.whole();
  module_graph merged;
  for (auto n : g.list()) {
    for (auto& a : n.args)
      if (n.kind == node_kind::output) a = map_nodes(std::move(a), [&](auto v) { return stand_in(p, v); });
    merged.add(std::move(n));
  }
  for (auto const& a : g.attributes()) merged.add_attribute(a);
  merged.metadata = g.metadata;
  return merged;
}

/// Returns, for each stage, the earlier stages that must run before it: those whose values it reads and those
/// with nodes that its nodes must follow. O(V + E).
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

/// Assigns the state of the model to stages, writes the stages of `cut`, and writes the graph that calls
/// them. Expected O(V + E + names), plus the cost of ties in assign_state.
/// \throws state_error
inline module_pipe write_pipe(module_program program, pipe_plan cut,
                              module_pipe_options const& options = {}) {
  auto const& s = program.s;
  auto model = model_state_of(program, options.writes);
  auto state = assign_state(s, cut.plan, model, options.state);
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
  auto outer = repeats ? build(merge_outputs(program)) : build(g);
  return {std::move(program), std::move(cut),   std::move(outer),
          std::move(paths),   std::move(model), std::move(state)};
}

/// A policy that adds no cuts.
struct no_policy {
  cut_list operator()(auto const&) const { return {}; }
};

/// Returns the partition unchanged.
struct no_change {
  cut_partition operator()(module_program const&, cut_partition p) const { return p; }
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Cuts `g` into a pipe at markers, at the modules in `options.cuts`, and where `policy` says.
///
/// `policy(s)` receives the snapshot. It returns a cut_list, or a partition that further divides the parts
/// between the other cuts: `[](auto const& s) { return balance(s, 4); }`. `change(program, parts)` may adjust
/// the final partition, for example `sink_non_differentiable{}`. `g` is not modified and must outlive the
/// pipe.
///
/// Expected O(V + E + parts log parts).
/// \throws the errors of program_of, cuts_at_markers, cuts_at_modules and make_pipe_plan; no_output_error if
/// `g` has no output node; cut_source_error if `options.sources` is `one` and both `cuts` and a policy are
/// given; state_error
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

/// Deleted for temporaries: the graph must outlive the pipe.
template <class... Rest>
module_pipe make_module_pipe(module_graph&& g, module_pipe_options const& options = {}, Rest&&...) = delete;

}  // namespace cleave
