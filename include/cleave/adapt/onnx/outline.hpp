// SPDX-License-Identifier: MIT
#pragma once
#include <onnx/shape_inference/implementation.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <unordered_set>

#include "cleave/adapt/onnx/functions.hpp"
#include "cleave/adapt/onnx/own_process.hpp"
#include "cleave/adapt/onnx/shape.hpp"

namespace cleave {

/// A copy of a model for inference: without initialisers' payloads above `heavy` bytes, which shapes do not
/// depend on, and without defaults that the caller may override (IR version 4 on), whose data says nothing
/// about other runs. Each initialiser is an input of the copy, so that its type stays known.
inline onnx::ModelProto onnx_outline(onnx::ModelProto const& m, std::size_t heavy = 65536) {
  onnx::ModelProto copy;
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
  *to.mutable_sparse_initializer() = from.sparse_initializer();
  std::unordered_set<std::string> listed;
  for (auto const& v : from.input()) listed.insert(v.name());
  for (auto const& t : from.initializer()) {
    bool const overridable = m.ir_version() >= 4 && listed.contains(t.name());
    bool const elsewhere = t.data_location() == onnx::TensorProto::EXTERNAL;
    if (!overridable && !elsewhere && t.ByteSizeLong() <= heavy) *to.add_initializer() = t;
    if (!listed.contains(t.name())) {
      auto& input = *to.add_input();
      input.set_name(t.name());
      auto& type = *input.mutable_type()->mutable_tensor_type();
      type.set_elem_type(t.data_type());
      type.mutable_shape();
      for (auto const d : t.dims()) type.mutable_shape()->add_dim()->set_dim_value(d);
    }
  }
  return copy;
}

/// Infers types and shapes in place, with data propagation or without; what contradicts itself stays unknown.
/// Returns why it stopped early, or nothing: libonnx throws on models that its schemas do not foresee. Where
/// it crashes, or is not done in 20 seconds and one per 2,000 nodes, `m` is as before.
inline std::string onnx_infer(onnx::ModelProto& m, bool propagate, onnx_inference where) {
  auto const* const schemas = onnx::OpSchemaRegistry::Instance();
  auto const infer = [&]() -> std::string {
    try {
      onnx::ShapeInferenceOptions const lenient{false, 0, propagate};
      onnx::shape_inference::InferShapes(m, schemas, lenient);
      return {};
    } catch (std::exception const& e) {
      return e.what();
    }
  };
  if (where == onnx_inference::same_process) return infer();

  schemas->GetSchema("Identity", 1);  // fills the registry here: no copy is made of a lock that is held
  auto const answer = in_own_process(
      [&] {
        auto const why = infer();
        return why + '\0' + m.SerializeAsString();
      },
      std::chrono::seconds(20 + m.graph().node_size() / 2000));
  if (!answer) return "libonnx's shape inference crashed or did not end";
  auto const end = answer->find('\0');
  m.ParseFromArray(answer->data() + end + 1, static_cast<int>(answer->size() - end - 1));
  return answer->substr(0, end);
}

}  // namespace cleave
