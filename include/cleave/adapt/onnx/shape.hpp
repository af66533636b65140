// SPDX-License-Identifier: MIT
#pragma once
#include <onnx/onnx_pb.h>

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/adapt/onnx/fault.hpp"

namespace cleave::inline v0_2::onnx {

/// A shape given by the user.
struct shape {
  int element = 0;  ///< `onnx::TensorProto::DataType`; 0: the inferred type, or float32 if there is none
  std::vector<std::int64_t> dims{};  ///< -1: unknown

  bool operator==(onnx::shape const&) const = default;
};

/// The process in which libonnx's shape inference runs. On some models that break an operator's rules it
/// crashes: a ConvTranspose whose weight has rank 1, or a Split without results. On others it does not end.
enum class inference : std::uint8_t {
  own_process,      ///< a forked copy of the process, so that a crash does no harm
  same_process,     ///< this process: for trusted models, or if fork is not allowed
  without_libonnx,  ///< this process, by the rules of this library alone: fewer shapes are known
};

/// Sizes that the user knows and the file does not contain.
struct type_options {
  std::map<std::string, std::int64_t> dims{};   ///< sizes of symbolic dimensions, by name
  std::map<std::string, onnx::shape> shapes{};  ///< shapes of values, by name
  onnx::inference inference = onnx::inference::own_process;
};

/// An element type of tensors.
struct element {
  std::string_view name;
  int type;           ///< `onnx::TensorProto::DataType`
  std::size_t bytes;  ///< 0: varies
};

/// The element types that this library knows.
inline constexpr auto element_table = std::to_array<onnx::element>({
    {"float32", 1, 4},
    {"uint8", 2, 1},
    {"int8", 3, 1},
    {"uint16", 4, 2},
    {"int16", 5, 2},
    {"int32", 6, 4},
    {"int64", 7, 8},
    {"string", 8, 0},
    {"bool", 9, 1},
    {"float16", 10, 2},
    {"float64", 11, 8},
    {"uint32", 12, 4},
    {"uint64", 13, 8},
    {"complex64", 14, 8},
    {"complex128", 15, 16},
    {"bfloat16", 16, 2},
});

/// Returns the bytes of one element of a tensor; 0 if that varies (strings) or is unknown.
constexpr std::size_t element_size(int type) {
  for (auto const& e : onnx::element_table)
    if (e.type == type) return e.bytes;
  return 0;
}

/// Returns the number of elements of a tensor of this type, if all dimensions are known. A double, which no
/// file can overflow.
inline std::optional<double> elements(::onnx::TypeProto const* type) {
  if (type == nullptr || !type->has_tensor_type() || !type->tensor_type().has_shape()) return std::nullopt;
  double product = 1;
  for (auto const& d : type->tensor_type().shape().dim()) {
    if (!d.has_dim_value() || d.dim_value() < 0) return std::nullopt;  // older exporters write -1 for unknown
    product *= static_cast<double>(d.dim_value());
  }
  return product;
}

/// Returns the size of a dimension, or its upper bound if only that is known: inference writes `<=N` or `<=N
/// NAME` as its symbol then. Nothing if neither is known.
inline std::optional<std::int64_t> most_of(::onnx::TensorShapeProto::Dimension const& d) {
  if (d.has_dim_value()) return d.dim_value() < 0 ? std::nullopt : std::optional(d.dim_value());
  std::string_view text = d.dim_param();
  if (!text.starts_with("<=")) return std::nullopt;
  text.remove_prefix(2);
  std::int64_t n = -1;
  auto const [end, fault] = std::from_chars(text.data(), text.data() + text.size(), n);
  bool const ends = end == text.data() + text.size() || *end == ' ';
  return fault == std::errc() && ends && n >= 0 ? std::optional(n) : std::nullopt;
}

/// Returns the number of elements of a tensor of this type, or its upper bound.
inline std::optional<double> most_elements(::onnx::TypeProto const* type) {
  if (type == nullptr || !type->has_tensor_type() || !type->tensor_type().has_shape()) return std::nullopt;
  double product = 1;
  for (auto const& d : type->tensor_type().shape().dim()) {
    auto const most = most_of(d);
    if (!most) return std::nullopt;
    product *= static_cast<double>(*most);
  }
  return product;
}

/// Returns a type as in messages: `float32 1x3x?xwidth`.
inline std::string spelling(::onnx::TypeProto const& type) {
  if (!type.has_tensor_type())
    return type.has_sequence_type() ? "sequence" : type.has_optional_type() ? "optional" : "not a tensor";
  auto const& t = type.tensor_type();
  std::string text = "element type " + std::to_string(t.elem_type());
  for (auto const& e : onnx::element_table)
    if (e.type == t.elem_type()) text = e.name;
  if (!t.has_shape()) return text + " of unknown rank";
  if (t.shape().dim_size() == 0) return text + " scalar";
  char separator = ' ';
  for (auto const& d : t.shape().dim()) {
    text += std::exchange(separator, 'x');
    text += d.has_dim_value() && d.dim_value() >= 0 ? std::to_string(d.dim_value())
            : d.dim_param().empty()                 ? "?"
            : most_of(d)                            ? d.dim_param().substr(0, d.dim_param().find(' '))
                                                    : d.dim_param();
  }
  return text;
}

}  // namespace cleave::onnx

