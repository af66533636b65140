// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/printable.hpp"

namespace cleave::onnx {

/// What kind of thing is wrong with an ONNX file.
enum class fault_kind : std::uint8_t {
  file,             ///< cannot be read, or is larger than allowed
  parse,            ///< the bytes are no ONNX model
  empty,            ///< there is no graph
  version,          ///< IR version or opset imports
  depth,            ///< bodies, or calls of functions, nested too deep
  size,             ///< a tensor whose data does not fit its dimensions
  type,             ///< an element type that does not exist
  shape,            ///< dimensions that no tensor can have
  external,         ///< data outside the file, at a place that must not be followed
  name,             ///< a value without a name
  node,             ///< a node without an operator
  attribute,        ///< an attribute without its value, or with several
  subgraph,         ///< an If, Loop or Scan without a body
  operation,        ///< an operator of a domain that is not imported
  function,         ///< functions that call each other for ever, or too often
  missing_value,    ///< a name is read that nothing makes
  duplicate_value,  ///< a name is made twice
  cycle,            ///< nodes that need each other
  order,            ///< in a body or a function: a value is read before it is made
};

}  // namespace cleave::onnx

namespace cleave::detail {

/// The kind as a word, for logs and tables.
constexpr std::string_view onnx_fault_word(onnx::fault_kind kind) {
  constexpr std::string_view words[] = {"file",
                                        "parse",
                                        "empty",
                                        "version",
                                        "depth",
                                        "size",
                                        "type",
                                        "shape",
                                        "external",
                                        "name",
                                        "node",
                                        "attribute",
                                        "subgraph",
                                        "operator",
                                        "function",
                                        "missing_value",
                                        "duplicate_value",
                                        "cycle",
                                        "order"};
  return words[static_cast<std::size_t>(kind)];
}

}  // namespace cleave::detail

namespace cleave::onnx {

/// What is wrong, as data. The names are those of the file, byte for byte; the message has them `printable`.
struct fault {
  onnx::fault_kind kind;
  std::string message;             ///< what, where and how to mend it
  std::vector<std::string> names;  ///< the values, operators, domains or attributes it is about

  bool operator==(onnx::fault const&) const = default;
};

inline std::string describe(onnx::fault const& f) { return f.message; }

/// An ONNX file that cannot be used; `witness` says why.
using error = fault_error<onnx::fault>;

/// What a reader of ONNX files accepts.
struct limits {
  std::size_t max_bytes = 0x7fffffff;         ///< of a file; protobuf itself reads no more
  std::size_t max_depth = 33;                 ///< of bodies in bodies; protobuf's own limit comes to the same
  std::size_t max_call_depth = 64;            ///< of functions that call functions
  std::size_t max_inlined_nodes = 1'000'000;  ///< that all calls of functions stand for, written out
};

}  // namespace cleave::onnx
