// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"

namespace cleave::inline v0_2 {

/// Thrown if a graph has more nodes, values or operands than the index type can number. Functions that take a
/// graph accept a wider type: `balance<std::uint64_t>(graph, k)`.
class index_overflow : public error {
 public:
  explicit index_overflow(int bits)
      : error("the graph has too many nodes, values or operands for indices of " + std::to_string(bits) +
              " bits: use a wider type, as in snapshot_of<std::uint64_t>(graph) or "
              "balance<std::uint64_t>(graph, k)") {}
};

/// The index that names nothing.
template <std::unsigned_integral Index>
inline constexpr Index none = static_cast<Index>(-1);

/// Returns `n` as an index.
/// \throws index_overflow if `n` is not below `none`
template <std::unsigned_integral Index>
constexpr Index narrow(std::size_t n) {
  if (n >= none<Index>) detail::raise(index_overflow(std::numeric_limits<Index>::digits));
  return static_cast<Index>(n);
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Lists of different lengths in two arrays (compressed sparse rows). A table without rows stands for an
/// ability that the graph lacks: each of its lists reads as empty.
template <std::unsigned_integral Index, class Item = Index>
struct csr {
  std::vector<Index> first{0};  ///< where list i begins in `item`; one more entry than there are lists
  std::vector<Item> item;       ///< the entries of all lists, one list after the other

  std::size_t rows() const { return first.size() - 1; }
  std::span<Item const> operator[](std::size_t i) const {
    if (first.size() == 1) [[unlikely]]
      return {};
    return {item.data() + first[i], item.data() + first[i + 1]};
  }
  void add(Item const& x) { item.push_back(x); }  ///< appends to the list that is being written
  void close() { first.push_back(narrow<Index>(item.size())); }  ///< ends that list
};

/// Returns, for each item below `items`, the rows of `table` that list it, ascending, each row once. O(items
/// + table).
template <std::unsigned_integral Index>
csr<Index> users_of(csr<Index> const& table, std::size_t items) {
  csr<Index> users;
  std::vector<Index> last;
  auto const each_use = [&](auto f) {
    last.assign(items, none<Index>);
    for (std::size_t row = 0; row < table.rows(); ++row)
      for (Index const i : table[row])
        if (std::exchange(last[i], static_cast<Index>(row)) != row) f(i, static_cast<Index>(row));
  };
  users.first.assign(items + 1, 0);  // pass 1 counts the users, pass 2 lists them
  each_use([&](Index i, Index) { ++users.first[i + std::size_t{1}]; });
  for (std::size_t i = 0; i < items; ++i) users.first[i + 1] += users.first[i];
  users.item.resize(users.first.back());
  each_use([&, next = users.first](Index i, Index row) mutable { users.item[next[i]++] = row; });
  return users;
}

}  // namespace cleave::detail