namespace cleave::inline v0_2::detail {

/// The most bytes of a value. Sums of a few sizes then still fit in 64 bits.
inline constexpr std::uint64_t most_value_bytes = std::uint64_t{1} << 62;

/// Returns the bytes of a value of this type, or their upper bound; 0 if a dimension or the element type is
/// unknown.
/// \throws onnx::error, naming `value`, if the size does not fit in 64 bits
inline std::size_t onnx_bytes(::onnx::TypeProto const* type, std::string_view value) {
  auto const elements = onnx::most_elements(type);
  if (!elements || *elements == 0) return 0;
  std::size_t const each = onnx::element_size(type->tensor_type().elem_type());
  std::size_t size = each;
  for (auto const& d : type->tensor_type().shape().dim())
    if (__builtin_mul_overflow(size, static_cast<std::size_t>(*onnx::most_of(d)), &size) ||
        size > most_value_bytes) {
      if (!onnx::elements(type)) return 0;  // a useless bound
      throw onnx::error({onnx::fault_kind::size,
                         "value " + quoted(value) + ": its size does not fit in 64 bits (" +
                             onnx::spelling(*type) + "); correct the dimensions that it follows from",
                         {std::string(value)}});
    }
  return size;
}

/// Returns the error for an option `text` that cannot be parsed; the witness contains the text.
inline onnx::error bad_onnx_option(std::string_view text, std::string const& why) {
  return onnx::error({onnx::fault_kind::shape, quoted(text) + ": " + why, {std::string(text)}});
}

}  // namespace cleave::detail

namespace cleave::inline v0_2::onnx {

/// Splits `NAME=VALUE` at the last `=`, since a name may contain any character. \throws onnx::error
inline std::pair<std::string, std::string_view> parse_assignment(std::string_view text) {
  auto const at = text.rfind('=');
  if (at == std::string_view::npos || at == 0) throw detail::bad_onnx_option(text, "expected NAME=VALUE");
  return {std::string(text.substr(0, at)), text.substr(at + 1)};
}

/// Parses a dimension, a number from 0. \throws onnx::error
inline std::int64_t parse_dimension(std::string_view text) {
  std::int64_t n = -1;
  auto const [end, fault] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (fault != std::errc() || end != text.data() + text.size() || n < 0)
    throw detail::bad_onnx_option(text, "expected a dimension, a whole number of 0 or more");
  return n;
}

/// Parses a shape: `1x3x224x224`, with `?` for an unknown dimension, or `scalar`. An element type may precede
/// it, for values whose type cannot be inferred: `float16:8x?`. \throws onnx::error
inline onnx::shape parse_shape(std::string_view text) {
  onnx::shape shape;
  if (auto const colon = text.find(':'); colon != std::string_view::npos) {
    for (auto const& e : onnx::element_table)
      if (e.name == text.substr(0, colon)) shape.element = e.type;
    if (shape.element == 0)
      throw detail::bad_onnx_option(text, "unknown element type; use one such as float32 or int64");
    text.remove_prefix(colon + 1);
  }
  if (text == "scalar") return shape;
  for (std::size_t end = 0; end != std::string_view::npos;
       text.remove_prefix(end == std::string_view::npos ? 0 : end + 1)) {
    end = text.find('x');
    auto const one = text.substr(0, end);
    shape.dims.push_back(one == "?" ? -1 : parse_dimension(one));
  }
  return shape;
}

}  // namespace cleave::onnx
