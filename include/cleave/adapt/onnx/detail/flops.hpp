// SPDX-License-Identifier: MIT
#pragma once
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "cleave/core/language.hpp"

namespace cleave::inline v0_2::detail {

/// The rule by which floating-point operations follow from shapes. A multiply-add counts as two.
enum class onnx_rule : std::uint8_t {
  convolution,  ///< 2 · elements of the result · elements of the weight / its output channels
  transposed,   ///< 2 · elements of the first operand · elements of the weight / its input channels
  product,      ///< 2 · elements of the result · the inner dimension
  einsum,       ///< 2 · the product of all dimensions that the equation names
  recurrent,    ///< 2 · steps · batch · elements of both weights
  pooling,      ///< elements of the result · elements of the kernel
  result,       ///< factor · elements of the first result
  join,         ///< (operands - 1) · elements of the result
  operand,      ///< factor · elements of the first operand
  move,         ///< 0: copies its operands to its results
  gather,       ///< 0: reads only as much of its first operand as it returns
  view,         ///< 0, and no data is moved
  body,         ///< the sum over its bodies, each counted once
};

/// The cost rule of an operator.
struct onnx_operator_cost {
  std::string_view name;
  onnx_rule rule;
  double factor = 1;  ///< operations per element; for `convolution`, the index of the weight operand
};

/// The operators of the default domain with known cost, sorted by name. All others are priced by the bytes
/// that they move.
inline constexpr auto onnx_operator_costs = std::to_array<onnx_operator_cost>({
    {"Abs", onnx_rule::result},
    {"Acos", onnx_rule::result},
    {"Acosh", onnx_rule::result},
    {"Add", onnx_rule::result},
    {"And", onnx_rule::result},
    {"ArgMax", onnx_rule::operand},
    {"ArgMin", onnx_rule::operand},
    {"Asin", onnx_rule::result},
    {"Asinh", onnx_rule::result},
    {"Atan", onnx_rule::result},
    {"Atanh", onnx_rule::result},
    {"AveragePool", onnx_rule::pooling},
    {"BatchNormalization", onnx_rule::result, 2},
    {"BitShift", onnx_rule::result},
    {"Cast", onnx_rule::move},
    {"CastLike", onnx_rule::move},
    {"Ceil", onnx_rule::result},
    {"Celu", onnx_rule::result},
    {"Clip", onnx_rule::result},
    {"Compress", onnx_rule::move},
    {"Concat", onnx_rule::move},
    {"Constant", onnx_rule::view},
    {"ConstantOfShape", onnx_rule::move},
    {"Conv", onnx_rule::convolution, 1},
    {"ConvInteger", onnx_rule::convolution, 1},
    {"ConvTranspose", onnx_rule::transposed},
    {"Cos", onnx_rule::result},
    {"Cosh", onnx_rule::result},
    {"CumSum", onnx_rule::result},
    {"DepthToSpace", onnx_rule::move},
    {"DequantizeLinear", onnx_rule::result, 2},
    {"Div", onnx_rule::result},
    {"Dropout", onnx_rule::view},
    {"DynamicQuantizeLinear", onnx_rule::operand, 4},
    {"Einsum", onnx_rule::einsum},
    {"Elu", onnx_rule::result},
    {"Equal", onnx_rule::result},
    {"Erf", onnx_rule::result},
    {"Exp", onnx_rule::result},
    {"Expand", onnx_rule::move},
    {"EyeLike", onnx_rule::move},
    {"Flatten", onnx_rule::view},
    {"Floor", onnx_rule::result},
    {"GRU", onnx_rule::recurrent},
    {"Gather", onnx_rule::gather},
    {"GatherElements", onnx_rule::gather},
    {"GatherND", onnx_rule::gather},
    {"Gemm", onnx_rule::product},
    {"GlobalAveragePool", onnx_rule::operand},
    {"GlobalLpPool", onnx_rule::operand, 2},
    {"GlobalMaxPool", onnx_rule::operand},
    {"Greater", onnx_rule::result},
    {"GreaterOrEqual", onnx_rule::result},
    {"HardSigmoid", onnx_rule::result},
    {"HardSwish", onnx_rule::result},
    {"Hardmax", onnx_rule::operand},
    {"Identity", onnx_rule::view},
    {"If", onnx_rule::body},
    {"InstanceNormalization", onnx_rule::operand, 5},
    {"IsInf", onnx_rule::result},
    {"IsNaN", onnx_rule::result},
    {"LRN", onnx_rule::operand, 8},
    {"LSTM", onnx_rule::recurrent},
    {"LayerNormalization", onnx_rule::operand, 7},
    {"LeakyRelu", onnx_rule::result},
    {"Less", onnx_rule::result},
    {"LessOrEqual", onnx_rule::result},
    {"Log", onnx_rule::result},
    {"LogSoftmax", onnx_rule::operand, 5},
    {"Loop", onnx_rule::body},
    {"LpNormalization", onnx_rule::operand, 3},
    {"LpPool", onnx_rule::pooling},
    {"MatMul", onnx_rule::product},
    {"MatMulInteger", onnx_rule::product},
    {"Max", onnx_rule::join},
    {"MaxPool", onnx_rule::pooling},
    {"Mean", onnx_rule::join},
    {"MeanVarianceNormalization", onnx_rule::operand, 5},
    {"Min", onnx_rule::join},
    {"Mod", onnx_rule::result},
    {"Mul", onnx_rule::result},
    {"Neg", onnx_rule::result},
    {"NonZero", onnx_rule::operand},
    {"Not", onnx_rule::result},
    {"OneHot", onnx_rule::move},
    {"Or", onnx_rule::result},
    {"PRelu", onnx_rule::result},
    {"Pad", onnx_rule::move},
    {"Pow", onnx_rule::result},
    {"QLinearConv", onnx_rule::convolution, 3},
    {"QLinearMatMul", onnx_rule::product},
    {"QuantizeLinear", onnx_rule::result, 2},
    {"RNN", onnx_rule::recurrent},
    {"RandomNormalLike", onnx_rule::result},
    {"RandomUniformLike", onnx_rule::result},
    {"Range", onnx_rule::result},
    {"Reciprocal", onnx_rule::result},
    {"ReduceL1", onnx_rule::operand},
    {"ReduceL2", onnx_rule::operand, 2},
    {"ReduceLogSum", onnx_rule::operand},
    {"ReduceLogSumExp", onnx_rule::operand, 2},
    {"ReduceMax", onnx_rule::operand},
    {"ReduceMean", onnx_rule::operand},
    {"ReduceMin", onnx_rule::operand},
    {"ReduceProd", onnx_rule::operand},
    {"ReduceSum", onnx_rule::operand},
    {"ReduceSumSquare", onnx_rule::operand, 2},
    {"Relu", onnx_rule::result},
    {"Reshape", onnx_rule::view},
    {"Resize", onnx_rule::result, 4},
    {"ReverseSequence", onnx_rule::move},
    {"Round", onnx_rule::result},
    {"Scan", onnx_rule::body},
    {"Scatter", onnx_rule::move},
    {"ScatterElements", onnx_rule::move},
    {"ScatterND", onnx_rule::move},
    {"Selu", onnx_rule::result},
    {"Shape", onnx_rule::view},
    {"Shrink", onnx_rule::result},
    {"Sigmoid", onnx_rule::result},
    {"Sign", onnx_rule::result},
    {"Sin", onnx_rule::result},
    {"Sinh", onnx_rule::result},
    {"Size", onnx_rule::view},
    {"Slice", onnx_rule::gather},
    {"Softmax", onnx_rule::operand, 5},
    {"Softplus", onnx_rule::result},
    {"Softsign", onnx_rule::result},
    {"SpaceToDepth", onnx_rule::move},
    {"Split", onnx_rule::move},
    {"Sqrt", onnx_rule::result},
    {"Squeeze", onnx_rule::view},
    {"Sub", onnx_rule::result},
    {"Sum", onnx_rule::join},
    {"Tan", onnx_rule::result},
    {"Tanh", onnx_rule::result},
    {"ThresholdedRelu", onnx_rule::result},
    {"Tile", onnx_rule::move},
    {"TopK", onnx_rule::operand, 2},
    {"Transpose", onnx_rule::move},
    {"Trilu", onnx_rule::move},
    {"Unsqueeze", onnx_rule::view},
    {"Upsample", onnx_rule::result, 4},
    {"Where", onnx_rule::result},
    {"Xor", onnx_rule::result},
});
static_assert(std::ranges::is_sorted(onnx_operator_costs, {}, &onnx_operator_cost::name));

/// Returns the table entry for a node of the default domain, or null.
inline onnx_operator_cost const* find_onnx_operator_cost(::onnx::NodeProto const& n) {
  if (!n.domain().empty() && n.domain() != "ai.onnx") return nullptr;
  auto const at = std::ranges::lower_bound(onnx_operator_costs, std::string_view(n.op_type()), {},
                                           &onnx_operator_cost::name);
  return at != onnx_operator_costs.end() && at->name == n.op_type() ? &*at : nullptr;
}

/// Returns the attribute with this name, or null. O(attributes).
inline ::onnx::AttributeProto const* find_onnx_attribute(::onnx::NodeProto const& n, std::string_view name) {
  for (auto const& a : n.attribute())
    if (a.name() == name) return &a;
  return nullptr;
}

}  // namespace cleave::detail
