// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "cleave/core/language.hpp"

/// What dividing and merging batches must know of the leaves of nested values, which are the user's: tensors,
/// numbers, texts, nothing, whatever a step is given. An adapter has the members; each concept is one
/// ability.
namespace cleave {

/// Leaves that can be divided.
/// - `a.axes(x)`                      how many axes a tensor has; nothing where `x` is no tensor.
/// - `a.extent(x, axis)`              how many rows it has along `axis`, of 0 … axes - 1.
/// - `a.slice(x, axis, first, last)`  its rows first … last - 1 along `axis`, all else as it is.
template <class Access, class Leaf>
concept sliceable_leaves =
    std::copyable<Leaf> && requires(Access const& a, Leaf const& x, std::size_t axis, std::int64_t row) {
      { a.axes(x) } -> std::same_as<std::optional<std::size_t>>;
      { a.extent(x, axis) } -> std::same_as<std::int64_t>;
      { a.slice(x, axis, row, row) } -> std::same_as<Leaf>;
    };

/// Leaves that can be made zero outside some rows, which keeps their shape.
/// - `a.masked(x, axis, first, last)`  `x` with zeros but in rows first … last - 1 along `axis`.
template <class Access, class Leaf>
concept maskable_leaves = sliceable_leaves<Access, Leaf> &&
                          requires(Access const& a, Leaf const& x, std::size_t axis, std::int64_t row) {
                            { a.masked(x, axis, row, row) } -> std::same_as<Leaf>;
                          };

/// Leaves that can be put together again. The lists are never empty.
/// - `a.concatenated(list, axis)`  tensors one behind the other along `axis`; all else in their shapes
/// agrees.
/// - `a.stacked(list)`             tensors without axes as one tensor with one axis.
/// - `a.equal(x, y)`               whether two leaves, tensors or not, are the same value.
template <class Access, class Leaf>
concept mergeable_leaves =
    sliceable_leaves<Access, Leaf> &&
    requires(Access const& a, Leaf const& x, std::span<Leaf const* const> list, std::size_t axis) {
      { a.concatenated(list, axis) } -> std::same_as<Leaf>;
      { a.stacked(list) } -> std::same_as<Leaf>;
      { a.equal(x, x) } -> std::same_as<bool>;
    };
}  // namespace cleave
