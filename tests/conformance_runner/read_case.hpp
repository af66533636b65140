// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "conformance_runner/json.hpp"
#include "conformance_runner/layouts.hpp"
#include "conformance_runner/read_graph.hpp"
#include "conformance_runner/schema.hpp"

namespace cleave::conformance {

using namespace detail;

/// One recorded case with a checked layout and its graphs.
struct test_case {
  std::string area, file, name, category;
  json body;  ///< the whole case as in the file
  /// By place in `input`: "graph", "modules", "stages[0]", …
  std::map<std::string, module_graph> graphs;
  std::filesystem::path source{};  ///< its file

  bool has(char const* key) const { return body.contains(key); }
  json const& operator[](char const* key) const { return body.at(key); }
  json const& input() const { return body.at("input"); }
  module_graph const& graph() const { return graphs.at("graph"); }
};

/// Reads the graphs of a case. Use `graphs_of`.
class graph_reader {
 public:
  explicit graph_reader(std::string where) : where_(std::move(where)) {}

  std::map<std::string, module_graph> read(std::string const& area, json const& input) {
    if (input.contains("modules") && input["modules"].is_object()) graphs_["modules"] = read_levels(input);
    if (input.contains("top")) read_nodes(graphs_["top"], input["top"], where_ + ", top");
    for (auto const* key : {"graph", "graph_after_policy", "graph_after_dedup", "root"})
      if (input.contains(key)) read_graph(area, key, input);
    if (input.contains("stages") && input["stages"].is_array())
      for (std::size_t i = 0; i < input["stages"].size(); ++i)
        if (input["stages"][i].is_object())
          read_tree("stages[" + std::to_string(i) + "]", input["stages"][i]);
    return std::move(graphs_);
  }

 private:
  void read_graph(std::string const& area, std::string const& key, json const& input) {
    auto& g = graphs_[key];
    json const& j = input[key];
    read_nodes(g, j.at("nodes"), where_ + ", " + key);
    if (area == "ddp") {
      read_ddp_attributes(g, j);
    } else if (area == "pipe") {
      read_pipe_state(g, input);
    } else if (input.contains("attributes")) {
      for (auto const& [path, kind] : input["attributes"].items())
        add(g, {path,
                kind == "module" ? module_attribute::kind::module : module_attribute::kind::tensor,
                {},
                {},
                {},
                {}});
    }
  }

  /// Reads a graph and its child graphs as separate entries: `stages[0]`, `stages[0].mk`, …
  void read_tree(std::string const& place, json const& tree) {
    if (tree.contains("graph")) read_nodes(graphs_[place], tree["graph"].at("nodes"), where_ + ", " + place);
    if (tree.contains("children"))
      for (auto const& [name, child] : tree["children"].items()) read_tree(place + "." + name, child);
  }

  void read_ddp_attributes(module_graph& g, json const& j) {
    std::vector<module_attribute> list;
    json const none = json::object();
    json const& params = j.at("params");
    json const& modules = j.contains("modules") ? j["modules"] : none;
    for (auto const& [path, m] : modules.items())
      list.push_back({path,
                      module_attribute::kind::module,
                      m.value("object", ""),
                      {},
                      {},
                      read_metadata(json{{"module", m}}, where_)});
    for (auto const& [path, id] : (j.contains("attrs") ? j["attrs"] : none).items()) {
      auto known = std::ranges::find(list, path, &module_attribute::path);
      if (id.is_null()) {
        if (known == list.end())
          known = list.insert(list.end(), {path, module_attribute::kind::module, {}, {}, {}, {}});
        known->metadata.push_back({"attr", {token()}});
        continue;
      }
      auto const name = id.get<std::string>();
      if (!params.contains(name))
        throw layout_error(where_ + ": attribute '" + path + "' is parameter '" + name +
                           "', which is not in params");
      bool const tensor = params[name].value("kind", "") == "tensor";
      list.push_back({path,
                      tensor ? module_attribute::kind::tensor : module_attribute::kind::parameter,
                      name,
                      {},
                      {},
                      {}});
    }
    for (auto& a : list) add(g, std::move(a));
    g.metadata = read_metadata(json{{"params", params}}, where_);
  }

