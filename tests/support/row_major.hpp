// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <variant>
#include <vector>

namespace cleave::testing {

/// Operations on leaves that are a variant of `Tensor` (with `shape` and row-major `data`) and other types.
/// Models the concepts of `run/batch/split_batch.hpp`.
template <class Leaf, class Tensor>
struct row_major_access {
  using element = typename decltype(Tensor::data)::value_type;
  using size = typename decltype(Tensor::shape)::value_type;

  std::optional<std::size_t> axes(Leaf const& x) const {
    auto const* t = std::get_if<Tensor>(&x);
    return t ? std::optional(t->shape.size()) : std::nullopt;
  }
  std::int64_t extent(Leaf const& x, std::size_t axis) const {
    return static_cast<std::int64_t>(std::get<Tensor>(x).shape[axis]);
  }
  Leaf slice(Leaf const& x, std::size_t axis, std::int64_t first, std::int64_t last) const {
    auto const& t = std::get<Tensor>(x);
    Tensor part{t.shape, {}};
    part.shape[axis] = static_cast<size>(last - first);
    each_row(t, axis, [&](std::int64_t row, std::span<element const> elements) {
      if (row >= first && row < last) std::ranges::copy(elements, std::back_inserter(part.data));
    });
    return part;
  }
  Leaf masked(Leaf const& x, std::size_t axis, std::int64_t first, std::int64_t last) const {
    auto const& t = std::get<Tensor>(x);
    Tensor part{t.shape, {}};
    each_row(t, axis, [&](std::int64_t row, std::span<element const> elements) {
      for (auto const& e : elements) part.data.push_back(row >= first && row < last ? e : zero_like(e));
    });
    return part;
  }
  Leaf concatenated(std::span<Leaf const* const> list, std::size_t axis) const {
    auto const& first = std::get<Tensor>(*list[0]);
    Tensor whole{first.shape, {}};
    whole.shape[axis] = 0;
    for (auto const* x : list) whole.shape[axis] += std::get<Tensor>(*x).shape[axis];
    std::size_t outer = 1;
    for (std::size_t a = 0; a < axis; ++a) outer *= static_cast<std::size_t>(first.shape[a]);
    for (std::size_t o = 0; o < outer; ++o)
      for (auto const* x : list) {
        auto const& data = std::get<Tensor>(*x).data;
        auto const part = std::span(data).subspan(o * (data.size() / outer), data.size() / outer);
        std::ranges::copy(part, std::back_inserter(whole.data));
      }
    return whole;
  }
  Leaf stacked(std::span<Leaf const* const> list) const {
    Tensor whole{{}, {}};
    whole.shape.push_back(static_cast<size>(list.size()));
    for (auto const* x : list) whole.data.push_back(std::get<Tensor>(*x).data.at(0));
    return whole;
  }
  bool equal(Leaf const& x, Leaf const& y) const { return x == y; }

 private:
  /// Returns zero of the same kind of number as `e`, an integer or a real.
  static element zero_like(element const& e) {
    if constexpr (requires { e.is_number_float(); })
      return e.is_number_float() ? element(0.0) : element(0);
    else
      return element(0);
  }

  /// Calls `f(row, elements)` for each run of elements of one row along `axis`, in data order.
  template <class F>
  static void each_row(Tensor const& t, std::size_t axis, F f) {
    std::size_t inner = 1;
    for (std::size_t a = axis + 1; a < t.shape.size(); ++a) inner *= static_cast<std::size_t>(t.shape[a]);
    auto const rows = static_cast<std::size_t>(t.shape[axis]);
    for (std::size_t at = 0; at < t.data.size(); at += inner)
      f(static_cast<std::int64_t>(at / inner % rows), std::span(t.data).subspan(at, inner));
  }
};

}  // namespace cleave::testing
