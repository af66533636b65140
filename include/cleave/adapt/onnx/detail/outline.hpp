// SPDX-License-Identifier: MIT
#pragma once
#include <onnx/defs/schema.h>
#include <onnx/onnx_pb.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "cleave/adapt/onnx/detail/functions.hpp"
#include "cleave/adapt/onnx/detail/inference.hpp"
#include "cleave/adapt/onnx/detail/read_scopes.hpp"
#include "cleave/adapt/onnx/own_process.hpp"
#include "cleave/adapt/onnx/shape.hpp"

namespace cleave::inline v0_2::detail {

/// Returns a copy of a model for inference. Initializers above `heavy` bytes are dropped, since shapes do not
/// depend on their data. So are defaults that the caller may override (from IR version 4 on), whose data says
/// nothing about other runs. Each initializer becomes an input of the copy, so that its type stays known. A
/// sparse one becomes only that: libonnx infers no types from it, though it is a tensor to the nodes.
inline ::onnx::ModelProto onnx_outline(::onnx::ModelProto const& m, std::size_t heavy = 65536) {
  ::onnx::ModelProto copy;
  copy.set_ir_version(m.ir_version());
  *copy.mutable_opset_import() = m.opset_import();
  if (onnx_functions_unfold(m)) *copy.mutable_functions() = m.functions();
  auto const& from = m.graph();
  auto& to = *copy.mutable_graph();
  to.set_name(from.name());
  *to.mutable_node() = from.node();
  *to.mutable_input() = from.input();
  *to.mutable_output() = from.output();
  *to.mutable_value_info() = from.value_info();
  std::unordered_set<std::string> listed;
  for (auto const& v : from.input()) listed.insert(v.name());
  auto const add_input = [&](std::string const& name, int element, auto const& dims) {
    if (listed.contains(name)) return;
    auto& input = *to.add_input();
    input.set_name(name);
    auto& type = *input.mutable_type()->mutable_tensor_type();
    type.set_elem_type(element);
    type.mutable_shape();
    for (auto const d : dims) type.mutable_shape()->add_dim()->set_dim_value(d);
  };
  for (auto const& t : from.sparse_initializer())
    add_input(t.values().name(), t.values().data_type(), t.dims());
  for (auto const& t : from.initializer()) {
    bool const overridable = m.ir_version() >= 4 && listed.contains(t.name());
    bool const elsewhere = t.data_location() == ::onnx::TensorProto::EXTERNAL;
    if (!overridable && !elsewhere && t.ByteSizeLong() <= heavy) *to.add_initializer() = t;
    add_input(t.name(), t.data_type(), t.dims());
  }
  return copy;
}

/// Returns the nodes in topological order; empty if they already are in such an order, or if there is a cycle
/// or another fault.
inline std::vector<std::uint32_t> onnx_inference_order(::onnx::GraphProto const& g) {
  std::unordered_map<std::string_view, int> maker;
  for (int i = 0; i < g.node_size(); ++i)
    for (auto const& name : g.node(i).output()) maker.emplace(name, i);
  bool sorted = true;
  for (int i = 0; i < g.node_size() && sorted; ++i)
    each_nested_onnx_node(std::span(&g.node(i), 1), [&](::onnx::NodeProto const& n) {
      for (auto const& name : n.input())
        if (auto const at = maker.find(name); !name.empty() && at != maker.end()) sorted &= at->second <= i;
    });
  if (sorted) return {};
  auto const scopes = read_onnx_scopes(g);
  return scopes.fault ? std::vector<std::uint32_t>() : scopes.order;
}

/// Moves node `order[i]` to place i.
inline void onnx_reorder(::onnx::GraphProto& g, std::vector<std::uint32_t> const& order) {
  google::protobuf::RepeatedPtrField<::onnx::NodeProto> nodes;
  for (auto const i : order) nodes.Add()->Swap(g.mutable_node(static_cast<int>(i)));
  if (!order.empty()) g.mutable_node()->Swap(&nodes);
}

/// Removes everything from a graph but the types of its values and those in bodies of its nodes.
inline void keep_onnx_types(::onnx::GraphProto& whole) {
  std::vector<::onnx::GraphProto*> open{&whole};
  while (!open.empty()) {
    auto& g = *open.back();
    open.pop_back();
    ::onnx::GraphProto kept;
    kept.mutable_input()->Swap(g.mutable_input());
    kept.mutable_output()->Swap(g.mutable_output());
    kept.mutable_value_info()->Swap(g.mutable_value_info());
    for (auto& n : *g.mutable_node()) {
      auto const bodies = onnx_bodies(n);
      if (bodies.empty()) continue;
      auto& a = *kept.add_node()->add_attribute();
      for (auto* const body : bodies) {
        a.add_graphs()->Swap(body);
        open.push_back(a.mutable_graphs(a.graphs_size() - 1));
      }
    }
    g.Swap(&kept);
  }
}

/// Gives the values of a graph the types in `from`, which `keep_onnx_types` made of a copy of it. Returns
/// false if `from` has other bodies.
inline bool take_onnx_types(::onnx::GraphProto& whole, ::onnx::GraphProto& from) {
  std::vector<std::pair<::onnx::GraphProto*, ::onnx::GraphProto*>> open{{&whole, &from}};
  while (!open.empty()) {
    auto const [g, types] = open.back();
    open.pop_back();
    g->mutable_input()->Swap(types->mutable_input());
    g->mutable_output()->Swap(types->mutable_output());
    g->mutable_value_info()->Swap(types->mutable_value_info());
    int next = 0;
    for (auto& n : *g->mutable_node()) {
      auto const bodies = onnx_bodies(n);
      if (bodies.empty()) continue;
      if (next == types->node_size() || types->node(next).attribute_size() != 1) return false;
      auto& kept = *types->mutable_node(next++)->mutable_attribute(0)->mutable_graphs();
      if (static_cast<std::size_t>(kept.size()) != bodies.size()) return false;
      for (int i = 0; i < kept.size(); ++i) open.emplace_back(bodies[static_cast<std::size_t>(i)], &kept[i]);
    }
  }
  return true;
}

/// Infers types and shapes in place; see `onnx_type_inference`.
///
/// Returns the first contradiction, or an empty text. If libonnx crashes, or takes longer than 20 seconds
/// plus one per 2,000 nodes, or if its process cannot be made, the text says so, and the types are inferred
/// without it.
inline std::string onnx_infer(::onnx::ModelProto& m, onnx::inference where,
                              std::unordered_set<std::string> fixed = {}) {
  if (where != onnx::inference::own_process)
    return onnx_type_inference(m, {where == onnx::inference::same_process, std::move(fixed)}).complaint();

  ::onnx::OpSchemaRegistry::Instance()->GetSchema("Identity",
                                                  1);  // fills it before the fork: no held lock is copied
  auto const answer = onnx::in_own_process(
      [&] {
        auto const why = onnx_type_inference(m, {true, fixed}).complaint();
        keep_onnx_types(*m.mutable_graph());
        return why + '\0' + m.graph().SerializeAsString();
      },
      std::chrono::seconds(20 + m.graph().node_size() / 2000));
  auto const end = answer ? answer->find('\0') : 0;
  ::onnx::GraphProto inferred;
  if (!answer ||
      !inferred.ParseFromArray(answer->data() + end + 1, static_cast<int>(answer->size() - end - 1)) ||
      !take_onnx_types(*m.mutable_graph(), inferred)) {
    onnx_infer(m, onnx::inference::without_libonnx, std::move(fixed));
    return "libonnx's shape inference crashed, took too long or had no process; shapes that it alone knows "
           "are missing";
  }
  return answer->substr(0, end);
}

}  // namespace cleave::detail
