// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/backward/ties.hpp"
#include "cleave/split/modules/liveness.hpp"
#include "conformance_runner/outcome.hpp"
#include "conformance_runner/read_graph.hpp"

/// Results of hierarchical splits in the form of Slapo's recordings.
namespace cleave::conformance {

using namespace detail;

inline json names_of_values(liveness_table const& t, std::vector<std::uint32_t> const& list) {
  json names = json::array();
  for (auto const v : list) names.push_back(t.values[v].name);
  return names;
}

inline json write_liveness(module_graph const& outer, liveness_table const& t) {
  json out;
  out["arg_names"]["-1"] = names_of_values(t, t.inputs);
  out["names"] = out["liveness"] = json::object();
  for (std::size_t k = 0; k < t.stages.size(); ++k) {
    auto const key = std::to_string(k);
    out["arg_names"][key] = names_of_values(t, t.stages[k].arguments);
    out["names"][key] = outer[t.stages[k].call].target;
    out["liveness"][key] = names_of_values(t, t.stages[k].receives);
  }
  out["warned"] = !t.inputs_in_order();
  return out;
}

/// Sorts groups by parameter, and members by stage and name.
inline json sorted_ties(json groups) {
  for (json& g : groups)
    std::sort(g["members"].begin(), g["members"].end(),
              [](json const& a, json const& b) { return a[1] != b[1] ? a[1] < b[1] : a[0] < b[0]; });
  std::sort(groups.begin(), groups.end(),
            [](json const& a, json const& b) { return a["param"] < b["param"]; });
  return groups;
}

inline json write_ties(std::vector<tie> const& ties) {
  json groups = json::array();
  for (auto const& t : ties) {
    json members = json::array();
    for (auto const& m : t.members)
      members.push_back({m.name, m.stage == the_caller ? json("top") : json(index(m.stage))});
    groups.push_back({{"param", t.storage.substr(t.storage.find(' ') + 1)}, {"members", std::move(members)}});
  }
  return sorted_ties(std::move(groups));
}

/// Compares graphs and trees of graphs up to a consistent renaming of nodes and inner modules. Names need
/// only be identifiers.
class tree_comparison {
 public:
  /// `modules` are those of the case. An object under two names is one module.
  tree_comparison(json const& modules, std::vector<difference>& to) : modules_(modules), to_(to) {}

  void compare_trees(json const& theirs, json const& ours, std::string const& what) {
    if (theirs.contains("is") != ours.contains("is")) return differ(what, theirs, ours);
    if (theirs.contains("is")) {
      if (theirs["is"] != ours["is"] && content(theirs["is"]) != content(ours["is"]))
        differ(what + ".is", theirs["is"], ours["is"]);
      return;
    }
    compare_graphs(theirs["graph"], ours["graph"], what + ".graph");
    auto const& mine = ours["graph"];
    if (theirs["children"].size() != ours["children"].size())
      return differ(what + ".children", theirs["children"], ours["children"]);
    for (std::size_t n = 0; n < mine.size() && to_.empty(); ++n) {
      if (mine[n]["op"] != "call_module") continue;
      auto const& name = theirs["graph"][n]["target"].get<std::string>();
      if (!theirs["children"].contains(name)) return differ(what + ".graph", name, mine[n]["target"]);
      compare_trees(theirs["children"][name], ours["children"][mine[n]["target"].get<std::string>()],
                    what + "." + name);
    }
  }

  /// If `stages` is true, the names of called modules are compared too.
  void compare_graphs(json const& theirs, json const& ours, std::string const& what, bool stages = false) {
    if (theirs.size() != ours.size()) return differ(what, theirs, ours);
    json names = json::object();  // from recorded name to ours
    for (std::size_t n = 0; n < theirs.size() && to_.empty(); ++n) {
      auto const place = what + "[" + std::to_string(n) + "]";
      json node = theirs[n], mine = ours[n];
      bool const input = node["op"] == "placeholder" || node["op"] == "output";
      bool const free = input || (node["op"] == "call_module" && !stages);
      auto const name = node["name"].get<std::string>();
      for (auto const* key : {"name", "target"}) {
        bool const checked = std::string_view(key) == "name" || free;
        if (checked && node.contains(key) && !identifier(node[key]))
          differ(place + "." + key, node[key], mine[key]);
      }
      if (names.contains(name)) differ(place + ".name", node["name"], mine["name"]);
      names[name] = mine["name"];
      for (auto* j : {&node, &mine}) {
        j->erase("name");
        if (free) j->erase("target");
      }
      rename(node, names);
      compare(node, mine, place, to_);
    }
  }

 private:
  void differ(std::string const& what, json const& theirs, json const& ours) {
    to_.push_back({what, shortened(theirs), shortened(ours)});
  }

  static bool identifier(std::string const& name) {
    return std::ranges::all_of(name, [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    });
  }

  static void rename(json& j, json const& names) {
    if (j.is_object() && j.size() == 1 && j.contains("node")) {
      auto const name = j["node"].get<std::string>();
      if (names.contains(name)) j["node"] = names[name];
    } else if (j.is_structured()) {
      for (json& inside : j) rename(inside, names);
    }
  }

  /// Returns the content of a module apart from its path.
  std::string content(std::string const& path) const {
    if (!modules_.contains(path)) return "no module " + path;
    std::string text = modules_[path].dump();
    for (json const& child : modules_[path].value("children", json::array()))
      text += content(path + "." + child.get<std::string>());
    return text;
  }

  json const& modules_;
  std::vector<difference>& to_;
};

}  // namespace cleave::conformance
