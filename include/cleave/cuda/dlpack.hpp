// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "cleave/core/error.hpp"
#include "cleave/run/model/tensor_view.hpp"

namespace cleave::inline v0_2::detail {

/// The type of an element in DLPack: the code of its kind (0 signed, 1 unsigned, 2 floating-point, 4 bfloat,
/// 6 boolean) and its number of bits.
struct dlpack_type {
  std::uint8_t code, bits;

  bool operator==(dlpack_type const&) const = default;
};

constexpr dlpack_type dlpack_type_of(element_type t) {
  auto const bits = static_cast<std::uint8_t>(8 * size_of(t));
  switch (t) {
    case element_type::f32:
    case element_type::f64:
    case element_type::f16:
      return {2, bits};
    case element_type::bf16:
      return {4, bits};
    case element_type::u8:
      return {1, bits};
    case element_type::boolean:
      return {6, bits};
    case element_type::i64:
    case element_type::i32:
    case element_type::i16:
    case element_type::i8:
      break;
  }
  return {0, bits};
}

constexpr std::optional<element_type> find_dlpack_type(dlpack_type t) {
  for (std::size_t i = 0; i < element_names.size(); ++i)
    if (dlpack_type_of(static_cast<element_type>(i)) == t) return static_cast<element_type>(i);
  return std::nullopt;
}

/// DLPack's device types of memory that a GPU reads: its own, pinned memory of the host, managed memory.
inline constexpr int dlpack_cuda = 2, dlpack_cuda_host = 3, dlpack_cuda_managed = 13;

}  // namespace cleave::detail

namespace cleave::inline v0_2::cuda {

/// Returns a `DLTensor` of the same memory, for frameworks that read DLPack. `Tensor` is that type; this
/// header includes no header of DLPack. The result points to the shape in `v`, so it is valid as long as `v`
/// and the memory.
template <class Tensor>
Tensor dlpack_of(tensor_view const& v, int gpu) {
  Tensor t{};
  t.data = v.data;
  t.device.device_type = static_cast<decltype(t.device.device_type)>(detail::dlpack_cuda);
  t.device.device_id = gpu;
  t.ndim = static_cast<decltype(t.ndim)>(v.shape.axes);
  auto const type = detail::dlpack_type_of(v.type);
  t.dtype.code = type.code;
  t.dtype.bits = type.bits;
  t.dtype.lanes = 1;
  t.shape = const_cast<std::int64_t*>(v.shape.extents.data());  // DLPack only reads it
  return t;
}

/// Returns a view of the memory of a `DLTensor`.
/// \throws error if it is not in memory of a GPU, not in row-major order, of more than 8 axes, or of a type
///   that views do not have
template <class Tensor>
tensor_view view_of_dlpack(Tensor const& t) {
  auto const refuse = [](std::string const& why) { throw error("DLPack: the tensor " + why); };
  auto const where = static_cast<int>(t.device.device_type);
  if (where != detail::dlpack_cuda && where != detail::dlpack_cuda_host &&
      where != detail::dlpack_cuda_managed)
    refuse("is in memory of device type " + std::to_string(where) +
           ", which a GPU cannot read; move it to a GPU (device type 2) first");
  if (t.ndim < 0 || static_cast<std::size_t>(t.ndim) > detail::most_axes)
    refuse("has " + std::to_string(t.ndim) + " axes, but at most " + std::to_string(detail::most_axes) +
           " are possible; reshape it");
  auto const type = detail::find_dlpack_type(
      {static_cast<std::uint8_t>(t.dtype.code), static_cast<std::uint8_t>(t.dtype.bits)});
  if (!type || t.dtype.lanes != 1)
    refuse("has elements of type code " + std::to_string(t.dtype.code) + " with " +
           std::to_string(t.dtype.bits) + " bits and " + std::to_string(t.dtype.lanes) +
           " lanes, which no element type has; convert it");
  tensor_view const made{static_cast<std::byte*>(t.data) + t.byte_offset, *type,
                         std::span<std::int64_t const>(t.shape, static_cast<std::size_t>(t.ndim))};
  std::int64_t expected = 1;
  bool const any = made.shape.count() != 0;  // without elements, strides mean nothing
  for (auto axis = t.ndim; any && t.strides && axis-- > 0; expected *= t.shape[axis])
    if (t.shape[axis] != 1 && t.strides[axis] != expected)
      refuse("has stride " + std::to_string(t.strides[axis]) + " on axis " + std::to_string(axis) +
             ", where " + std::to_string(expected) + " would be row-major; make it contiguous");
  return made;
}

}  // namespace cleave::cuda
