// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

#include "cleave/core/expects.hpp"

/// Non-owning views of the memory that stages read and write.
namespace cleave::inline v0_2 {

/// The type of the elements of a tensor; a `boolean` takes one byte.
enum class element_type : std::uint8_t { f32, f64, f16, bf16, i64, i32, i16, i8, u8, boolean };

}  // namespace cleave

namespace cleave::inline v0_2::detail {

inline constexpr std::array<std::string_view, 10> element_names = {"f32", "f64", "f16", "bf16", "i64",
                                                                   "i32", "i16", "i8",  "u8",   "bool"};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the name of an element type, such as `f32`.
constexpr std::string_view name_of(element_type t) {
  return detail::element_names[static_cast<std::size_t>(t)];
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the element type with that name, or nothing.
constexpr std::optional<element_type> find_element_type(std::string_view name) {
  for (std::size_t t = 0; t < element_names.size(); ++t)
    if (element_names[t] == name) return static_cast<element_type>(t);
  return std::nullopt;
}

/// Returns the size of an element in bytes.
constexpr std::size_t size_of(element_type t) {
  constexpr std::array<std::size_t, 10> sizes = {4, 8, 2, 2, 8, 4, 2, 1, 1, 1};
  return sizes[static_cast<std::size_t>(t)];
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns true if `t` is a floating-point type; only these can have gradients.
constexpr bool is_floating(element_type t) { return t <= element_type::bf16; }

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Maximum number of axes of a tensor.
inline constexpr std::size_t most_axes = 8;

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// The number of elements along each axis.
struct tensor_shape {
  std::uint32_t axes = 0;
  std::array<std::int64_t, detail::most_axes> extents = {};  ///< 0 from position `axes` on

  constexpr tensor_shape() = default;
  /// Precondition: at most `most_axes` extents, none negative.
  constexpr explicit(false) tensor_shape(std::span<std::int64_t const> of)
      : axes(static_cast<std::uint32_t>(of.size())) {
    expects(of.size() <= detail::most_axes, "tensor_shape: at most 8 axes");
    std::ranges::copy(of, extents.begin());
  }
  constexpr tensor_shape(std::initializer_list<std::int64_t> of)
      : tensor_shape(std::span(of.begin(), of.size())) {}

  constexpr std::span<std::int64_t const> list() const { return std::span(extents).first(axes); }
  /// Returns the total number of elements, or nothing if it exceeds 2^63 - 1.
  constexpr std::optional<std::int64_t> count() const {
    std::int64_t all = 1;
    for (auto const n : list()) {
      if (n < 0 || (n > 0 && all > (std::numeric_limits<std::int64_t>::max)() / n)) return std::nullopt;
      all *= n;
    }
    return all;
  }

  bool operator==(tensor_shape const&) const = default;
};

/// Contiguous elements, aligned to the element size.
struct region {
  void* data = nullptr;
  std::size_t count = 0;
  element_type type = element_type::u8;

  constexpr std::size_t bytes() const { return count * detail::size_of(type); }
  bool operator==(region const&) const = default;
};

/// A tensor in row-major order. A null `data` means that there is no tensor, for example a gradient that does
/// not arrive or is not wanted.
struct tensor_view {
  void* data = nullptr;
  element_type type = element_type::f32;
  tensor_shape shape = {};

  /// Returns all elements as one region. Precondition: `shape.count()` has a value.
  constexpr region elements() const { return {data, static_cast<std::size_t>(*shape.count()), type}; }
  bool operator==(tensor_view const&) const = default;
};

}  // namespace cleave
