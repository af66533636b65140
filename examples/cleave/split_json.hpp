// SPDX-License-Identifier: MIT
#pragma once
#include <cleave/formats/json/json_writer.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cut.hpp"
#include "model.hpp"

namespace tool {

/// One object:
///   file                        path of the model
///   stages                      a list of objects with
///     nodes, names              positions in the file; names there, or operators if unnamed
///     constants                 positions of its copies of nodes that depend on weights alone
///     cost, share               seconds, and as a multiple of an even share
///     predicted_cost            seconds by the static model; only with --costs, where `cost` is measured
///     load                      cost at the stage's speed plus cost of its transfers, in seconds
///     rank                      only with --schedule
///     weight_, in_, out_bytes   null if a size is unknown
///     inputs, outputs           names of values
///     file                      only with --out
///   transfers                   [{value, from, to, bytes}] between stages
///   measured                    only with --costs: {file, runs, measured, shared, folded, scaled, scale,
///                               elsewhere}: numbers of nodes by the origin of their cost, the factor on
///                               estimates, and seconds of the file that belong to no node
///   rank_loads                  only with --schedule and several stages per rank; bottleneck and bound are
///                               those of ranks then
///   objective                   the costs that a load counts
///   bottleneck, bound, gap      largest load; lower bound for any cut; bottleneck / bound - 1
///                               bound and gap cover known costs, and are null if less than 98 % are known
///   unpriced                    {nodes, node_share, values, value_share} of unknown cost or unknown bytes
///   enough_stages               null, or a smaller number of stages with the same bottleneck
///   dominant                    null, or {node, operation, share}: a node whose cost alone is the
///                               bottleneck, and its share of the cost of all nodes
///   would_price                 null, or {option, nodes, values}: the option that would give most costs
///   hosts                       only with --hosts: the host of each rank
///   ties                        [{weight, stages}]: a weight in several stages; with --hosts also
///                               groups, the ranks that sum its gradients
///   constants                   {nodes, copies, not_copied}: nodes that depend on weights alone, their
///                               copies in all stages, and nodes that read weights alone but may be random
///   plan                        only with --for, or if --by has a plan: {for, text, largest_load,
///                               sent_bytes, modules, best}: modules are [{name, stage}], and best is null,
///                               or the best plan with the same keys and its gain, the share of the load
///                               that it saves
///   untyped                     values of unknown type, which no cut can send
///   passed                      outputs that no stage makes
///   carried                     [{stage, past, present}]: outputs that become inputs of their stage in
///                               the next run
///   remarks                     the notes that the text prints below the table
inline void add_cut(cleave::json::writer& json, model const& m, cut const& c,
                    std::vector<fs::path> const& files, std::uint32_t asked, cleave::onnx::weights weights) {
  auto const& s = c.stages.snapshot();
  auto const name = [&](auto v) { return m.graph.name_of(s.value[v]); };
  auto const bytes = [&](char const* key, cleave::byte_sum const& sum) {
    json.key(key);
    sum.unknown > 0 ? json.null() : json.value(sum.known);
  };
  auto const list = [&](char const* key, auto const& items, auto show) {
    json.key(key).open_array();
    for (auto const& item : items) json.value(show(item));
    json.close_array();
  };
  double total = 0;
  for (auto const& box : c.boxes.stages) total += box.cost;
  auto const predicted = predicted_costs(m, c);

  json.member("file", given_name(m.path)).key("stages").open_array();
  for (std::size_t i = 0; i < c.stages.size(); ++i) {
    auto const& box = c.boxes.stages[i];
    auto const& stage = c.stages.plan().stages[i];
    json.open_object();
    auto const copied = [&](auto n) { return s.replicable[n] != 0; };
    auto own = stage.nodes, copies = stage.nodes;
    std::erase_if(own, copied);
    std::erase_if(copies, [&](auto n) { return !copied(n); });
    list("nodes", own, [&](auto n) { return s.node[n]; });
    list("names", own, [&](auto n) { return std::string(m.graph.name(s.node[n])); });
    list("constants", copies, [&](auto n) { return s.node[n]; });
    json.member("cost", box.cost)
        .member("share", total > 0 ? box.cost * static_cast<double>(c.stages.size()) / total : 1);
    if (m.measured) json.member("predicted_cost", predicted[i]);
    json.member("load", c.parts.loads[i]);
    if (!c.rank_of.empty()) json.member("rank", index(c.rank_of[i]));
    bytes("weight_bytes", box.state), bytes("in_bytes", box.in), bytes("out_bytes", box.out);
    list("inputs", stage.inputs, name), list("outputs", stage.outputs, name);
    if (i < files.size()) json.member("file", files[i].string());
    json.close_object();
  }
  json.close_array().key("transfers").open_array();
  for (auto const& t : c.stages.plan().transfers) {
    json.open_object().member("value", name(t.value)).member("from", index(t.from)).member("to", index(t.to));
    bytes("bytes", {s.bytes[t.value], s.bytes[t.value] == 0});
    json.close_object();
  }
  json.close_array();
  if (m.measured) add_measured(json, *m.measured);
  if (c.plan) add_plan(json, *c.plan);
  if (c.hosts) c.hosts->add_to(json);
  if (!c.rank_loads.empty()) list("rank_loads", c.rank_loads, [](double load) { return load; });
  add_certificate(json, c.proof);
  auto const [dominant, operation] = c.dominant();
  add_limits(json, c.limits, dominant, operation);
  json.key("would_price");
  if (c.advice)
    json.open_object()
        .member("option", c.advice->option)
        .member("nodes", c.advice->most.nodes)
        .member("values", c.advice->most.values)
        .close_object();
  else
    json.null();
  json.key("ties").open_array();
  for (auto const& t : ties_of(m, c)) {
    json.open_object().member("weight", m.graph.name_of(t.storage));
    list("stages", t.stages, [](auto i) { return index(i); });
    if (c.hosts) {
      json.key("groups").open_array();
      for (auto const& group : c.hosts->groups_of({"", t.stages})) {
        json.open_array();
        for (auto const r : group) json.value(index(r));
        json.close_array();
      }
      json.close_array();
    }
    json.close_object();
  }
  json.close_array();
  json.key("constants").open_object().member("nodes", c.notes.copied.size());
  json.member("copies", c.notes.copies).member("not_copied", c.notes.not_copied.size()).close_object();
  list("untyped", c.notes.untyped, [&](auto v) { return m.graph.name_of(v); });
  list("passed", c.notes.passed, [&](auto v) { return m.graph.name_of(v); });
  add_carried(json, carried_of(m, c));
  list("remarks", remarks_on(m, c, asked, weights), [](auto const& line) { return line; });
}

/// Returns a cut as one object with these members.
inline std::string json_of(model const& m, cut const& c, std::vector<fs::path> const& files,
                           std::uint32_t asked, cleave::onnx::weights weights) {
  cleave::json::writer json(cleave::json::writer::layout::indented);
  json.open_object();
  add_cut(json, m, c, files, asked, weights);
  return json.close_object().text() + "\n";
}

}  // namespace tool
