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

namespace cleave::onnx {

/// A shape that the user gives.
struct shape {
  int element = 0;  ///< `onnx::TensorProto::DataType`; 0: as inferred, float32 where nothing is
  std::vector<std::int64_t> dims{};  ///< -1: unknown

  bool operator==(onnx::shape const&) const = default;
};

/// Where libonnx's shape inference runs. It crashes on some models that break an operator's rules (a
/// ConvTranspose whose weight has rank 1, a Split without results) and does not end on others.
enum class inference : std::uint8_t {
  own_process,   ///< in a copy of the process (fork), which is all that a crash takes down
  same_process,  ///< for models that are trusted, or where nothing may fork
};

/// What the user knows and the file does not say.
struct type_options {
  std::map<std::string, std::int64_t> dims{};   ///< a symbolic dimension's size
  std::map<std::string, onnx::shape> shapes{};  ///< a value's shape
  onnx::inference inference = onnx::inference::own_process;
};

struct element {
  std::string_view name;
  int type;           ///< `onnx::TensorProto::DataType`
  std::size_t bytes;  ///< 0: varies
};

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

/// Bytes of one element of a tensor; 0 where that varies (strings) or is not known.
constexpr std::size_t element_size(int type) {
  for (auto const& e : onnx::element_table)
    if (e.type == type) return e.bytes;
  return 0;
}

/// The elements of a tensor of this type, where all its dimensions are known; a double, which no file
/// overflows.
inline std::optional<double> elements(::onnx::TypeProto const* type) {
  if (type == nullptr || !type->has_tensor_type() || !type->tensor_type().has_shape()) return std::nullopt;
  double product = 1;
  for (auto const& d : type->tensor_type().shape().dim()) {
    if (!d.has_dim_value() || d.dim_value() < 0) return std::nullopt;  // older exporters write -1 for unknown
    product *= static_cast<double>(d.dim_value());
  }
  return product;
}

/// A type as messages spell it: `float32 1x3x?xwidth`.
inline std::string spelling(::onnx::TypeProto const& type) {
  if (!type.has_tensor_type())
    return type.has_sequence_type() ? "sequence" : type.has_optional_type() ? "optional" : "no tensor";
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
                                                    : d.dim_param();
  }
  return text;
}

}  // namespace cleave::onnx

namespace cleave::detail {

/// The size of a value of this type, or 0 where a dimension or the element type is unknown.
/// \throws onnx::error, naming `value`, if it does not fit.
inline std::size_t onnx_bytes(::onnx::TypeProto const* type, std::string_view value) {
  auto const elements = onnx::elements(type);
  if (!elements || *elements == 0) return 0;
  std::size_t const each = onnx::element_size(type->tensor_type().elem_type());
  std::size_t size = each;
  for (auto const& d : type->tensor_type().shape().dim())
    if (__builtin_mul_overflow(size, static_cast<std::size_t>(d.dim_value()), &size))
      throw onnx::error(
          {onnx::fault_kind::size,
           "value " + quoted(value) + ": its size does not fit in 64 bits (" + onnx::spelling(*type) + ")",
           {std::string(value)}});
  return size;
}

/// The error of an option `text` that cannot be understood. The witness names the text.
inline onnx::error bad_onnx_option(std::string_view text, std::string const& why) {
  return onnx::error({onnx::fault_kind::shape, quoted(text) + ": " + why, {std::string(text)}});
}

}  // namespace cleave::detail

namespace cleave::onnx {

/// The two sides of `NAME=VALUE`; the last `=` parts them, since a name may hold any character.
inline std::pair<std::string, std::string_view> parse_assignment(std::string_view text) {
  auto const at = text.rfind('=');
  if (at == std::string_view::npos || at == 0) throw detail::bad_onnx_option(text, "expected NAME=VALUE");
  return {std::string(text.substr(0, at)), text.substr(at + 1)};
}

/// A dimension: a number from 0.
inline std::int64_t parse_dimension(std::string_view text) {
  std::int64_t n = -1;
  auto const [end, fault] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (fault != std::errc() || end != text.data() + text.size() || n < 0)
    throw detail::bad_onnx_option(text, "a dimension is a number from 0");
  return n;
}

/// A shape: `1x3x224x224`, `?` for an unknown dimension, `scalar`; with an element type before it where
/// inference finds none: `float16:8x?`.
inline onnx::shape parse_shape(std::string_view text) {
  onnx::shape shape;
  if (auto const colon = text.find(':'); colon != std::string_view::npos) {
    for (auto const& e : onnx::element_table)
      if (e.name == text.substr(0, colon)) shape.element = e.type;
    if (shape.element == 0) throw detail::bad_onnx_option(text, "no such element type (float32, int64, …)");
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
