// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "cleave/draw/bucket_table.hpp"
#include "cleave/split/modules/compile_pieces.hpp"
#include "cleave/split/modules/split_buckets.hpp"
#include "conformance_runner/read_case.hpp"
#include "conformance_runner/read_graph.hpp"

/// Reads and writes the parameters, buckets and pieces of the DDPOptimizer cases. Values have the tensor
/// properties that the recording has: shape and element type.
namespace cleave::conformance {

using namespace detail;

/// Returns a tensor in the form of an example value.
inline json example_of(json const& parameter) {
  return {{"shape", parameter["shape"]}, {"dtype", parameter.value("dtype", "f32")}};
}

inline model_parameters read_parameters(module_graph const& g, json const& graph) {
  model_parameters p;
  std::map<std::string, std::uint32_t> number;
  for (auto const& [id, j] : graph["params"].items()) {
    number[id] = static_cast<std::uint32_t>(p.list.size());
    p.list.push_back({.bytes = j["bytes"],
                      .storage_bytes = j.value("storage_bytes", std::size_t{0}),
                      .trained = j.value("requires_grad", true),
                      .ignored = j.value("ignored", false),
                      .plain = j.value("kind", "") == "tensor"});
  }
  json const none = json::object();
  auto const part = [&](char const* key) -> json const& {
    return graph.contains(key) && !graph[key].is_null() ? graph[key] : none;
  };
  for (auto const& [path, m] : part("modules").items()) {
    p.modules.push_back({path, m.value("object", path), {}});
    for (auto const& held : m.value("params", json::array()))
      p.modules.back().holds.push_back({held[0], number.at(held[1])});
  }
  for (auto const& [path, id] : part("attrs").items())
    if (!id.is_null()) p.attributes.push_back({path, number.at(id)});
  for (auto const n : g.inputs())
    for (auto const& m : g[n].metadata)
      if (m.key == "param")
        p.placeholders.push_back({g[n].name, number.at(std::get<std::string>(m.value.front()))});
  return p;
}

/// Interprets the code that connects pieces, on example values.
class example_interpretation {
 public:
  example_interpretation(module_graph const& g, json const& graph) : g_(g), graph_(graph) {}

  json constant(token const& t) const { return write_constant(t); }
  json collect(container const&, std::span<json const> elements) const {
    return {{"tuple", json(std::vector<json>(elements.begin(), elements.end()))}};
  }
  json attribute(module_graph const& g, position n) const { return of(g[n].from); }
  json call(module_graph const& g, position n, std::span<json const> args, std::span<json const>) const {
    if (g[n].target != "getitem") throw std::logic_error("a call between pieces: " + g[n].name);
    return args[0]["tuple"][args[1].get<std::size_t>()];
  }

  /// Returns the example value of a node of the whole graph.
  json of(position n) const {
    json const meta = write_metadata(g_, g_[n].metadata);
    return meta.contains("param") ? example_of(graph_["params"][meta["param"].get<std::string>()]) : meta;
  }

 private:
  module_graph const& g_;
  json const& graph_;
};

inline json names_of(module_graph const& g, std::vector<position> const& list) {
  json names = json::array();
  for (auto const n : list) names.push_back(g[n].name);
  return names;
}

inline json write_buckets(module_graph const& g, json const& graph,
                          std::vector<module_bucket> const& buckets) {
  std::vector<std::string> ids;
  for (auto const& [id, j] : graph["params"].items()) ids.push_back(id);
  json out = json::array();
  for (auto const& b : buckets) {
    json names = json::array(), parameters = json::array();
    for (auto const& c : b.counted) {
      names.push_back(c.name);
      parameters.push_back(ids[c.parameter]);
    }
    out.push_back({{"size", b.bytes},
                   {"params", names},
                   {"param_ids", parameters},
                   {"nodes", names_of(g, b.nodes)},
                   {"extra_ops", b.extra_nodes},
                   {"size_before_extra", b.bytes_before_extra}});
  }
  return out;
}

/// Returns the log in the form of the recording, which keeps only lines with a table.
inline json write_report(bucket_report const& r) {
  json out{{"rows", json::array()}};
  for (auto const& row : r.rows)
    for (std::size_t i = 0; i < row.names.size(); ++i)
      out["rows"].push_back(i == 0 ? json{row.from_tail, row.bytes, row.names[i]}
                                   : json{nullptr, nullptr, row.names[i]});
  for (auto const& b : r.extended) out["extended"].push_back({b.from_tail, b.extra_nodes, b.extra_bytes});
  if (auto const t = bucket_table(r); !t.empty()) out["log"].push_back(t);
  if (auto const t = extension_table(r); !t.empty()) out["log"].push_back(t);
  return out;
}

inline json normal_report(json report) {
  if (!report.contains("log")) return report;
  json tables = json::array();
  for (auto const& line : report["log"]) {
    auto const text = line[1].get<std::string>();
    if (auto const at = text.find("┌"); at != text.npos) tables.push_back(text.substr(at));
  }
  report.erase("log");
  if (!tables.empty()) report["log"] = std::move(tables);
  return report;
}

inline json write_split(module_graph const& g, split_module_result const& r) {
  json out{{"outer", write_nodes(r.outer)}, {"submods", json::array()}};
  for (auto& n : out["outer"]) n.erase("meta");
  for (auto const& a : r.outer.attributes()) {
    auto const piece = std::ranges::find(r.pieces, a.path, &module_piece::path);
    if (a.what != module_attribute::kind::module) continue;
    if (piece == r.pieces.end()) {
      out["submods"].push_back({{"name", a.path}, {"partition", false}});
      continue;
    }
    auto const& inside = r.graph(*piece);
    json nodes = json::array();
    for (auto const& n : inside.list()) {
      if (n.kind == node_kind::placeholder || n.kind == node_kind::output) continue;
      nodes.push_back({g[n.from].name, n.name});
      if (n.kind == node_kind::call_module || n.kind == node_kind::get_attr) nodes.back().push_back(n.target);
    }
    bool const bare = gives_bare_value(inside[*inside.output()]);
    out["submods"].push_back({{"name", piece->path},
                              {"inputs", names_of(g, piece->inputs)},
                              {"nodes", std::move(nodes)},
                              {"outputs", names_of(g, piece->outputs)},
                              {"bare", bare}});
  }
  return out;
}

inline json normal_split(json split) {
  if (split.is_object()) split["outer"] = normal_nodes(split["outer"]);
  return split;
}

/// The result of the backend: it is runnable and distinguishable from everything else.
struct backend_product {
  json results;
  std::string text = "what the backend returned";
  std::vector<json> operator()(std::span<json const>) const { return results.get<std::vector<json>>(); }
};

}  // namespace cleave::conformance
