// SPDX-License-Identifier: MIT
#pragma once
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/language.hpp"

namespace cleave::detail {

/// A small tensor of whole numbers or truth values, as shapes are computed with; some elements may not be
/// known.
struct onnx_integers {
  static constexpr std::int64_t unknown = (std::numeric_limits<std::int64_t>::min)();
  static constexpr std::size_t most = 1024;

  int element = onnx::TensorProto::INT64;  ///< `onnx::TensorProto::DataType`
  std::vector<std::int64_t> dims{};
  std::vector<std::int64_t> data{};

  bool known() const { return std::ranges::find(data, unknown) == data.end(); }
};

/// The numbers of a tensor, if it is small and has whole numbers or truth values.
inline std::optional<onnx_integers> onnx_integers_of(onnx::TensorProto const& t) {
  using type = onnx::TensorProto;
  bool const wide = t.data_type() == type::INT64;
  if (!wide && t.data_type() != type::INT32 && t.data_type() != type::BOOL) return std::nullopt;
  std::size_t elements = 1;
  for (auto const d : t.dims()) {
    if (d < 0 || d > static_cast<std::int64_t>(onnx_integers::most)) return std::nullopt;
    elements *= static_cast<std::size_t>(d);
    if (elements > onnx_integers::most) return std::nullopt;
  }
  onnx_integers made{t.data_type(), {t.dims().begin(), t.dims().end()}, {}};
  if (t.has_raw_data()) {
    std::size_t const each = wide ? 8 : t.data_type() == type::INT32 ? 4 : 1;
    if (t.raw_data().size() != elements * each) return std::nullopt;
    for (std::size_t i = 0; i < elements; ++i) {
      auto const* at = t.raw_data().data() + i * each;
      std::int64_t x = 0;
      std::int32_t half = 0;
      if (wide)
        std::memcpy(&x, at, 8);
      else if (each == 4)
        std::memcpy(&half, at, 4), x = half;
      else
        x = *at != 0;
      made.data.push_back(x);
    }
  } else if (wide) {
    made.data.assign(t.int64_data().begin(), t.int64_data().end());
  } else {
    made.data.assign(t.int32_data().begin(), t.int32_data().end());
  }
  return made.data.size() == elements ? std::optional(std::move(made)) : std::nullopt;
}

/// A node that makes these numbers.
inline onnx::NodeProto onnx_constant_node(std::string const& result, onnx_integers const& value) {
  onnx::NodeProto n;
  n.set_op_type("Constant");
  n.add_output(result);
  auto& a = *n.add_attribute();
  a.set_name("value");
  a.set_type(onnx::AttributeProto::TENSOR);
  auto& t = *a.mutable_t();
  t.set_data_type(value.element);
  t.mutable_dims()->Assign(value.dims.begin(), value.dims.end());
  t.mutable_int64_data()->Assign(value.data.begin(), value.data.end());
  return n;
}

}  // namespace cleave::detail