  void read_pipe_state(module_graph& g, json const& input) {
    using enum module_attribute::kind;
    std::vector<module_attribute> list;
    json const none = json::array();
    for (json const& s : input.contains("state") ? input["state"] : none) {
      json rest = s;
      for (auto const* key : {"fqn", "kind", "storage"}) rest.erase(key);
      list.push_back({s["fqn"],
                      s["kind"] == "buffer" ? buffer : parameter,
                      std::to_string(s["storage"].get<std::int64_t>()),
                      {},
                      {},
                      read_metadata(rest, where_)});
    }
    for (json const& path : input.contains("modules") ? input["modules"] : none)
      list.push_back({path, module, {}, {}, {}, {}});
    json const nothing = json::object();
    for (auto const& [path, c] : (input.contains("constants") ? input["constants"] : nothing).items()) {
      auto known = std::ranges::find(list, path, &module_attribute::path);
      if (known == list.end()) known = list.insert(list.end(), {path, tensor, {}, {}, {}, {}});
      auto data = read_metadata(json{{"constant", c}}, where_);
      known->metadata.insert(known->metadata.end(), data.begin(), data.end());
    }
    for (auto& a : list) add(g, std::move(a));
  }

  /// Reads Slapo's module tree: the root level, with all modules below it as attributes. A traced level
  /// becomes a body.
  module_graph read_levels(json const& input) {
    json const& modules = input["modules"];
    if (!modules.contains("") || !modules[""].contains("graph"))
      throw layout_error(where_ + ": no graph for the root module ''");
    std::vector<std::string> levels;
    for (auto const& [path, m] : modules.items())
      if (m.contains("graph")) levels.push_back(path);
    std::ranges::sort(levels, std::ranges::greater(),
                      &std::string::size);  // inner levels before outer ones

    std::map<std::string, module_graph> body;
    auto const attribute = [&](std::string const& path, std::string const& full) {
      auto const inside = body.find(full);
      module_attribute a{path, module_attribute::kind::module, {}, {}, {}, {}};
      if (inside != body.end()) a.body.push_back(inside->second);
      return a;
    };
    for (auto const& level : levels) {
      if (level.empty()) continue;
      module_graph g;
      read_nodes(g, modules[level]["graph"], where_ + ", module '" + level + "'");
      for (auto const& n : g.list())
        if (n.kind == node_kind::call_module && !g.find_attribute(n.target))
          g.add_attribute(attribute(n.target, level + "." + n.target));
      body[level] = std::move(g);
    }
    module_graph root;
    read_nodes(root, modules[""]["graph"], where_ + ", root");
    for (auto const& [path, m] : modules.items()) {
      json rest = m;
      rest.erase("graph");
      auto data = read_metadata(rest, where_);
      if (path.empty()) {
        root.metadata = std::move(data);
        continue;
      }
      auto a = attribute(path, path);
      a.metadata = std::move(data);
      add(root, std::move(a));
    }
    return root;
  }

  void add(module_graph& g, module_attribute a) {
    if (g.find_attribute(a.path)) throw layout_error(where_ + ": path '" + a.path + "' twice");
    g.add_attribute(std::move(a));
  }

  std::string where_;
  std::map<std::string, module_graph> graphs_;
};

/// Returns the name of a case for messages.
inline std::string name_of_case(json const& body) {
  bool const named = body.is_object() && body.contains("name") && body["name"].is_string();
  return named ? body["name"].get<std::string>() : body.dump().substr(0, 60);
}

/// Returns true if a case may have the remark: a text or a number under a key that its area lacks.
inline bool is_remark(schema const& s, std::string const& area, std::string const& key, json const& value) {
  return !value.is_structured() && !s.knows(area + "_case", key);
}

inline json without_remarks(schema const& s, std::string const& area, json body) {
  std::vector<std::string> remarks;
  for (auto const& [key, value] : body.items())
    if (is_remark(s, area, key, value)) remarks.push_back(key);
  for (auto const& key : remarks) body.erase(key);
  return body;
}

/// Checks the layout of a case and reads its graphs. `shared` are the graphs that the file defines once, by
/// name.
inline test_case read_case(schema const& s, std::string const& area, std::string const& file, json body,
                           json const& shared) {
  auto const where = file + ", case " + json(name_of_case(body)).dump();
  if (body.is_object()) body = without_remarks(s, area, std::move(body));
  if (auto fault = s.find_fault(body, area + "_case")) throw layout_error(where + *fault);
  auto const part = area + "_result";
  if (s.defines(part) && body.contains("expect") && body["expect"].is_object() && area == "pipe")
    if (auto fault = s.find_fault(body["expect"], part)) throw layout_error(where + ", expect" + *fault);
  auto& input = body["input"];
  if (input.contains("graph") && input["graph"].is_string()) {
    auto const shared_name = input["graph"].get<std::string>();
    if (!shared.contains(shared_name))
      throw layout_error(where + ".input.graph: no graph '" + shared_name + "' in the file");
    if (auto fault = s.find_fault(shared[shared_name], area + "_graph"))
      throw layout_error(where + ", graph '" + shared_name + "'" + *fault);
    input["graph"] = shared[shared_name];
  }
  test_case c{
      area, file, body["name"], body.value("category", ""), {}, graph_reader(where).read(area, input)};
  c.body = std::move(body);
  return c;
}

/// A case, or a whole file, with an unknown layout.
struct unread_case {
  std::string file, name, reason;  ///< a file without a list of cases has no name
};

/// The contents of a folder.
struct recorded_cases {
  std::vector<test_case> cases;
  std::vector<unread_case> unread;
};

/// Returns the areas whose layout the case has.
inline std::vector<std::string> areas_of(schema const& s, json const& body) {
  std::vector<std::string> fitting;
  for (auto const& name : s.names())
    if (name.ends_with("_case") && body.is_object()) {
      auto const area = name.substr(0, name.size() - 5);
      if (!s.find_fault(without_remarks(s, area, body), name)) fitting.push_back(area);
    }
  return fitting;
}

/// Reads the cases of files. Use `read_recordings`.
class recordings_reader {
 public:
  explicit recordings_reader(std::string folder) : folder_(std::move(folder)), layout_(layouts) {}

