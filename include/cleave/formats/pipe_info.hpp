// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/core/transport.hpp"
#include "cleave/formats/json/json_writer.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/pipe/module_pipe.hpp"
#include "cleave/pipe/stage_calls.hpp"

/// What a pipe is, for people and for tools, without its stages.
namespace cleave {

/// The stages of a pipe, the values between them, and the graph that calls them.
struct pipe_info {
  struct stage {
    std::string path;
    std::uint32_t number;  ///< how many cuts come before it
    std::vector<std::string> nodes, inputs, state, outputs;

    bool operator==(stage const&) const = default;
  };
  struct edge {
    std::string value;
    stage_id from;             ///< `the_caller`: an input
    std::vector<stage_id> to;  ///< the caller last
    bool skips;                ///< it goes past a stage that does not read it

    bool operator==(edge const&) const = default;
  };

  std::vector<stage> stages;
  std::vector<edge> edges;
  std::vector<std::string> idle;       ///< cuts without effect, in words
  bool has_loss_and_backward = false;  ///< the root calls backward passes of stages
  module_graph root;                   ///< what calls the stages, which are not in it
};

}  // namespace cleave

namespace cleave::detail {

/// An idle cut of `p`, in words.
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

/// What `p` is; `options` are those that it was made with. O(V + E).
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

/// `x, y`, or a dash.
inline std::string name_list(std::vector<std::string> const& names) {
  std::string text;
  for (auto const& name : names) text += (text.empty() ? "" : ", ") + printable(name);
  return text.empty() ? "-" : text;
}

}  // namespace cleave::detail

namespace cleave {

/// A few lines a stage, then a line an edge.
inline std::string write_pipe_info(pipe_info const& info) {
  std::string text = std::to_string(info.stages.size()) + " stages, " +
                     (info.has_loss_and_backward ? "with" : "without") + " loss and backward\n";
  for (auto const& stage : info.stages)
    text += printable(stage.path) + " (after " + std::to_string(stage.number) +
            " cuts): " + std::to_string(stage.nodes.size()) + " nodes\n  takes " + detail::name_list(stage.inputs) +
            "\n  holds " + detail::name_list(stage.state) + "\n  gives " + detail::name_list(stage.outputs) + "\n";
  for (auto const& e : info.edges) {
    std::string to;
    for (stage_id const i : e.to) to += (to.empty() ? "" : ", ") + stage_text(i);
    text += printable(e.value) + ": " + stage_text(e.from) + " -> " + to + (e.skips ? " (skips)" : "") + "\n";
  }
  for (auto const& line : info.idle) text += line + "\n";
  return text;
}

/// The same as JSON; the caller is null.
///
///     {"format": "cleave pipe 1", "has_loss_and_backward": false,
///      "stages": [{"path": "stage_0", "number": 0, "nodes": […], "inputs": […], "state": […],
///                  "outputs": […]}, …],
///      "edges": [{"value": "x", "from": null, "to": [0, 2], "skips": false}, …],
///      "idle": []}
inline std::string write_pipe_info_json(pipe_info const& info,
                                        json_writer::layout l = json_writer::layout::compact) {
  json_writer w(l);
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
