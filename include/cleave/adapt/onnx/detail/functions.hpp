// SPDX-License-Identifier: MIT
#pragma once
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "cleave/core/language.hpp"

namespace cleave::inline v0_2::detail {

/// Calls `visit` for each node of `nodes` and of all bodies in their attributes. Without recursion, in
/// unspecified order.
template <class Nodes, class Visit>
void each_nested_onnx_node(Nodes const& nodes, Visit visit) {
  std::vector<::onnx::GraphProto const*> bodies;
  auto const each = [&](auto const& list) {
    for (::onnx::NodeProto const& n : list) {
      visit(n);
      for (auto const& a : n.attribute()) {
        if (a.has_g()) bodies.push_back(&a.g());
        for (auto const& g : a.graphs()) bodies.push_back(&g);
      }
    }
  };
  each(nodes);
  while (!bodies.empty()) {
    auto const* body = bodies.back();
    bodies.pop_back();
    each(body->node());
  }
}

/// Returns the bodies of a node, in the order of its attributes.
inline std::vector<::onnx::GraphProto*> onnx_bodies(::onnx::NodeProto& n) {
  std::vector<::onnx::GraphProto*> bodies;
  for (auto& a : *n.mutable_attribute()) {
    if (a.has_g()) bodies.push_back(a.mutable_g());
    for (auto& g : *a.mutable_graphs()) bodies.push_back(&g);
  }
  return bodies;
}

/// Returns the key under which calls refer to a model-local function.
inline std::string onnx_function_key(std::string const& domain, std::string const& name) {
  return (domain == "ai.onnx" ? std::string() : domain) + ":" + name;
}

using onnx_function_table = std::unordered_map<std::string, ::onnx::FunctionProto const*>;

/// Returns the model-local functions by key.
inline onnx_function_table onnx_functions(::onnx::ModelProto const& m) {
  onnx_function_table by_key;
  for (auto const& f : m.functions()) by_key.emplace(onnx_function_key(f.domain(), f.name()), &f);
  return by_key;
}

/// Returns true if the calls of the model expand to at most `nodes` nodes in total and nest at most `depth`
/// deep. The limits guard against sizes that double with each function. O(size of the file).
inline bool onnx_functions_unfold(::onnx::ModelProto const& m, double nodes = 1e5, int depth = 64) {
  struct extent {
    double nodes = 0;
    int depth = -1;  ///< -1: not known yet
  };
  auto const functions = onnx_functions(m);
  if (functions.empty()) return true;
  std::unordered_map<::onnx::FunctionProto const*, extent> known;
  auto const callees = [&](auto const& list, auto visit) {
    each_nested_onnx_node(list, [&](::onnx::NodeProto const& n) {
      auto const f = functions.find(onnx_function_key(n.domain(), n.op_type()));
      visit(f == functions.end() ? nullptr : f->second);
    });
  };
  // A function, and true once its callees have been pushed.
  std::vector<std::pair<::onnx::FunctionProto const*, bool>> open;
  for (auto const& f : m.functions()) open.push_back({&f, false});
  std::unordered_set<::onnx::FunctionProto const*> entered;
  while (!open.empty()) {
    auto const [f, ready] = open.back();
    open.back().second = true;
    if (!ready) {
      if (known.contains(f) || !entered.insert(f).second) {
        open.pop_back();
        continue;
      }
      callees(f->node(), [&](auto const* callee) {
        if (callee != nullptr && !known.contains(callee)) open.push_back({callee, false});
      });
      continue;
    }
    open.pop_back();
    extent e{0, 0};
    callees(f->node(), [&](auto const* callee) {
      extent const inner = callee == nullptr
                               ? extent{0, 0}
                               : known[callee];  // in a cycle the depth is -1, which is rejected below
      e.nodes += 1 + inner.nodes;
      if (callee != nullptr) e.depth = inner.depth < 0 ? depth + 1 : (std::max)(e.depth, inner.depth + 1);
    });
    if (e.nodes > nodes || e.depth > depth) return false;
    known[f] = e;
  }
  double total = 0;
  callees(m.graph().node(),
          [&](auto const* callee) { total += callee == nullptr ? 0 : known[callee].nodes; });
  return total <= nodes;
}

/// Returns the functions that these nodes call directly or indirectly, each once, in the order of first call.
template <class Nodes>
std::vector<::onnx::FunctionProto const*> onnx_reached_functions(onnx_function_table const& functions,
                                                                 Nodes const& nodes) {
  std::vector<::onnx::FunctionProto const*> reached;
  std::unordered_set<::onnx::FunctionProto const*> seen;
  auto const call = [&](::onnx::NodeProto const& n) {
    auto const f = functions.find(onnx_function_key(n.domain(), n.op_type()));
    if (f != functions.end() && seen.insert(f->second).second) reached.push_back(f->second);
  };
  if (functions.empty()) return reached;
  each_nested_onnx_node(nodes, call);
  for (std::size_t i = 0; i < reached.size(); ++i) each_nested_onnx_node(reached[i]->node(), call);
  return reached;
}

/// Returns the body of a called function as a graph, with the call's attributes substituted.
inline ::onnx::GraphProto onnx_function_body(::onnx::FunctionProto const& f, ::onnx::NodeProto const& call) {
  ::onnx::GraphProto body;
  body.set_name(f.name());
  *body.mutable_node() = f.node();
  std::vector<::onnx::GraphProto*> open{&body};
  while (!open.empty()) {
    auto& g = *open.back();
    open.pop_back();
    for (auto& n : *g.mutable_node()) {
      auto& attributes = *n.mutable_attribute();
      for (int i = attributes.size(); i-- > 0;) {
        auto& a = attributes[i];
        if (!a.ref_attr_name().empty()) {
          auto const given =
              std::ranges::find(call.attribute(), a.ref_attr_name(), &::onnx::AttributeProto::name);
          if (given == call.attribute().end()) {
            attributes.DeleteSubrange(i, 1);
            continue;
          }
          auto const name = a.name();
          a = *given;
          a.set_name(name);
        }
        if (a.has_g()) open.push_back(a.mutable_g());
        for (auto& inner : *a.mutable_graphs()) open.push_back(&inner);
      }
    }
  }
  return body;
}

}  // namespace cleave::detail
