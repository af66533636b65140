// SPDX-License-Identifier: MIT
#pragma once
#include <cleave/adapt/onnx/graph.hpp>
#include <cleave/core/error.hpp>
#include <cleave/core/printable.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model.hpp"

namespace tool {

/// The data that fills an input of a model; it is the same on every machine. The generator is that of the
/// model corpus's descriptions: s = s * 6364136223846793005 + 1442695040888963407 (mod 2^64), advanced before
/// each element.
struct input_fill {
  enum class kind : std::uint8_t {
    floats,  ///< in [-1, 1): (s >> 40) * 2^-23 - 1
    rows,    ///< in [0, most): (s >> 33) % most
    ones,
  };
  std::string name;
  int type;  ///< `onnx::TensorProto::DataType`
  std::vector<std::int64_t> shape;
  kind how;
  std::int64_t most = 0;
  std::string table{};  ///< `rows`: the weight from which the input selects rows

  std::size_t elements() const {
    std::size_t n = 1;
    for (auto const d : shape) n *= static_cast<std::size_t>(d);
    return n;
  }
};

/// Returns the weight from which `v` selects rows, directly or through nodes that only reshape or cast it, or
/// nothing.
inline std::optional<cleave::onnx::graph::value> find_table(cleave::onnx::graph const& g,
                                                            cleave::onnx::graph::value v) {
  std::vector<char> same(g.values());  // values with the input's numbers
  same[v] = 1;
  for (auto const n : g.nodes()) {
    auto const reads = g.operands(n);
    if (reads.empty() || g.proto(n).op_type() == "Shape") continue;
    auto const& type = g.proto(n).op_type();
    if (type == "Gather" && reads.size() == 2 && same[reads[1]] && g.tensor(g.storage(reads[0])) != nullptr)
      return g.storage(reads[0]);
    bool const keeps = type == "Cast" || type == "Identity" || type == "Reshape" || type == "Unsqueeze" ||
                       type == "Squeeze" || type == "Flatten";
    if (keeps && same[reads[0]]) same[g.results(n)[0]] = 1;
  }
  return std::nullopt;
}

/// Returns the fill of each input of the model. \throws cleave::error if a type or a dimension is unknown.
inline std::vector<input_fill> input_fills(model const& m) {
  std::vector<input_fill> fills;
  for (auto const v : m.graph.inputs()) {
    std::string const name(m.graph.name_of(v));
    auto const* type = m.types.priced(name);
    auto const refuse = [&](std::string const& why) {
      throw cleave::error("input " + cleave::quoted(name) + " " + why);
    };
    if (type == nullptr || !type->has_tensor_type()) refuse("is not a tensor of a known type");
    if (!cleave::onnx::elements(type))
      refuse("has an unknown dimension (" + cleave::printable(cleave::onnx::spelling(*type)) +
             "); set it with --dim or --shape");
    input_fill f{name, type->tensor_type().elem_type(), {}, input_fill::kind::ones};
    if (*cleave::onnx::elements(type) > 1e9)
      refuse("has more than 1e9 elements; use a smaller --dim or --shape");
    for (auto const& d : type->tensor_type().shape().dim()) f.shape.push_back(d.dim_value());
    if (f.type == 1 || f.type == 10 || f.type == 11 || f.type == 16) {
      f.how = input_fill::kind::floats;
    } else if (auto const table = find_table(m.graph, v)) {
      auto const* rows = m.graph.tensor(*table);
      f.how = input_fill::kind::rows;
      f.most = rows->dims_size() > 0 ? rows->dims(0) : 1;
      f.table = m.graph.name_of(*table);
    }
    fills.push_back(std::move(f));
  }
  return fills;
}

/// `image: random in [-1, 1)`
inline std::string fill_text(input_fill const& f) {
  auto const name = cleave::printable(f.name, 40) + ": ";
  if (f.how == input_fill::kind::floats) return name + "random in [-1, 1)";
  if (f.how == input_fill::kind::ones) return name + "ones";
  return name + "random integers below " + std::to_string(f.most) + ", row numbers of " +
         cleave::quoted(f.table);
}

/// Advances the generator with state `s` and returns its next number.
inline std::uint64_t next(std::uint64_t& s) { return s = s * 6364136223846793005u + 1442695040888963407u; }

/// The seed of the generator of input `i` for a microbatch.
inline std::uint64_t seed_of(std::size_t microbatch, std::size_t i) { return 1 + 1000 * microbatch + i; }

}  // namespace tool
