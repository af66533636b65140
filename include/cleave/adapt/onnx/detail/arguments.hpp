// SPDX-License-Identifier: MIT
#pragma once
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/adapt/onnx/detail/flops.hpp"
#include "cleave/adapt/onnx/detail/numbers.hpp"
#include "cleave/core/language.hpp"

namespace cleave::inline v0_2::detail {

/// Returns the whole number in an attribute, or `otherwise` if the node lacks the attribute.
inline std::int64_t onnx_whole_attribute(::onnx::NodeProto const& n, std::string_view name,
                                         std::int64_t otherwise) {
  auto const* a = find_onnx_attribute(n, name);
  return a == nullptr ? otherwise : a->i();
}

/// Returns true if the node has an operand at this place; its name may be empty.
inline bool has_onnx_operand(::onnx::NodeProto const& n, int i) {
  return i < n.input_size() && !n.input(i).empty();
}

/// Returns the axis counted from the front; nothing if there is no such axis.
inline std::optional<std::size_t> onnx_axis(std::int64_t axis, std::size_t rank) {
  auto const r = static_cast<std::int64_t>(rank);
  if (axis < -r || axis >= r) return std::nullopt;
  return static_cast<std::size_t>(axis < 0 ? axis + r : axis);
}

/// Returns for each axis whether the list names it; nothing if an axis does not exist or is named twice.
inline std::optional<std::vector<char>> onnx_axes(std::span<std::int64_t const> axes, std::size_t rank) {
  std::vector<char> is_named(rank);
  for (auto const axis : axes) {
    auto const at = onnx_axis(axis, rank);
    if (!at || std::exchange(is_named[*at], 1) != 0) return std::nullopt;
  }
  return is_named;
}

/// The elements that a Slice takes from one axis.
struct onnx_slice {
  std::int64_t first = 0, count = 0;
};

/// Returns what a Slice takes from an axis of this size. Start and end may lie outside, as in ONNX.
inline onnx_slice onnx_slice_of(std::int64_t size, std::int64_t start, std::int64_t end, std::int64_t step) {
  auto const place = [&](std::int64_t i, std::int64_t least, std::int64_t most) {
    return std::clamp(i < 0 ? i + size : i, least, most);
  };
  if (size <= 0 || step == 0) return {};
  if (step > 0) {
    auto const first = place(start, 0, size), last = place(end, 0, size);
    return {first, first < last ? 1 + (last - 1 - first) / step : 0};
  }
  auto const first = place(start, 0, size - 1), last = place(end, -1, size - 1);
  auto const stride = -(std::max)(step, -onnx_number::highest);
  return {first, first > last ? 1 + (first - last - 1) / stride : 0};
}

/// Returns the numbers of a list whose elements are all known whole numbers.
inline std::optional<std::vector<std::int64_t>> onnx_whole_list(onnx_numbers const* list) {
  if (list == nullptr || list->real()) return std::nullopt;
  std::vector<std::int64_t> whole;
  for (auto const& x : list->data) {
    if (!x.whole()) return std::nullopt;
    whole.push_back(x.low);
  }
  return whole;
}

/// Returns a list of whole numbers from an attribute, or from the operand `i` of later versions. `given` is
/// false if the node has neither.
struct onnx_list_argument {
  bool given = false;
  std::optional<std::vector<std::int64_t>> list{};
};
inline onnx_list_argument onnx_list_of(::onnx::NodeProto const& n, std::string_view attribute, int i,
                                       std::span<onnx_numbers const* const> in) {
  if (auto const* a = find_onnx_attribute(n, attribute))
    return {true, std::vector<std::int64_t>(a->ints().begin(), a->ints().end())};
  if (!has_onnx_operand(n, i)) return {};
  return {true, onnx_whole_list(in[static_cast<std::size_t>(i)])};
}

/// Returns the dimensions of two tensors that are broadcast to each other, if they fit.
inline std::optional<std::vector<std::int64_t>> onnx_broadcast(std::span<std::int64_t const> a,
                                                               std::span<std::int64_t const> b) {
  auto const &longer = a.size() >= b.size() ? a : b, &shorter = a.size() >= b.size() ? b : a;
  std::vector<std::int64_t> dims(longer.begin(), longer.end());
  for (std::size_t i = 0; i < shorter.size(); ++i) {
    auto& d = dims[dims.size() - 1 - i];
    auto const other = shorter[shorter.size() - 1 - i];
    if (d != other && d != 1 && other != 1) return std::nullopt;
    if (d == 1) d = other;
  }
  return dims;
}

}  // namespace cleave::detail
