// SPDX-License-Identifier: MIT
#pragma once
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "cleave/core/dataflow.hpp"
#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/formats/json/json_writer.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/pipe/module_pipe.hpp"

/// The calls of stages in the root of a pipe, which is the graph that calls them.
namespace cleave::inline v0_2::detail {

/// A call of a stage, and the number at the end of its path.
struct numbered_stage {
  module_graph::position node;
  std::uint32_t number;

  bool operator==(numbered_stage const&) const = default;
};

/// Thrown for a call whose path has the prefix of stages but does not end with a number; the witness is the
/// node.
using stage_number_error = tagged_error<struct stage_number_tag, module_graph::position>;

/// Returns the number after the prefix of a stage's path, if it is one.
inline std::optional<std::uint32_t> find_stage_number(std::string_view path, std::string_view prefix) {
  auto const digits = path.substr(prefix.size());
  std::uint32_t number = 0;
  auto const* const begin = digits.data();
  auto const* const end = begin + digits.size();
  auto const read = std::from_chars(begin, end, number);
  return read.ec == std::errc() && read.ptr == end ? std::optional(number) : std::nullopt;
}

/// Returns the calls of stages in `root`, in order, one entry per call. Calls of other modules are skipped.
/// O(V).
/// \throws stage_number_error
inline std::vector<numbered_stage> stage_calls_of(module_graph const& root,
                                                  std::string_view prefix = "stage_") {
  std::vector<numbered_stage> calls;
  for (auto const n : root.nodes()) {
    if (root[n].kind != node_kind::call_module || !root[n].target.starts_with(prefix)) continue;
    auto const number = find_stage_number(root[n].target, prefix);
    if (!number)
      throw stage_number_error("node " + quoted(root[n].name) + " calls " + quoted(root[n].target) +
                                   "; after " + quoted(std::string(prefix)) +
                                   " the number of a stage is expected, not " +
                                   quoted(root[n].target.substr(prefix.size())),
                               n);
    calls.push_back({n, *number});
  }
  return calls;
}

/// Thrown if the root calls a stage whose graph it does not contain; the witness is the call.
using detached_stage_error = tagged_error<struct detached_stage_tag, module_graph::position>;

/// Returns `root` without the graphs of its stages, which can then be freed.
inline module_graph detached_root(module_graph const& root, std::string_view prefix = "stage_") {
  module_graph detached;
  detached.reserve(root.list().size());
  for (auto const& n : root.list()) detached.add(n);
  for (auto const& a : root.attributes()) {
    bool const stage = a.what == module_attribute::kind::module && a.path.starts_with(prefix);
    module_attribute copy{a.path, a.what, a.storage, {}, a.original, a.metadata};
    if (!stage) copy.body = a.body;
    detached.add_attribute(std::move(copy));
  }
  detached.metadata = root.metadata;
  return detached;
}

/// Returns the first call of a stage without a graph, if any.
inline std::optional<module_graph::position> find_detached_stage(module_graph const& root,
                                                                 std::string_view prefix = "stage_") {
  for (auto const& call : stage_calls_of(root, prefix)) {
    auto const* a = root.find_attribute(root[call.node].target);
    if (!a || a->body.empty()) return call.node;
  }
  return std::nullopt;
}

/// Checks that `root` contains the graph of each stage that it calls. \throws detached_stage_error
inline void check_stages(module_graph const& root, std::string_view prefix = "stage_") {
  if (auto const n = find_detached_stage(root, prefix))
    throw detached_stage_error("the root of this pipe cannot run, because stage " + quoted(root[*n].target) +
                                   " has no graph in it; run the pipe that the root was taken from",
                               *n);
}

}  // namespace cleave::detail

/// A description of a pipe for people and tools, without the graphs of its stages.
namespace cleave::inline v0_2 {

/// The stages of a pipe, the values between them, and the graph that calls them.
struct pipe_info {
  /// A stage, with the names of its nodes, inputs, state and outputs.
  struct stage {
    std::string path;
    std::uint32_t number;  ///< number of cuts before it
    std::vector<std::string> nodes, inputs, state, outputs;

    bool operator==(stage const&) const = default;
  };
  /// A value, the stage that makes it, and the stages that read it.
  struct edge {
    std::string value;
    stage_id from;             ///< `the_caller` for an input of the pipe
    std::vector<stage_id> to;  ///< `the_caller` is last
    bool skips;                ///< true if it passes a stage that does not read it

    bool operator==(edge const&) const = default;
  };

