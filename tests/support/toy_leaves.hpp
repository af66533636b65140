// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "support/toy_operators.hpp"

namespace cleave::testing {

/// Values of a tape as the leaves of a batch, which is divided into microbatches.
struct tape_leaves {
  std::optional<std::size_t> axes(tape_value const& v) const {
    if (v.what != tape_value::kind::tensor) return std::nullopt;
    return v.get().shape.size();
  }
  std::int64_t extent(tape_value const& v, std::size_t axis) const {
    return static_cast<std::int64_t>(v.get().shape.at(axis));
  }

  tape_value slice(tape_value const& v, std::size_t axis, std::int64_t first, std::int64_t last) const {
    auto shape = v.get().shape;
    shape.at(axis) = static_cast<std::size_t>(last - first);
    return moved(v, axis, shape, static_cast<std::size_t>(first), 0, tensor::filled(shape, 0));
  }

  tape_value concatenated(std::span<tape_value const* const> list, std::size_t axis) const {
    auto shape = list[0]->get().shape;
    shape.at(axis) = 0;
    for (auto const* v : list) shape[axis] += v->get().shape.at(axis);
    auto made = constant_of(tensor::filled(shape, 0));
    std::size_t at = 0;
    for (auto const* v : list) {
      made = moved(*v, axis, v->get().shape, 0, at, made.get());
      at += v->get().shape[axis];
    }
    return made;
  }
  tape_value stacked(std::span<tape_value const* const> list) const {
    tensor made{{list.size()}, {}};
    for (auto const* v : list) made.data.push_back(v->get().data[0]);
    return constant_of(std::move(made));
  }
  bool equal(tape_value const& x, tape_value const& y) const {
    if (x.what != y.what) return false;
    return x.what == tape_value::kind::tensor ? x.get() == y.get() : x.text == y.text;
  }

 private:
  /// `to` with the block of `v` of shape `block` that begins at `from` put where `at` is, along `axis`.
  static tape_value moved(tape_value const& v, std::size_t axis, tensor_shape const& block, std::size_t from,
                          std::size_t at, tensor to) {
    std::size_t inner = 1;
    for (auto i = axis + 1; i < block.size(); ++i) inner *= block[i];
    auto const length = block[axis] * inner;
    auto const wide = v.get().shape[axis] * inner, wide_to = to.shape[axis] * inner;
    for (std::size_t i = 0; wide > 0 && length > 0 && i < v.get().data.size() / wide; ++i)
      std::copy_n(v.get().data.begin() + static_cast<std::ptrdiff_t>(i * wide + from * inner), length,
                  to.data.begin() + static_cast<std::ptrdiff_t>(i * wide_to + at * inner));
    return constant_of(std::move(to));
  }
};

}  // namespace cleave::testing
