// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/printable.hpp"

namespace cleave::inline v0_2::onnx {

/// The kind of a fault in an ONNX file.
enum class fault_kind : std::uint8_t {
  file,             ///< cannot be read, or exceeds the size limit
  parse,            ///< the bytes are not an ONNX model
  empty,            ///< the model has no graph
  version,          ///< invalid IR version or opset imports
  depth,            ///< bodies or function calls are nested too deep
  size,             ///< the data of a tensor does not match its dimensions
  type,             ///< the element type does not exist
  shape,            ///< invalid dimensions
  external,         ///< external data at a path that must not be followed
  name,             ///< a value has no name
  node,             ///< a node has no operator
  attribute,        ///< an attribute has no value, or several
  subgraph,         ///< an If, Loop or Scan lacks a body
  operation,        ///< the operator's domain is not imported
  function,         ///< functions call each other in a cycle, or expand to too many nodes
  missing_value,    ///< a name is read that no node makes
  duplicate_value,  ///< a name is made twice
  cycle,            ///< nodes depend on each other in a cycle
  order,            ///< in a body or function, a value is read before it is made
};

}  // namespace cleave::onnx

namespace cleave::inline v0_2::detail {

/// Returns the kind as a word, for logs and tables.
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

namespace cleave::inline v0_2::onnx {

/// A fault as data. The names are those of the file, byte for byte; the message contains them in `printable`
/// form.
struct fault {
  onnx::fault_kind kind;
  std::string message;             ///< the problem, its place, and the remedy
  std::vector<std::string> names;  ///< the values, operators, domains or attributes concerned

  bool operator==(onnx::fault const&) const = default;
};

inline std::string describe(onnx::fault const& f) { return f.message; }

/// Thrown for an ONNX file that cannot be used; `witness` is the reason.
using error = fault_error<onnx::fault>;

/// Limits of what is accepted from ONNX files.
struct limits {
  std::size_t max_bytes = 0x7fffffff;  ///< size of a file; protobuf itself reads no more
  std::size_t max_ratio = 100;         ///< a .gz file of more than 256 MiB unpacked: so many times its size
  std::size_t max_depth = 33;          ///< nesting of bodies; protobuf's own limit is equivalent
  std::size_t max_call_depth = 64;     ///< nesting of function calls
  std::size_t max_inlined_nodes = 1'000'000;  ///< number of nodes after inlining all function calls
  std::string_view raised_by{};               ///< what raises the first two, for the message; may be empty
};

}  // namespace cleave::onnx
