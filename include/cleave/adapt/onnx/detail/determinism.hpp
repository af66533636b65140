// SPDX-License-Identifier: MIT
#pragma once
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "cleave/adapt/onnx/detail/constant.hpp"
#include "cleave/adapt/onnx/detail/flops.hpp"
#include "cleave/adapt/onnx/detail/functions.hpp"
#include "cleave/core/language.hpp"

namespace cleave::inline v0_2::detail {

/// Returns true if the tensor is a single boolean with the value false.
inline bool is_onnx_false(::onnx::TensorProto const& t) {
  if (t.data_type() != ::onnx::TensorProto::BOOL || t.data_location() == ::onnx::TensorProto::EXTERNAL)
    return false;
  return t.raw_data().empty() ? t.int32_data_size() == 1 && t.int32_data(0) == 0
                              : t.raw_data().size() == 1 && t.raw_data()[0] == '\0';
}

/// Decides which nodes of a model give equal results for equal operands, without effects that another node
/// could see.
///
/// All operators of ONNX's own domain do, except random ones, and those of `ai.onnx.ml`. Of other domains,
/// only the quantization operators of onnxruntime do: an operator that this library does not know may be
/// random or keep state. A node with bodies, or a call of a function, does if all nodes inside do.
class onnx_determinism {
 public:
  explicit onnx_determinism(::onnx::ModelProto const& m)
      : functions_(onnx_functions(m)), version_(version_of(m.opset_import(), newest)) {
    find_random_functions(m);
  }

  /// `is_false(name)` returns true if a value of the graph itself is the constant false.
  template <class IsFalse>
  bool operator()(::onnx::NodeProto const& n, IsFalse is_false) const {
    if (!gives_equal_results(n, version_, is_false)) return false;
    bool inside = true;
    for (auto const& a : n.attribute()) {
      if (a.has_g()) inside &= is_deterministic(a.g().node(), version_);
      for (auto const& body : a.graphs()) inside &= is_deterministic(body.node(), version_);
    }
    return inside;
  }

 private:
  using function = ::onnx::FunctionProto const*;
  static constexpr std::int64_t newest = 1'000'000;
  static constexpr std::array<std::string_view, 6> random = {
      "Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"};

  template <class Imports>
  static std::int64_t version_of(Imports const& imports, std::int64_t otherwise) {
    for (auto const& i : imports)
      if (i.domain().empty() || i.domain() == "ai.onnx") return i.version();
    return otherwise;
  }

  /// Returns false for a Dropout that may drop something. Up to version 6 an attribute turns it off; from 12
  /// on an operand turns it on.
  template <class IsFalse>
  static bool is_identity_dropout(::onnx::NodeProto const& n, std::int64_t version, IsFalse is_false) {
    if (version < 7) {
      auto const* off = find_onnx_attribute(n, "is_test");
      return off != nullptr && off->ref_attr_name().empty() && off->i() != 0;
    }
    return version < 12 || n.input_size() < 3 || n.input(2).empty() || is_false(n.input(2));
  }

  /// Returns the function that a node calls, or null.
  function function_of(::onnx::NodeProto const& n) const {
    if (functions_.empty()) return nullptr;
    auto const at = functions_.find(onnx_function_key(n.domain(), n.op_type()));
    return at == functions_.end() ? nullptr : at->second;
  }

  /// Judges a node without its bodies.
  template <class IsFalse>
  bool gives_equal_results(::onnx::NodeProto const& n, std::int64_t version, IsFalse is_false) const {
    if (auto const* f = function_of(n)) return !random_.contains(f);
    if (n.domain() == "com.microsoft")
      return n.op_type() == "QuantizeLinear" || n.op_type() == "DequantizeLinear";
    if (n.domain() == "ai.onnx.ml") return true;
    if (!n.domain().empty() && n.domain() != "ai.onnx") return false;
    if (n.op_type() == "Dropout") return is_identity_dropout(n, version, is_false);
    return std::ranges::find(random, n.op_type()) == random.end();
  }

  /// Judges nodes of a body or a function, with their bodies.
  template <class Nodes>
  bool is_deterministic(Nodes const& nodes, std::int64_t version) const {
    bool all = true;
    each_nested_onnx_node(nodes, [&](::onnx::NodeProto const& n) {
      all = all && gives_equal_results(n, version, [](std::string const&) { return false; });
    });
    return all;
  }

  /// Fills `random_`: functions with such a node, and those that call one directly or indirectly.
  void find_random_functions(::onnx::ModelProto const& m) {
    std::unordered_map<function, std::vector<function>> callers;
    std::vector<function> found;
    for (auto const& f : m.functions()) {
      each_nested_onnx_node(f.node(), [&](::onnx::NodeProto const& n) {
        if (auto const* callee = function_of(n)) callers[callee].push_back(&f);
      });
      if (!is_deterministic(f.node(), version_of(f.opset_import(), version_)) && random_.insert(&f).second)
        found.push_back(&f);
    }
    while (!found.empty()) {
      auto const f = found.back();
      found.pop_back();
      for (auto const caller : callers[f])
        if (random_.insert(caller).second) found.push_back(caller);
    }
  }

  onnx_function_table functions_;
  std::unordered_set<function> random_;
  std::int64_t version_;
};

}  // namespace cleave::detail
