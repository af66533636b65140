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

/// Memory that stages read and write, as plain data: none of these owns anything.
namespace cleave {

enum class element_type : std::uint8_t { f32, f64, f16, bf16, i64, i32, i16, i8, u8, boolean };

}  // namespace cleave

namespace cleave::detail {

inline constexpr std::array<std::string_view, 10> element_names = {"f32", "f64", "f16", "bf16", "i64",
                                                                   "i32", "i16", "i8",  "u8",   "bool"};

}  // namespace cleave::detail

namespace cleave {

/// `f32`.
constexpr std::string_view name_of(element_type t) {
  return detail::element_names[static_cast<std::size_t>(t)];
}

}  // namespace cleave

namespace cleave::detail {

/// The type of that name, or nothing.
constexpr std::optional<element_type> find_element_type(std::string_view name) {
  for (std::size_t t = 0; t < element_names.size(); ++t)
    if (element_names[t] == name) return static_cast<element_type>(t);
  return std::nullopt;
}

/// In bytes.
constexpr std::size_t size_of(element_type t) {
  constexpr std::array<std::size_t, 10> sizes = {4, 8, 2, 2, 8, 4, 2, 1, 1, 1};
  return sizes[static_cast<std::size_t>(t)];
}

}  // namespace cleave::detail

namespace cleave {

/// Whether gradients can be of this type.
constexpr bool is_floating(element_type t) { return t <= element_type::bf16; }

}  // namespace cleave

namespace cleave::detail {

inline constexpr std::size_t most_axes = 8;

}  // namespace cleave::detail

namespace cleave {

/// How many elements there are along each axis.
struct tensor_shape {
  std::uint32_t axes = 0;
  std::array<std::int64_t, detail::most_axes> extents = {};  ///< those from `axes` on are 0

  constexpr tensor_shape() = default;
  /// Precondition: `most_axes` extents at most, none below 0.
  constexpr explicit(false) tensor_shape(std::span<std::int64_t const> of)
      : axes(static_cast<std::uint32_t>(of.size())) {
    expects(of.size() <= detail::most_axes, "tensor_shape: as many axes as a shape can have");
    std::ranges::copy(of, extents.begin());
  }
  constexpr tensor_shape(std::initializer_list<std::int64_t> of)
      : tensor_shape(std::span(of.begin(), of.size())) {}

  constexpr std::span<std::int64_t const> list() const { return std::span(extents).first(axes); }
  /// Of all elements; nothing beyond 2^63 - 1.
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

/// Elements in a row, at an address that is a multiple of the size of one.
struct region {
  void* data = nullptr;
  std::size_t count = 0;
  element_type type = element_type::u8;

  constexpr std::size_t bytes() const { return count * detail::size_of(type); }
  bool operator==(region const&) const = default;
};

/// A tensor in row-major order. Without `data` there is none: a gradient that nobody gives, or wants.
struct tensor_view {
  void* data = nullptr;
  element_type type = element_type::f32;
  tensor_shape shape = {};

  /// Precondition: the shape has a count.
  constexpr region elements() const { return {data, static_cast<std::size_t>(*shape.count()), type}; }
  bool operator==(tensor_view const&) const = default;
};

}  // namespace cleave
