// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cleave/core/error.hpp>
#include <cleave/core/printable.hpp>
#include <cleave/draw/report.hpp>
#include <cleave/formats/graph_json.hpp>
#include <cleave/formats/units.hpp>
#include <cleave/graph/costed_module_graph.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "certificate.hpp"
#include "cost_file.hpp"
#include "cut.hpp"
#include "describe.hpp"
#include "files.hpp"
#include "graph_costs.hpp"

namespace tool {

/// Returns a chain of the layers in a file of costs, one a line: `layers.0,1.5ms,8MiB`. The bytes are those
/// of the layer's result.
/// \throws cleave::error with the path and the fault in the file.
inline cleave::costed_module_graph read_layer_list(fs::path const& path) {
  auto const file = read_cost_file(path);
  if (file.is_profile)
    throw cleave::error(input_name(path) + ": is a profile; give it with --costs, and the model as operand");
  cleave::module_graph g;
  std::vector<cleave::module_argument> args;
  auto const node = [&](cleave::node_kind kind, std::string const& name) -> cleave::module_node {
    cleave::module_node n;
    n.kind = kind;
    n.name = n.target = name;
    n.args = args;
    return n;
  };
  args = {cleave::node_argument(g.add(node(cleave::node_kind::placeholder, "input")))};
  for (auto const& entry : file.entries) {
    auto n = node(cleave::node_kind::call_function, entry.name);
    n.metadata = {{"path", {entry.name}}, {"cost", {entry.seconds}}};
    if (entry.bytes) n.metadata.push_back({"bytes", {static_cast<std::int64_t>(*entry.bytes)}});
    args = {cleave::node_argument(g.add(std::move(n)))};
  }
  g.add(node(cleave::node_kind::output, "output"));
  g.metadata.push_back({"cost_unit", {std::string("s")}});
  g.metadata.push_back({"cost_origin", {"given in " + file_title(path)}});
  return cleave::costed_module_graph(std::move(g));
}

/// Returns whether a file is a graph in JSON: by its suffix or, for stdin, its first character.
inline bool is_graph_json(fs::path const& path) {
  return is_standard(path) ? begins_as_json(standard_input()) : path.extension() == ".json";
}

/// Returns whether a file is a list of layers in CSV: by its suffix or, for stdin, since its first line is
/// text with a comma.
inline bool is_layer_list(fs::path const& path) {
  if (!is_standard(path)) return path.extension() == ".csv";
  auto const line = std::string_view(standard_input()).substr(0, standard_input().find('\n'));
  bool const is_text = std::ranges::none_of(
      line, [](char c) { return static_cast<unsigned char>(c) < ' ' && c != '\r' && c != '\t'; });
  return is_text && line.find(',') != line.npos && !begins_as_json(standard_input());
}

/// Returns whether a file is a graph in one of these forms, not an ONNX model.
inline bool is_graph_file(fs::path const& path) { return is_graph_json(path) || is_layer_list(path); }

/// \throws cleave::error with the path and the fault in the file.
inline cleave::costed_module_graph read_graph(fs::path const& path) {
  if (is_layer_list(path)) return read_layer_list(path);
  auto text = read_text(path);
  try {
    cleave::costed_module_graph g(cleave::read_graph_json(std::move(text)));
    unit_of(g);
    cost_origin_of(g);
    return g;
  } catch (cleave::error const& e) {
    throw cleave::error(input_name(path) + ": " + e.what());
  }
}

/// Counts over the nodes of a graph.
struct graph_summary {
  std::map<std::string, std::size_t> operators;       ///< number of calls, by target
  std::map<std::string, std::size_t> attributes;      ///< number of registered paths, by kind
  std::size_t priced = 0, sized = 0, replicable = 0;  ///< calls with a cost, with a size, and marked
  double cost = 0;                                    ///< sum over the calls that are not replicable
  std::uint64_t bytes = 0;                            ///< of the results of these calls
};

inline graph_summary summary_of(cleave::costed_module_graph const& g) {
  graph_summary s;
  for (auto const& a : g.attributes())
    ++s.attributes[std::string(cleave::detail::attribute_kind_names[static_cast<std::size_t>(a.what)])];
  for (auto const n : g.nodes()) {
    ++s.operators[g[n].target];
    auto const known = cleave::detail::cost_of(g, n);
    s.priced += known.cost.has_value();
    s.sized += known.bytes > 0;
    s.replicable += known.replicable;
    if (known.replicable) continue;
    s.cost += known.cost.value_or(0);
    s.bytes += known.bytes;
  }
  return s;
}

/// Describes a graph for the head of a report.
inline std::vector<cleave::report::fact> facts_of(cleave::costed_module_graph const& g) {
  auto const s = summary_of(g);
  std::vector<cleave::report::fact> facts = {{"Nodes", cleave::count_text(g.list().size())},
                                             {"Calls", cleave::count_text(g.nodes().size())},
                                             {"Cost", cost_text(s.cost, unit_of(g))}};
  for (auto const& [kind, count] : s.attributes)
    facts.push_back({kind + (count == 1 ? "" : "s"), cleave::count_text(count)});
  if (s.replicable > 0) facts.push_back({"Replicable calls", cleave::count_text(s.replicable)});
  return facts;
}

/// Describes a graph in a few lines.
inline std::string description_of(cleave::costed_module_graph const& g) {
  auto const s = summary_of(g);
  auto const unit = unit_of(g);
  std::string text;
  auto const line = [&](std::string const& label, std::string const& rest) {
    text += "  " + label + std::string(10 - label.size(), ' ') + rest + "\n";
  };
  auto const names = [&](auto const& list) {
    return list.empty() ? "none"
                        : first_of(list, 4, [&](auto v) { return cleave::printable(g[v].name, 40); });
  };
  auto const of_calls = [&](std::size_t n) {
    return n == g.nodes().size() ? "all " + plural(n, "call")
                                 : cleave::count_text(n) + " of " + plural(g.nodes().size(), "call");
  };
  line("nodes", cleave::count_text(g.list().size()));
  line("calls", cleave::count_text(g.nodes().size()) +
                    (s.operators.empty() ? "" : ": " + frequencies_text(s.operators, 5)));
  if (!s.attributes.empty()) line("registers", frequencies_text(s.attributes, 4));
  line("inputs", names(g.inputs()));
  line("outputs", names(g.outputs()));
  line("costs", "of " + of_calls(s.priced) + ", in all " + cost_text(s.cost, unit) +
                    (unit.name.empty() ? "; the graph's meta gives no cost_unit" : "") + "; " +
                    cleave::printable(cost_origin_of(g), 200));
  line("sizes", "of the results of " + of_calls(s.sized) + ", in all " + cleave::bytes_text(s.bytes));
  if (s.replicable > 0) line("copies", plural(s.replicable, "call") + " may be in several stages");
  return text;
}

/// Returns the description of a graph as JSON:
///   file, nodes, calls           numbers of nodes
///   operators                    {target: calls}
///   attributes                   {kind: number}
///   inputs, outputs              names of nodes
///   costs                        {calls, sum, unit, origin}; times are in s
///   sizes                        {calls, sum} of results, in bytes
///   replicable                   number of calls that may be in several stages
inline std::string json_of(fs::path const& path, cleave::costed_module_graph const& g) {
  auto const s = summary_of(g);
  auto const unit = unit_of(g);
  cleave::json::writer json(cleave::json::writer::layout::indented);
  auto const counts = [&](char const* key, std::map<std::string, std::size_t> const& of) {
    json.key(key).open_object();
    for (auto const& [name, count] : of) json.member(name, count);
    json.close_object();
  };
  auto const names = [&](char const* key, auto const& list) {
    json.key(key).open_array();
    for (auto const v : list) json.value(g[v].name);
    json.close_array();
  };
  json.open_object().member("file", given_name(path)).member("nodes", g.list().size());
  json.member("calls", g.nodes().size());
  counts("operators", s.operators), counts("attributes", s.attributes);
  names("inputs", g.inputs()), names("outputs", g.outputs());
  json.key("costs").open_object().member("calls", s.priced).member("sum", s.cost * unit.of_name);
  json.member("unit", unit.name).member("origin", cost_origin_of(g)).close_object();
  json.key("sizes").open_object().member("calls", s.sized).member("sum", s.bytes).close_object();
  return json.member("replicable", s.replicable).close_object().text() + "\n";
}

/// Returns the name by which a value of a graph is known: the path of an attribute, or the name of the node.
inline std::string value_name(cleave::module_graph const& g, cleave::module_graph::position v) {
  return g[v].kind == cleave::node_kind::get_attr ? g[v].target : g[v].name;
}

/// Returns the report on a cut of `g`, without its title and facts. Costs are in the unit of `unit.name`.
template <class Snapshot, class Plan>
cleave::report report_of(cleave::costed_module_graph const& g, Snapshot const& s, Plan const& p,
                         cleave::balanced_partition const& parts, certificate const& proof,
                         graph_unit const& unit) {
  auto const describe = [&](auto n) {
    auto const& node = g[s.node[n]];
    return cleave::report_node{node.name, node.target == node.name ? "" : node.target,
                               s.weight[n] * unit.of_name};
  };
  auto r = cleave::report_of(s, p, describe, [&](auto v) { return value_name(g, s.value[v]); });
  for (auto& box : r.cut.stages) box.cost *= unit.of_name;
  r.cost_unit = unit.name;
  r.cost_origin = cost_origin_of(g);
  auto loads = parts.loads;
  for (auto& load : loads) load *= unit.of_name;
  r.balance = cleave::report_balance{.objective = proof.objective,
                                     .load = std::move(loads),
                                     .bound = proof.bound.value_or(0),
                                     .lacking = proof.lacking};
  if (!proof.lacking.leaves_bounds()) r.balance->advice = "Give each call its cost, and its bytes";
  return r;
}

/// Returns what a reader should know about a cut of `g`, a sentence each.
template <class Snapshot>
std::vector<std::string> remarks_on(cleave::costed_module_graph const& g, Snapshot const& s,
                                    cut_options const& options, graph_unit const& unit) {
  std::vector<std::string> lines;
  bool const sized = std::ranges::any_of(g.nodes(), [&](auto n) { return g.bytes(n) > 0; });
  if (sized && unit.second == 0 && !options.flops_per_byte)
    lines.push_back(
        "transfers are taken as free; --flops-per-byte R gives the cost of a byte, in the unit of the costs");
  std::vector<std::string> kept;
  for (std::uint32_t n = 0; n < s.nodes(); ++n)
    if (g.replicable(s.node[n]) && s.replicable[n] == 0) kept.push_back(g[s.node[n]].name);
  if (!kept.empty())
    lines.push_back("replicable, but in one stage, since inputs or other nodes of one stage are read: " +
                    first_of(kept, 4, [](auto const& name) { return cleave::quoted(name); }));
  return lines;
}

}  // namespace tool