  void read(std::filesystem::path const& file) {
    where_ = folder_ + "/" + file.filename().string();
    json top;
    try {
      top = read_json(file);
    } catch (layout_error const& e) {
      made_.unread.push_back({where_, "", e.what()});
      return;
    }
    auto const known = top.is_object() && top.contains("cases") && top["cases"].is_array();
    if (!known || top.value("format", json()) != 1) {
      made_.unread.push_back({where_, "", known ? "format is not 1" : "no list 'cases'"});
      return;
    }
    json const shared = top.value("graphs", json::object());
    for (auto& body : top["cases"]) {
      auto const name = name_of_case(body);
      try {
        auto const area = area_of(body);
        made_.cases.push_back(read_case(layout_, area, where_, std::move(body), shared));
        made_.cases.back().source = file;
      } catch (layout_error const& e) {
        made_.unread.push_back({where_, name, without_place(e.what(), name)});
      } catch (json::exception const& e) {
        made_.unread.push_back({where_, name, e.what()});
      }
    }
  }

  recorded_cases made() { return std::move(made_); }

 private:
  /// Returns the folder's area if it is named like one, else the area whose layout the case has.
  std::string area_of(json const& body) const {
    if (layout_.defines(folder_ + "_case")) return folder_;
    auto const fitting = areas_of(layout_, body);
    if (fitting.size() == 1) return fitting.front();
    if (fitting.empty()) throw layout_error("no area is known as '" + folder_ + "', or has such cases");
    std::string all;
    for (auto const& area : fitting) all += (all.empty() ? "" : ", ") + area;
    throw layout_error("no area is known as '" + folder_ + "', and several have such cases: " + all);
  }

  /// Returns `text` without the file and case at its begin, if any.
  std::string without_place(std::string const& text, std::string const& name) const {
    auto const place = where_ + ", case " + json(name).dump();
    return text.starts_with(place) ? text.substr(place.size()) : text;
  }

  std::string folder_, where_;
  schema layout_;
  recorded_cases made_;
};

/// Reads the recordings in one folder below `folder`, files in order of their names.
inline recorded_cases read_recordings(std::filesystem::path const& folder, std::string const& area) {
  std::vector<std::filesystem::path> files;
  std::error_code broken;
  for (auto const& entry : std::filesystem::directory_iterator(folder / area, broken))
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  if (broken) throw layout_error((folder / area).string() + ": " + broken.message());
  std::ranges::sort(files);
  recordings_reader reader(area);
  for (auto const& file : files) reader.read(file);
  return reader.made();
}

/// Reads the cases of one area below `folder`, all of which must have a known layout.
/// \throws layout_error
inline std::vector<test_case> read_area(std::filesystem::path const& folder, std::string const& area) {
  auto read = read_recordings(folder, area);
  if (!read.unread.empty()) {
    auto const& first = read.unread.front();
    throw layout_error(first.file + ", " + first.name + ": " + first.reason);
  }
  return std::move(read.cases);
}

/// Returns the areas below `folder`: its subfolders, sorted by name.
inline std::vector<std::string> areas_below(std::filesystem::path const& folder) {
  std::vector<std::string> areas;
  std::error_code broken;
  for (auto const& entry : std::filesystem::directory_iterator(folder, broken))
    if (entry.is_directory()) areas.push_back(entry.path().filename().string());
  if (broken) throw layout_error(folder.string() + ": " + broken.message());
  std::ranges::sort(areas);
  return areas;
}

}  // namespace cleave::conformance