  std::vector<stage> stages;
  std::vector<edge> edges;
  std::vector<std::string> idle;       ///< descriptions of cuts without effect
  bool has_loss_and_backward = false;  ///< true if the root calls backward passes of stages
  module_graph root;                   ///< the graph that calls the stages, without their graphs
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the description of a cut of `p` that has no effect.
inline std::string describe_idle(module_pipe const& p, std::vector<module_cut> const& cuts,
                                 idle_cut const& c) {
  module_graph const& g = p.program.whole();
  bool const module = c.what == cut_kind::module_begin || c.what == cut_kind::module_end;
  std::string const who =
      module ? "the cut at the " + std::string(c.what == cut_kind::module_begin ? "begin" : "end") +
                   " of module " +
                   quoted(c.asked_by < cuts.size() ? cuts[c.asked_by].path : std::to_string(c.asked_by))
             : (c.what == cut_kind::marker ? "marker " : "the policy's cut before ") +
                   quoted(g[p.program.s.node[static_cast<std::uint32_t>(c.asked_by)]].name);
  switch (c.why) {
    case idle_reason::never_called:
      return who + " has no effect: the module is never called";
    case idle_reason::at_the_start:
      return who + " has no effect: no node comes before it";
    case idle_reason::at_the_end:
      return who + " has no effect: no node comes after it";
    case idle_reason::beside_another:
      return who + " has no effect: there is another cut at the same place";
  }
  return {};
}

/// Returns the description of `p`; `options` are those that it was made with. O(V + E).
inline pipe_info pipe_info_of(module_pipe const& p, module_pipe_options const& options = {}) {
  auto const& s = p.program.s;
  module_graph const& g = p.program.whole();
  auto const names = [&](auto const& list, auto const& handle) {
    std::vector<std::string> all;
    for (auto const i : list) all.push_back(g[handle[i]].name);
    return all;
  };
  pipe_info info;
  for (std::size_t i = 0; i < p.paths.size(); ++i) {
    auto const& stage = p.plan.plan.stages[i];
    info.stages.push_back({p.paths[i],
                           p.plan.number[i],
                           names(stage.nodes, s.node),
                           names(stage.inputs, s.value),
                           {},
                           names(stage.outputs, s.value)});
    for (auto const v : stage.state) info.stages.back().state.push_back(g[s.value[v]].target);
  }
  for (auto const& e : p.plan.edges)
    info.edges.push_back({g[s.value[e.value]].name, e.from, e.to, skips_stages(e)});
  for (auto const& c : p.plan.idle) info.idle.push_back(describe_idle(p, options.cuts, c));
  for (auto const& n : p.outer.list())
    info.has_loss_and_backward |= n.kind == node_kind::call_function && n.target == "stage_backward";
  info.root = detached_root(p.outer, options.prefix);
  return info;
}

/// Returns names as `x, y`; a dash if there are none.
inline std::string name_list(std::vector<std::string> const& names) {
  std::string text;
  for (auto const& name : names) text += (text.empty() ? "" : ", ") + printable(name);
  return text.empty() ? "-" : text;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns a text with a few lines per stage, then one line per edge.
inline std::string write_pipe_info(pipe_info const& info) {
  std::string text = std::to_string(info.stages.size()) + " stages, " +
                     (info.has_loss_and_backward ? "with" : "without") + " loss and backward\n";
  for (auto const& stage : info.stages)
    text += printable(stage.path) + " (after " + std::to_string(stage.number) +
            " cuts): " + std::to_string(stage.nodes.size()) + " nodes\n  takes " +
            detail::name_list(stage.inputs) + "\n  holds " + detail::name_list(stage.state) + "\n  gives " +
            detail::name_list(stage.outputs) + "\n";
  for (auto const& e : info.edges) {
    std::string to;
    for (stage_id const i : e.to) to += (to.empty() ? "" : ", ") + stage_text(i);
    text += printable(e.value) + ": " + stage_text(e.from) + " -> " + to + (e.skips ? " (skips)" : "") + "\n";
  }
  for (auto const& line : info.idle) text += line + "\n";
  return text;
}

/// Returns the description as JSON; the caller is null.
///
///     {"format": "cleave pipe 1", "has_loss_and_backward": false,
///      "stages": [{"path": "stage_0", "number": 0, "nodes": […], "inputs": […], "state": […],
///                  "outputs": […]}, …],
///      "edges": [{"value": "x", "from": null, "to": [0, 2], "skips": false}, …],
///      "idle": []}
inline std::string write_pipe_info_json(pipe_info const& info,
                                        json::writer::layout l = json::writer::layout::compact) {
  json::writer w(l);
  auto const list = [&](char const* key, std::vector<std::string> const& names) {
    w.key(key).open_array();
    for (auto const& name : names) w.value(name);
    w.close_array();
  };
  auto const stage = [&](stage_id i) { i == the_caller ? w.null() : w.value(index(i)); };
  w.open_object().member("format", "cleave pipe 1");
  w.member("has_loss_and_backward", info.has_loss_and_backward).key("stages").open_array();
  for (auto const& s : info.stages) {
    w.open_object().member("path", s.path).member("number", s.number);
    list("nodes", s.nodes);
    list("inputs", s.inputs);
    list("state", s.state);
    list("outputs", s.outputs);
    w.close_object();
  }
  w.close_array().key("edges").open_array();
  for (auto const& e : info.edges) {
    stage((w.open_object().member("value", e.value).key("from"), e.from));
    w.key("to").open_array();
    for (stage_id const i : e.to) stage(i);
    w.close_array().member("skips", e.skips).close_object();
  }
  w.close_array();
  list("idle", info.idle);
  return w.close_object().text();
}

}  // namespace cleave
