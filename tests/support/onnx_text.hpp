// SPDX-License-Identifier: MIT
#pragma once
#include <onnx/defs/parser.h>
#include <onnx/onnx_pb.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

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

/// Imports version 1 of the operators of a domain.
inline void import_domain(::onnx::ModelProto& m, std::string const& domain) {
  auto& o = *m.add_opset_import();
  o.set_domain(domain);
  o.set_version(1);
}

/// Adds a function of one result whose body is one node, at the versions that the model imports. The caller
/// gives the node its operator.
inline ::onnx::NodeProto& add_function(::onnx::ModelProto& m, std::string const& domain,
                                       std::string const& name, std::vector<std::string> const& operands) {
  auto& f = *m.add_functions();
  f.set_domain(domain);
  f.set_name(name);
  *f.mutable_opset_import() = m.opset_import();
  auto& n = *f.add_node();
  for (auto const& operand : operands) {
    f.add_input(operand);
    n.add_input(operand);
  }
  f.add_output("made");
  n.add_output("made");
  return n;
}

/// Adds an initializer of `count` floats, whose data is in a file.
inline ::onnx::TensorProto& add_external(::onnx::GraphProto& g, std::string const& name, std::int64_t count,
                                         std::string const& file) {
  auto& t = *g.add_initializer();
  t.set_name(name);
  t.set_data_type(::onnx::TensorProto::FLOAT);
  t.add_dims(count);
  t.set_data_location(::onnx::TensorProto::EXTERNAL);
  auto& location = *t.add_external_data();
  location.set_key("location");
  location.set_value(file);
  return t;
}

}  // namespace cleave::testing
