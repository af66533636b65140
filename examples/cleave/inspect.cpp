// SPDX-License-Identifier: MIT
// cleave inspect MODEL.onnx | GRAPH.json: describes a model or a graph for cutting.
//
// --json writes one object. graph_facts.hpp describes the one for graphs. The one for models:
//   file, bytes         of the model, unpacked
//   ir_version, opsets  {domain: version}; the default domain is "ai.onnx"
//   nodes, live_nodes   in the file; those placed in stages, which reach an output and depend on an input
//   constant_nodes      nodes that depend on weights alone; a runtime runs them once, at load
//   operators           {operator: nodes of the file}
//   weights             {tensors, parameters, bytes}
//   inputs, outputs     [{name, type, bytes}]; null if unknown
//   values              {made, untyped, unsized, bounded}: numbers of results of live nodes; of those with unknown type;
//                       of those with unknown shape; of those with only an upper bound of their size
//   first_unknown       null, or {name, node, operator} of the first value with unknown shape; for an input, only the name
//   flops               of one run, by the table of cleave/adapt/onnx/detail/flops.hpp
//   unpriced_nodes      live nodes with unknown shapes; flops do not include them
//   bounded_nodes       nodes whose cost is an upper bound
//   priced_by_bytes     {operator: nodes} for operators that are not in that table
//   shapes              with --shapes: {value: type} of all results of nodes; null if unknown
#include <cleave/formats/json/json_writer.hpp>
#include <map>
#include <span>
#include <string>

#include "describe.hpp"
#include "graph_facts.hpp"
#include "model.hpp"
#include "subcommands.hpp"

namespace tool {

namespace {

/// Returns the type of each result of a live node, one per line.
std::string shapes_of(model const& m) {
  std::string text;
  for (auto const n : m.graph.nodes())
    for (auto const v : m.graph.results(n))
      if (!m.graph.name_of(v).empty())
        text += "  " + value_text(m, v) + "   " + cleave::printable(m.graph.proto(n).op_type(), 40) + "\n";
  return text;
}

std::string json_of(model const& m, bool shapes) {
  auto const s = summary_of(m);
  cleave::json::writer json(cleave::json::writer::layout::indented);
  auto const counts = [&](char const* key, std::map<std::string, std::size_t> const& of) {
    json.key(key).open_object();
    for (auto const& [name, count] : of) json.member(name, count);
    json.close_object();
  };
  auto const values = [&](char const* key, auto const& list) {
    json.key(key).open_array();
    for (auto const v : list) {
      auto const* type = m.types.priced(m.graph.name_of(v));
      json.open_object().member("name", m.graph.name_of(v)).key("type");
      type == nullptr ? json.null() : json.value(cleave::onnx::spelling(*type));
      json.key("bytes");
      m.graph.bytes(v) == 0 ? json.null() : json.value(m.graph.bytes(v));
      json.close_object();
    }
    json.close_array();
  };
  json.open_object().member("file", given_name(m.path)).member("bytes", m.file_bytes);
  json.member("ir_version", m.proto->ir_version()).key("opsets").open_object();
  for (auto const& o : m.proto->opset_import())
    json.member(o.domain().empty() ? "ai.onnx" : o.domain(), o.version());
  json.close_object().member("nodes", m.graph.file_nodes()).member("live_nodes", m.nodes_to_place());
  json.member("constant_nodes", s.at_load);
  counts("operators", s.operators);
  json.key("weights").open_object().member("tensors", s.weights).member("parameters", s.parameters);
  json.member("bytes", s.weight_bytes).close_object();
  values("inputs", m.graph.inputs());
  values("outputs", m.graph.outputs());
  json.key("values").open_object().member("made", s.made).member("untyped", s.untyped);
  json.member("unsized", s.unsized).member("bounded", s.bounded).close_object().key("first_unknown");
  if (auto const lost = cleave::onnx::first_unknown_shape(m.graph, m.types)) {
    json.open_object().member("name", m.graph.name_of(*lost));
    if (auto const n = m.graph.producer(*lost); n != cleave::none<cleave::onnx::graph::node>)
      json.member("node", m.graph.proto(n).name()).member("operator", m.graph.proto(n).op_type());
    json.close_object();
  } else {
    json.null();
  }
  json.member("flops", s.flops).member("unpriced_nodes", s.lacking.nodes);
  json.member("bounded_nodes", m.costs.bounded);
  counts("priced_by_bytes", m.costs.fallbacks);
  if (shapes) {
    json.key("shapes").open_object();
    for (auto const n : m.graph.nodes())
      for (auto const v : m.graph.results(n)) {
        if (m.graph.name_of(v).empty()) continue;
        auto const* type = m.types.priced(m.graph.name_of(v));
        json.key(m.graph.name_of(v));
        type == nullptr ? json.null() : json.value(cleave::onnx::spelling(*type));
      }
    json.close_object();
  }
  return json.close_object().text() + "\n";
}

}  // namespace

int inspect(std::span<std::string const> words) {
  bool as_json = false, shapes = false;
  cleave::onnx::type_options types;
  command c{"inspect",
            "MODEL.onnx | GRAPH.json",
            "Describes a model or a graph: its nodes, weights, inputs, outputs and work. The file - is\n"
            "standard input.",
            {}};
  c.options.push_back(json_flag(as_json));
  c.options.push_back(flag("--shapes", "list the type and shape of every value too", shapes));
  add_type_options(c, types);
  auto const path = only_operand(read_options(c, words).operands);

  if (is_graph_file(path)) {
    require_no_sizes(types);
    if (shapes) throw usage_error("--shapes is for ONNX models; a graph in JSON has no shapes");
    auto const g = read_graph(path);
    print(as_json ? json_of(path, g) : bold(short_name(path)) + "\n" + description_of(g));
    return 0;
  }
  progress const doing;
  auto const m = read_model(path, types, doing);
  doing.clear();
  print(as_json ? json_of(m, shapes)
                : bold(short_name(m.path)) + "\n" + description_of(m) + (shapes ? shapes_of(m) : ""));
  return 0;
}

}  // namespace tool
