// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/core/language.hpp"

namespace cleave::inline v0_2::detail {

/// Sentinel for no node.
inline constexpr std::uint32_t no_node = 0xffffffff;

/// Gain buckets: doubly linked lists of nodes by gain, LIFO within a bucket. Insertion and removal take O(1).
/// Fiduccia and Mattheyses, DAC 1982, section 3. If the range of gains exceeds the number of lists, a list
/// holds a range of gains.
class gain_bucket_lists {
 public:
  /// For nodes with ids below `nodes` and gains of at most `most` in absolute value.
  gain_bucket_lists(std::size_t nodes, std::int64_t most) : next_(nodes, no_node), before_(nodes, no_node) {
    auto const lists = static_cast<std::int64_t>(std::min<std::size_t>(4 * nodes + 16, 1 << 16));
    while (most >> shift_ > lists) ++shift_;
    middle_ = most >> shift_;
    first_.assign(2 * static_cast<std::size_t>(middle_) + 2, no_node);
    list_of_.assign(nodes, nowhere);
  }

  bool has(std::uint32_t n) const { return list_of_[n] != nowhere; }

  void insert(std::uint32_t n, std::int64_t gain) {
    auto const list = static_cast<std::size_t>((gain >> shift_) + middle_ + 1);
    list_of_[n] = static_cast<std::uint32_t>(list);
    next_[n] = first_[list];
    before_[n] = no_node;
    if (next_[n] != no_node) before_[next_[n]] = n;
    first_[list] = n;
    top_ = (std::max)(top_, list);
  }

  void erase(std::uint32_t n) {
    (before_[n] != no_node ? next_[before_[n]] : first_[list_of_[n]]) = next_[n];
    if (next_[n] != no_node) before_[next_[n]] = before_[n];
    list_of_[n] = nowhere;
  }

  void clear() {
    std::ranges::fill(first_, no_node);
    std::ranges::fill(list_of_, nowhere);
    top_ = 0;
  }

  /// Returns the first node in order of decreasing gain that `accepts(n)`, or `no_node`. Examines at most
  /// `tries` nodes.
  template <class F>
  std::uint32_t first_accepted(std::size_t tries, F accepts) {
    while (top_ > 0 && first_[top_] == no_node) --top_;
    for (auto list = top_ + 1; list-- > 0;)
      for (auto n = first_[list]; n != no_node; n = next_[n]) {
        if (accepts(n)) return n;
        if (--tries == 0) return no_node;
      }
    return no_node;
  }

 private:
  static constexpr std::uint32_t nowhere = 0xffffffff;
  int shift_ = 0;
  std::int64_t middle_ = 0;
  std::size_t top_ = 0;  // all lists above it are empty
  std::vector<std::uint32_t> first_;
  std::vector<std::uint32_t> next_, before_, list_of_;
};

}  // namespace cleave::detail
