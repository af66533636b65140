// SPDX-License-Identifier: MIT
#pragma once
#include <onnx/onnx_pb.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/adapt/onnx/fault.hpp"
#include "cleave/graph/csr.hpp"

namespace cleave::detail {

/// A graph of an ONNX model and all bodies in it as numbers: which value each name means where it is read.
///
/// Nodes are numbered by scope, in file order: the graph's own nodes are 0, 1, … by their place in the file,
/// those of bodies follow. A name may mean different values in different scopes; the innermost scope that
/// makes it anywhere wins. Absent operands and unused results (empty names) are left out.
struct onnx_scopes {
  using index = std::uint32_t;

  /// The graph itself (number 0), or a body that an attribute of `holder` carries.
  struct scope {
    onnx::GraphProto const* graph;  ///< null for a function
    std::string_view attribute;     ///< that carries it
    index holder;                   ///< a node, or none
    index depth;                    ///< 0 for the graph itself
    index first_node = 0, end_node = 0;
    index first_value = 0, end_value = 0;
  };
  struct value {
    std::string_view name;
    index text;                                       ///< equal where names are equal
    index scope;                                      ///< that defines it
    index producer = none<index>;                     ///< a node
    onnx::TensorProto const* tensor = nullptr;        ///< the data of an initializer,
    onnx::SparseTensorProto const* sparse = nullptr;  ///< or of a sparse one
    bool listed = false;                              ///< among its graph's inputs
  };

  std::vector<std::string_view> texts;  ///< each name once
  std::vector<onnx::NodeProto const*> nodes;
  std::vector<index> scope_of;  ///< of a node
  std::vector<scope> scopes;
  std::vector<value> values;
  csr<index> operands, results;  ///< of a node: values
  csr<index> bodies;             ///< of a node: scopes
  csr<index> arguments, yields;  ///< of a scope: the values it defines on entry, and returns
  csr<index> reads;              ///< of a node of the graph itself: operands, then captures; may repeat
  std::vector<index> order;      ///< the graph's own nodes, sorted: the first in the file that is ready first
  std::optional<onnx_fault> fault;  ///< the first one; then the arrays that come later are not filled

  std::size_t graph_nodes() const { return scopes.front().end_node; }

  /// What messages call a node: its place among its neighbours, name, operator and first result, as in
  /// `node #3 'conv1' (Conv, makes 'y')`, and the body it is in.
  std::string label(index n) const {
    auto const& p = *nodes[n];
    auto const& home = scopes[scope_of[n]];
    std::string text = "node #" + std::to_string(n - home.first_node);
    if (!p.name().empty()) text += " " + quoted(p.name());
    text += " (" + printable(p.op_type());
    for (auto const& name : p.output()) {
      if (name.empty()) continue;
      text += std::string(p.op_type().empty() ? "" : ", ") + "makes " + quoted(name);
      break;
    }
    text += ")";
    if (home.holder == none<index>) return text;
    auto const& holder = *nodes[home.holder];
    text += " in the " + printable(home.attribute) + " of ";
    text += holder.name().empty() ? "a node" : quoted(holder.name());
    return text + " (" + printable(holder.op_type()) + ")";
  }

  /// What messages call a scope.
  std::string place(index i) const {
    auto const& s = scopes[i];
    if (s.holder != none<index>) return "the " + printable(s.attribute) + " of " + label(s.holder);
    return s.graph != nullptr ? "the graph" : "the function";
  }
};

}  // namespace cleave::detail
