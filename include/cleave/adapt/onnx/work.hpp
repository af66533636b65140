// SPDX-License-Identifier: MIT
#pragma once
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "cleave/adapt/onnx/detail/flops.hpp"
#include "cleave/adapt/onnx/shape.hpp"

namespace cleave::inline v0_2::onnx {

/// The work of running a node once.
struct work {
  double flops = 0;
  double bytes = 0;      ///< read and written
  double nodes = 0;      ///< number of operators run, including those of bodies and functions
  bool unknown = false;  ///< true if a needed shape is unknown; the other shapes are counted
  bool bounded = false;  ///< true if a size depends on the data of a run, and its upper bound is counted

  onnx::work& operator+=(onnx::work const& w) {
    flops += w.flops;
    bytes += w.bytes;
    nodes += w.nodes;
    unknown |= w.unknown;
    bounded |= w.bounded;
    return *this;
  }
};

}  // namespace cleave::onnx

namespace cleave::inline v0_2::detail {

/// Computes the work of one node without its bodies from the types of its operands and results.
/// `type_of(name)` is null if the type is unknown.
template <class TypeOf>
class onnx_node_work {
 public:
  onnx_node_work(::onnx::NodeProto const& n, TypeOf type_of) : n_(n), type_of_(type_of) {}

  onnx::work operator()() {
    auto const* line = find_onnx_operator_cost(n_);
    work_.nodes = 1;
    if (line == nullptr) {
      work_.bytes = moved(0);
    } else if (line->rule == onnx_rule::gather) {
      work_.bytes = moved(1) + (n_.output_size() > 0 ? bytes_of(n_.output(0)) : 0);
    } else if (line->rule != onnx_rule::view && line->rule != onnx_rule::body) {
      work_.flops = flops(*line);
      work_.bytes = moved(0);
    }
    return work_;
  }

 private:
  double flops(onnx_operator_cost const& line) {
    switch (line.rule) {
      case onnx_rule::convolution:
        return 2 * result() * by_channel(static_cast<int>(line.factor));
      case onnx_rule::transposed:
        return 2 * operand(0) * by_channel(1);
      case onnx_rule::product:
        return 2 * result() * inner();
      case onnx_rule::einsum:
        return 2 * equation();
      case onnx_rule::recurrent:
        return 2 * dimension(0, 0) * dimension(0, 1) * (operand(1) + operand(2));
      case onnx_rule::pooling:
        return result() * kernel();
      case onnx_rule::result:
        return line.factor * result();
      case onnx_rule::join:
        return (std::max)(1, n_.input_size() - 1) * result();
      case onnx_rule::operand:
        return line.factor * operand(0);
      default:
        return 0;
    }
  }

  double known(std::optional<double> x) {
    work_.unknown |= !x.has_value();
    return x.value_or(0);
  }

  std::string const& name_of_operand(int i) const {
    return i < n_.input_size() ? n_.input(i) : google::protobuf::internal::GetEmptyString();
  }
  /// Returns the number of elements, or its upper bound.
  double size(::onnx::TypeProto const* type) {
    auto const most = onnx::most_elements(type);
    work_.bounded |= most && !onnx::elements(type);
    return known(most);
  }
  double operand(int i) { return size(type_of_(name_of_operand(i))); }

  double result() {
    for (auto const& name : n_.output())
      if (!name.empty()) return size(type_of_(name));
    return 0;
  }

  double dimension(int of_operand, int at) {
    auto const* type = type_of_(name_of_operand(of_operand));
    if (!onnx::most_elements(type) || at >= type->tensor_type().shape().dim_size()) return known({});
    auto const& d = type->tensor_type().shape().dim(at);
    work_.bounded |= !d.has_dim_value();
    return static_cast<double>(*onnx::most_of(d));
  }

  /// Returns the number of elements of a weight per channel of its first dimension.
  double by_channel(int weight) {
    double const channels = dimension(weight, 0);
    return channels > 0 ? operand(weight) / channels : 0;
  }

  /// Returns the size of the dimension that a matrix product sums over.
  double inner() {
    auto const* type = type_of_(name_of_operand(0));
    if (!onnx::most_elements(type) || type->tensor_type().shape().dim_size() == 0) return known({});
    auto const* transposed = n_.op_type() == "Gemm" ? find_onnx_attribute(n_, "transA") : nullptr;
    return dimension(
        0, transposed != nullptr && transposed->i() != 0 ? 0 : type->tensor_type().shape().dim_size() - 1);
  }

  double kernel() {
    auto const* shape = find_onnx_attribute(n_, "kernel_shape");
    double elements = 1;
    if (shape != nullptr)
      for (auto const d : shape->ints()) elements *= static_cast<double>(d);
    return elements;
  }

  /// Returns the product of the dimensions of an Einsum's letters; unknown if it contains `...`.
  double equation() {
    auto const* text = find_onnx_attribute(n_, "equation");
    std::string_view rest = text == nullptr ? std::string_view() : std::string_view(text->s());
    rest = rest.substr(0, rest.find("->"));
    std::string seen;
    double product = 1;
    for (int i = 0, at = 0; char const c : rest) {
      if (c == ',') {
        ++i;
        at = 0;
      } else if (c == '.') {
        return known({});
      } else if (c != ' ') {
        if (seen.find(c) == std::string::npos) product *= dimension(i, at);
        seen += c;
        ++at;
      }
    }
    return product;
  }

  double bytes_of(std::string const& name) {
    if (name.empty()) return 0;
    auto const* type = type_of_(name);
    auto const elements = size(type);
    return elements == 0
               ? 0
               : elements * static_cast<double>(onnx::element_size(type->tensor_type().elem_type()));
  }

  double moved(int from_operand) {
    double sum = 0;
    for (int i = from_operand; i < n_.input_size(); ++i) sum += bytes_of(n_.input(i));
    for (auto const& name : n_.output()) sum += bytes_of(name);
    return sum;
  }

  ::onnx::NodeProto const& n_;
  TypeOf type_of_;
  onnx::work work_;
};

}  // namespace cleave::detail
