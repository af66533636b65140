// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/core/fixed_point.hpp"

namespace cleave::detail {

/// The least load over the slices that begin at any of some places, while their common end moves: a cost that
/// occurs at a place is paid by the slices that begin there or before. A tree of (sum, least) pairs; places
/// are closed until they are opened.
class least_load {
 public:
  /// `places` closed places without costs. O(places).
  void reset(std::size_t places) {
    leaves_ = std::bit_ceil(std::max<std::size_t>(places, 1));
    tree_.assign(2 * leaves_, {0, unreachable_load});
  }
  /// Adds a cost, opens or closes a place without bringing the tree up to date: `rebuild` does that.
  void add_later(std::size_t place, std::int64_t cost) { tree_[leaves_ + place].sum += cost; }
  void open_later(std::size_t place) { tree_[leaves_ + place].least = 0; }

  /// O(places).
  void rebuild() {
    for (std::size_t i = leaves_; i < 2 * leaves_; ++i)
      if (tree_[i].least != unreachable_load) tree_[i].least = tree_[i].sum;
    for (std::size_t i = leaves_; --i > 0;) tree_[i] = joined(tree_[2 * i], tree_[2 * i + 1]);
  }

  /// O(log places) each.
  void add(std::size_t place, std::int64_t cost) {
    auto& leaf = tree_[leaves_ + place];
    leaf.sum += cost;
    if (leaf.least != unreachable_load) leaf.least += cost;
    update(place);
  }
  void open(std::size_t place) {
    tree_[leaves_ + place].least = tree_[leaves_ + place].sum;
    update(place);
  }
  void close(std::size_t place) {
    tree_[leaves_ + place].least = unreachable_load;
    update(place);
  }

  /// The least load, or, if no place is open, more than half of `unreachable_load`, which no sum of costs
  /// reaches.
  std::int64_t least() const { return tree_[1].least; }

 private:
  struct range {
    std::int64_t sum, least;  // of all costs; of those from an open place on
  };
  static range joined(range const& left, range const& right) {
    return {left.sum + right.sum, (std::min)(right.least, right.sum + left.least)};
  }
  void update(std::size_t place) {
    for (std::size_t i = (leaves_ + place) / 2; i > 0; i /= 2)
      tree_[i] = joined(tree_[2 * i], tree_[2 * i + 1]);
  }

  std::size_t leaves_ = 1;
  std::vector<range> tree_ = std::vector<range>(2, {0, unreachable_load});
};

}  // namespace cleave::detail
