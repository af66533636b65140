// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "conformance_runner/read_graph.hpp"

namespace cleave::conformance {

/// The nodes of a root with its backward pass, in the common format. Names of the nodes that the backward
/// pass adds are arbitrary, so numbers replace them. These are all nodes from the first `stage_backward` on,
/// except the output.
class backward_graph_json {
 public:
  explicit backward_graph_json(json const& list) : nodes_(normal_nodes(list)) {
    for (auto& j : nodes_) {
      bool const adds = !added_.empty() || j.value("target", "") == "stage_backward";
      if (!adds || j["op"] == "output") continue;
      auto const number = "added " + std::to_string(added_.size());
      added_.push_back(number);
      number_.emplace(j["name"].get<std::string>(), number);
      j["name"] = number;
    }
    std::set<std::string> read;
    for (auto& j : nodes_)
      for (auto const* key : {"args", "kwargs"})
        if (j.contains(key)) rename(j[key], read);
    for (auto const& name : added_)
      if (is_gradient(name) && !read.contains(name)) unused_.push_back(name);
  }

  json const& nodes() const { return nodes_; }
  json const& added() const { return added_; }    ///< nodes added by the backward pass, in order
  json const& unused() const { return unused_; }  ///< the unused gradients among them

  /// Replaces `names` by their numbers.
  json numbers(json const& names) const {
    json list = json::array();
    for (auto const& name : names) {
      auto const at = number_.find(name.get<std::string>());
      list.push_back(at == number_.end() ? name : json(at->second));
    }
    return list;
  }

 private:
  bool is_gradient(json const& number) const {
    for (auto const& j : nodes_)
      if (j["name"] == number) return j["target"] != "stage_backward";
    return false;
  }

  void rename(json& j, std::set<std::string>& read) {
    if (j.is_object() && j.size() == 1 && j.contains("node") && j["node"].is_string()) {
      auto const at = number_.find(j["node"].get<std::string>());
      if (at != number_.end()) j["node"] = at->second;
      read.insert(j["node"].get<std::string>());
    } else if (j.is_structured()) {
      for (auto& inside : j) rename(inside, read);
    }
  }

  json nodes_, added_ = json::array(), unused_ = json::array();
  std::map<std::string, std::string> number_;
};

}  // namespace cleave::conformance
