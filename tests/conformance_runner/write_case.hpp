// SPDX-License-Identifier: MIT
#pragma once
#include <map>
#include <string>

#include "conformance_runner/read_case.hpp"

/// Writes the graphs of a case as JSON again: those that were read, and those in the file, in one form. If
/// they are equal, reading lost nothing.
namespace cleave::conformance {

inline json const* find_metadata(json const& data, char const* key) {
  auto const at = data.find(key);
  return at == data.end() ? nullptr : &*at;
}

inline json write_tree(test_case const& c, std::string const& place, json const& like) {
  json tree = json::object();
  if (like.contains("graph")) tree["graph"] = write_nodes(c.graphs.at(place));
  if (like.contains("children"))
    for (auto const& [name, child] : like["children"].items())
      tree["children"][name] = write_tree(c, place + "." + name, child);
  return tree;
}

inline json normal_tree(json const& given) {
  json tree = json::object();
  if (given.contains("graph")) tree["graph"] = normal_nodes(given["graph"]["nodes"]);
  if (given.contains("children"))
    for (auto const& [name, child] : given["children"].items()) tree["children"][name] = normal_tree(child);
  return tree;
}

inline json write_attributes(std::string const& area, module_graph const& g) {
  using kind = module_attribute::kind;
  std::map<std::string, json> out;  // groups may come in any order
  for (auto const& a : g.attributes()) {
    json data = write_metadata(g, a.metadata);
    if (area == "ddp") {
      if (auto const* m = find_metadata(data, "module")) out["modules"][a.path] = *m;
      if (a.what != kind::module) out["attrs"][a.path] = a.storage;
      if (find_metadata(data, "attr")) out["attrs"][a.path] = nullptr;
    } else if (area == "pipe") {
      if (auto const* constant = find_metadata(data, "constant")) out["constants"][a.path] = *constant;
      if (a.what == kind::module) {
        out["modules"].push_back(a.path);
      } else if (a.what != kind::tensor) {
        data.erase("constant");
        json s{{"fqn", a.path},
               {"kind", a.what == kind::buffer ? "buffer" : "parameter"},
               {"storage", std::stoll(a.storage)}};
        s.update(data);
        out["state"].push_back(std::move(s));
      }
    } else {
      out["attributes"][a.path] = a.what == kind::module ? "module" : "tensor";
    }
  }
  if (area == "ddp") out["params"] = write_metadata(g, g.metadata)["params"];
  return json(out);
}

/// Returns the file's attributes in the form of `write_attributes`.
inline json given_attributes(std::string const& area, std::string const& key, json const& input) {
  std::map<std::string, json> out;
  auto const copy = [&](json const& from, char const* name) {
    if (from.contains(name) && !from[name].empty()) out[name] = from[name];
  };
  if (area == "ddp") {
    for (auto const* name : {"modules", "attrs"}) copy(input[key], name);
    out["params"] = input[key]["params"];
  } else if (area == "pipe") {
    for (auto const* name : {"state", "modules", "constants"}) copy(input, name);
  } else {
    copy(input, "attributes");
  }
  return json(out);
}

/// Returns the graphs of `c` as they were read.
inline json write_graphs(test_case const& c) {
  json out = json::object();
  json const& input = c.input();
  for (auto const* key : {"graph", "graph_after_policy", "graph_after_dedup", "root"})
    if (auto const g = c.graphs.find(key); g != c.graphs.end())
      out[key] = {{"nodes", write_nodes(g->second)}, {"attributes", write_attributes(c.area, g->second)}};
  if (c.graphs.contains("top")) out["top"] = write_nodes(c.graphs.at("top"));
  if (c.graphs.contains("modules")) {
    module_graph const& root = c.graphs.at("modules");
    json& levels = out["modules"];
    levels[""] = write_metadata(root, root.metadata);
    levels[""]["graph"] = write_nodes(root);
    for (auto const& a : root.attributes()) {
      levels[a.path] = write_metadata(root, a.metadata);
      if (!a.body.empty()) levels[a.path]["graph"] = write_nodes(a.body.front());
    }
  }
  if (input.contains("stages") && input["stages"].is_array())
    for (std::size_t i = 0; i < input["stages"].size(); ++i)
      if (input["stages"][i].is_object())
        out["stages"].push_back(write_tree(c, "stages[" + std::to_string(i) + "]", input["stages"][i]));
  return out;
}

/// Returns the graphs of `c` as in the file.
inline json given_graphs(test_case const& c) {
  json out = json::object();
  json const& input = c.input();
  for (auto const* key : {"graph", "graph_after_policy", "graph_after_dedup", "root"})
    if (input.contains(key))
      out[key] = {{"nodes", normal_nodes(input[key]["nodes"])},
                  {"attributes", given_attributes(c.area, key, input)}};
  if (input.contains("top")) out["top"] = normal_nodes(input["top"]);
  if (input.contains("modules") && input["modules"].is_object())
    for (auto const& [path, m] : input["modules"].items()) {
      json level = m;
      level.erase("graph");
      if (m.contains("graph")) level["graph"] = normal_nodes(m["graph"]);
      out["modules"][path] = std::move(level);
    }
  if (input.contains("stages") && input["stages"].is_array())
    for (auto const& stage : input["stages"])
      if (stage.is_object()) out["stages"].push_back(normal_tree(stage));
  return out;
}

}  // namespace cleave::conformance
