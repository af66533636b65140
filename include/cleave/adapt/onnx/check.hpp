// SPDX-License-Identifier: MIT
#pragma once
#include <onnx/onnx_pb.h>

#include <optional>

#include "cleave/adapt/onnx/fault.hpp"
#include "cleave/adapt/onnx/read_scopes.hpp"

namespace cleave {

inline std::optional<onnx_fault> find_onnx_fault(onnx::ModelProto const& model,
                                                 onnx_limits const& limits = {}) {
  return read_scopes(model.graph(), limits).fault;
}

/// \throws onnx_error where `find_onnx_fault` finds one.
inline void check_onnx(onnx::ModelProto const& model, onnx_limits const& limits = {}) {
  if (auto const fault = find_onnx_fault(model, limits)) throw onnx_error(*fault);
}

}  // namespace cleave
