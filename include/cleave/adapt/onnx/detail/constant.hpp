// SPDX-License-Identifier: MIT
#pragma once
#include <onnx/onnx_pb.h>

#include <memory>
#include <string_view>

#include "cleave/core/language.hpp"

namespace cleave::inline v0_2::detail {

/// Returns true if `n` has this operator of ONNX's own domain.
inline bool is_onnx_operator(::onnx::NodeProto const& n, std::string_view op_type) {
  return n.op_type() == op_type && (n.domain().empty() || n.domain() == "ai.onnx");
}

/// Returns the value of a Constant node in the form of an initializer. Null if `n` is not a Constant, is
/// sparse, or takes its value from a function's argument. A tensor held by the node is not copied; the node
/// must outlive the result.
inline std::shared_ptr<::onnx::TensorProto const> onnx_constant_tensor(::onnx::NodeProto const& n) {
  if (!is_onnx_operator(n, "Constant") || n.attribute_size() != 1) return nullptr;
  auto const& a = n.attribute(0);
  if (!a.ref_attr_name().empty()) return nullptr;
  if (a.name() == "value" && a.has_t()) return {std::shared_ptr<void>(), &a.t()};

  auto made = std::make_shared<::onnx::TensorProto>();
  auto const is = [&](std::string_view name, ::onnx::TensorProto::DataType type) {
    made->set_data_type(type);
    return a.name() == name;
  };
  if (is("value_float", ::onnx::TensorProto::FLOAT)) {
    made->add_float_data(a.f());
  } else if (is("value_int", ::onnx::TensorProto::INT64)) {
    made->add_int64_data(a.i());
  } else if (is("value_string", ::onnx::TensorProto::STRING)) {
    made->add_string_data(a.s());
  } else if (is("value_floats", ::onnx::TensorProto::FLOAT)) {
    *made->mutable_float_data() = a.floats();
    made->add_dims(a.floats_size());
  } else if (is("value_ints", ::onnx::TensorProto::INT64)) {
    *made->mutable_int64_data() = a.ints();
    made->add_dims(a.ints_size());
  } else if (is("value_strings", ::onnx::TensorProto::STRING)) {
    *made->mutable_string_data() = a.strings();
    made->add_dims(a.strings_size());
  } else {
    return nullptr;
  }
  return made;
}

}  // namespace cleave::detail
