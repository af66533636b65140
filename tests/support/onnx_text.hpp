// SPDX-License-Identifier: MIT
#pragma once
#include <onnx/defs/parser.h>
#include <onnx/onnx_pb.h>

#include <stdexcept>
#include <string>

namespace cleave::testing {

/// Parses a model in ONNX's text syntax: `f (float[2,3] x) => (float[2,3] y) { y = Relu(x) }`, at opset 15
/// and IR version 8.
inline ::onnx::ModelProto onnx_text(std::string const& graph) {
  auto const text = "<ir_version: 8, opset_import: [\"\" : 15]>\n" + graph;
  ::onnx::ModelProto m;
  auto const status = ::onnx::OnnxParser::Parse(m, text.c_str());
  if (!status.IsOK()) throw std::runtime_error(status.ErrorMessage());
  return m;
}

}  // namespace cleave::testing
