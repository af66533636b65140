// SPDX-License-Identifier: MIT
#pragma once
#include <onnx/onnx_pb.h>

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "cleave/core/language.hpp"

namespace cleave::detail {

/// Gives new names to what the bodies of `holder` define under a name of `visible`: values of the graph that
/// stand before the node. ONNX forbids such shadows, and a stage can have one where the file has none,
/// because it may have a value as an input that the file makes after the node. `fresh(name)` is a name that
/// nothing has. No recursion.
template <class Fresh>
void rename_onnx_shadows(onnx::NodeProto& holder, std::unordered_set<std::string> const& visible,
                         Fresh fresh) {
  using names = std::unordered_map<std::string, std::string>;
  std::vector<std::pair<onnx::GraphProto*, names>> open;
  auto const enter = [&](onnx::NodeProto& n, names const& outer) {
    for (auto& a : *n.mutable_attribute()) {
      if (a.has_g()) open.emplace_back(a.mutable_g(), outer);
      for (auto& g : *a.mutable_graphs()) open.emplace_back(&g, outer);
    }
  };
  enter(holder, {});
  while (!open.empty()) {
    auto [g, renamed] = std::move(open.back());
    open.pop_back();
    auto const define = [&](std::string const& name) {
      if (name.empty()) return;
      renamed.erase(name);
      if (visible.contains(name)) renamed.emplace(name, fresh(name));
    };
    for (auto const& v : g->input()) define(v.name());
    for (auto const& t : g->initializer()) define(t.name());
    for (auto const& t : g->sparse_initializer()) define(t.values().name());
    for (auto const& n : g->node())
      for (auto const& name : n.output()) define(name);

    auto const rename = [&](std::string& name) {
      if (auto const at = renamed.find(name); at != renamed.end()) name = at->second;
    };
    if (!renamed.empty()) {
      for (auto* list : {g->mutable_input(), g->mutable_output(), g->mutable_value_info()})
        for (auto& v : *list) rename(*v.mutable_name());
      for (auto& t : *g->mutable_initializer()) rename(*t.mutable_name());
      for (auto& t : *g->mutable_sparse_initializer()) rename(*t.mutable_values()->mutable_name());
      for (auto& n : *g->mutable_node()) {
        for (auto& name : *n.mutable_input()) rename(name);
        for (auto& name : *n.mutable_output()) rename(name);
      }
    }
    for (auto& n : *g->mutable_node()) enter(n, renamed);
  }
}

}  // namespace cleave::detail
