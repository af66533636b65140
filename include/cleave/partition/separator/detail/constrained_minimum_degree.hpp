// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/partition/separator/detail/plain_graph.hpp"

namespace cleave::inline v0_2::detail {

/// Orders a graph by approximate minimum degree within given blocks: all nodes of a block come before those
/// of the next. Nodes of later blocks count in the degrees, so the order in a block respects its border.
///
/// The quotient graph holds a variable for each set of nodes with equal neighbours, and an element for each
/// eliminated variable. Amestoy, Davis, Duff, SIMAX 17(4), 1996.
class constrained_minimum_degree {
 public:
  /// `block_of` gives the block of each node. Blocks are eliminated in increasing order.
  constrained_minimum_degree(plain_graph const& g, std::vector<std::uint32_t> const& block_of)
      : nodes_(g.nodes()),
        block_of_(block_of),
        begin_(g.offsets.begin(), g.offsets.end() - 1),
        length_(nodes_),
        elements_(nodes_, 0),
        kind_(nodes_, kind::variable),
        size_(nodes_, 1),
        degree_(nodes_),
        mark_(nodes_, 0),
        next_(nodes_, none),
        previous_(nodes_, none),
        bucket_(nodes_, none),
        next_in_chain_(nodes_, none),
        last_in_chain_(nodes_),
        head_(nodes_, none),
        hash_head_(nodes_, none),
        hash_next_(nodes_, none),
        hash_(nodes_, 0) {
    work_.reserve(g.targets.size() + g.targets.size() / 4 + nodes_);
    work_.assign(g.targets.begin(), g.targets.end());
    for (std::uint32_t n = 0; n < nodes_; ++n) {
      length_[n] = degree_[n] = g.degree(n);
      last_in_chain_[n] = n;
    }
  }

  /// Returns the nodes in the order of elimination.
  std::vector<std::uint32_t> order() {
    std::vector<std::uint32_t> by_block(nodes_);
    for (std::uint32_t n = 0; n < nodes_; ++n) by_block[n] = n;
    std::sort(by_block.begin(), by_block.end(), [&](std::uint32_t a, std::uint32_t b) {
      return block_of_[a] != block_of_[b] ? block_of_[a] < block_of_[b] : a < b;
    });
    order_.reserve(nodes_);
    for (std::size_t i = 0; i < by_block.size();) {
      block_ = block_of_[by_block[i]];
      lowest_ = nodes_;
      auto end = i;
      while (end < by_block.size() && block_of_[by_block[end]] == block_) ++end;
      // Among equal degrees, the node inserted last comes first.
      for (auto at = end; at-- > i;)
        if (auto const n = by_block[at]; is_alive(n)) insert(n);
      i = end;
      for (auto n = lowest(); n != none; n = lowest()) eliminate(n);
    }
    return std::move(order_);
  }

 private:
  enum class kind : std::uint8_t { variable, element, gone };
  static constexpr std::uint32_t none = 0xffffffff;

  bool is_alive(std::uint32_t n) const { return kind_[n] == kind::variable; }

  // Lists of the variables of the current block, by degree.

  void insert(std::uint32_t n) {
    auto const d = degree_[n];
    bucket_[n] = d;
    previous_[n] = none;
    next_[n] = head_[d];
    if (head_[d] != none) previous_[head_[d]] = n;
    head_[d] = n;
    lowest_ = (std::min)(lowest_, d);
  }
  void remove(std::uint32_t n) {
    if (bucket_[n] == none) return;
    if (next_[n] != none) previous_[next_[n]] = previous_[n];
    if (previous_[n] != none)
      next_[previous_[n]] = next_[n];
    else
      head_[bucket_[n]] = next_[n];
    bucket_[n] = none;
  }
  std::uint32_t lowest() {
    while (lowest_ < nodes_ && head_[lowest_] == none) ++lowest_;
    return lowest_ < nodes_ ? head_[lowest_] : none;
  }

  void append_chain(std::uint32_t to, std::uint32_t n) {
    next_in_chain_[last_in_chain_[to]] = n;
    last_in_chain_[to] = last_in_chain_[n];
  }

  void eliminate(std::uint32_t p) {
    remove(p);
    collect(p);
    count_outside(p);
    update_degrees(p);
    merge_equal(p);
    eliminated_ += size_[p];
    for (auto n = p; n != none; n = next_in_chain_[n]) order_.push_back(n);
    close(p);
  }

  /// Makes the list of the new element: the variables next to `p`, directly or through elements, which it
  /// absorbs. They are marked.
  void collect(std::uint32_t p) {
    std::size_t most = length_[p] - elements_[p];
    for (std::uint32_t i = 0; i < elements_[p]; ++i) most += length_[work_[begin_[p] + i]];
    reserve(most, p);
    auto const first = work_.size();
    ++stamp_;
    mark_in_[p] = stamp_;
    std::uint32_t reach = 0;
    auto const take = [&](std::size_t from, std::size_t end) {
      for (auto at = from; at < end; ++at) {
        auto const n = work_[at];
        if (kind_[n] != kind::variable || mark_in_[n] == stamp_) continue;
        mark_in_[n] = stamp_;
        reach += size_[n];
        work_.push_back(n);
        remove(n);
      }
    };
    std::size_t const own = begin_[p], own_elements = elements_[p], own_length = length_[p];
    for (std::size_t i = 0; i < own_elements; ++i) {
      auto const e = work_[own + i];
      if (kind_[e] != kind::element) continue;
      take(begin_[e], begin_[e] + length_[e]);
      kind_[e] = kind::gone;
    }
    take(own + own_elements, own + own_length);
    kind_[p] = kind::element;
    elements_[p] = 0;
    begin_[p] = first;
    length_[p] = static_cast<std::uint32_t>(work_.size() - first);
    reach_ = reach;
  }

  /// Computes for each element next to the new one the size of its part outside the new one.
  void count_outside(std::uint32_t p) {
    base_ = top_ + 1;
    for (std::size_t at = begin_[p]; at < begin_[p] + length_[p]; ++at) {
      auto const n = work_[at];
      for (std::size_t i = begin_[n]; i < begin_[n] + elements_[n]; ++i) {
        auto const e = work_[i];
        if (kind_[e] != kind::element) continue;
        if (mark_[e] < base_) mark_[e] = base_ + degree_[e];
        mark_[e] -= size_[n];
      }
    }
    top_ = base_ + nodes_;
  }

  /// Updates lists and degrees of the variables next to the new element. Those with no other neighbours are
  /// eliminated with it.
  void update_degrees(std::uint32_t p) {
    for (std::size_t at = begin_[p]; at < begin_[p] + length_[p]; ++at) {
      auto const n = work_[at];
      auto const first = begin_[n];
      auto const first_variable = first + elements_[n], end = first + length_[n];
      auto to = first;
      std::uint64_t degree = 0, hash = 0;
      for (auto i = first; i < first_variable; ++i) {
        auto const e = work_[i];
        if (kind_[e] != kind::element) continue;
        auto const outside = mark_[e] - base_;
        if (outside == 0) {
          kind_[e] = kind::gone;  // its variables are all in the new element
          continue;
        }
        degree += outside;
        hash += e;
        work_[to++] = e;
      }
      auto const kept_elements = to - first;
      auto const variables_begin = to;
      for (auto i = first_variable; i < end; ++i) {
        auto const v = work_[i];
        if (kind_[v] != kind::variable || mark_in_[v] == stamp_) continue;
        degree += size_[v];
        hash += v;
        work_[to++] = v;
      }
      if (degree == 0 && block_of_[n] == block_) {
        size_[p] += size_[n];
        reach_ -= size_[n];
        kind_[n] = kind::gone;
        append_chain(p, n);
        continue;
      }
      degree_[n] = static_cast<std::uint32_t>((std::min)(std::uint64_t{degree_[n]}, degree));
      // The new element becomes the first of the list. At least one entry was removed from it.
      if (to > variables_begin) work_[to] = work_[variables_begin];
      if (kept_elements > 0) work_[variables_begin] = work_[first];
      work_[first] = p;
      elements_[n] = static_cast<std::uint32_t>(kept_elements + 1);
      length_[n] = static_cast<std::uint32_t>(to + 1 - first);
      hash_[n] = static_cast<std::uint32_t>((hash + p) % nodes_);
      hash_next_[n] = hash_head_[hash_[n]];
      hash_head_[hash_[n]] = n;
    }
  }

  /// Merges variables of one block that have equal neighbours.
  void merge_equal(std::uint32_t p) {
    for (std::size_t at = begin_[p]; at < begin_[p] + length_[p]; ++at) {
      if (!is_alive(work_[at])) continue;
      auto n = std::exchange(hash_head_[hash_[work_[at]]], none);
      for (; n != none && hash_next_[n] != none; n = hash_next_[n]) {
        base_ = top_ + 1;
        top_ = base_;
        for (std::size_t i = begin_[n] + 1; i < begin_[n] + length_[n]; ++i) mark_[work_[i]] = base_;
        auto before = n;
        for (auto other = hash_next_[n]; other != none; other = hash_next_[other]) {
          bool equal = length_[other] == length_[n] && elements_[other] == elements_[n] &&
                       block_of_[other] == block_of_[n];
          for (std::size_t i = begin_[other] + 1; equal && i < begin_[other] + length_[other]; ++i)
            equal = mark_[work_[i]] == base_;
          if (equal) {
            size_[n] += size_[other];
            kind_[other] = kind::gone;
            append_chain(n, other);
            hash_next_[before] = hash_next_[other];
          } else {
            before = other;
          }
        }
      }
    }
  }

  /// Completes degrees, and stores the list of the new element without variables that are gone.
  void close(std::uint32_t p) {
    auto to = begin_[p];
    for (std::size_t at = begin_[p]; at < begin_[p] + length_[p]; ++at) {
      auto const n = work_[at];
      if (!is_alive(n)) continue;
      auto const bound = std::uint64_t{nodes_} - eliminated_ - size_[n];
      auto const degree = std::uint64_t{degree_[n]} + reach_ - size_[n];
      degree_[n] = static_cast<std::uint32_t>((std::min)(degree, bound));
      if (block_of_[n] == block_) insert(n);
      work_[to++] = n;
    }
    length_[p] = static_cast<std::uint32_t>(to - begin_[p]);
    work_.resize(to);
    degree_[p] = reach_;
    if (length_[p] == 0) kind_[p] = kind::gone;
  }

  /// Makes room for `more` entries: moves all lists to the front, and grows the array if that is not enough.
  void reserve(std::size_t more, std::uint32_t p) {
    if (work_.size() + more <= work_.capacity()) return;
    std::vector<std::pair<std::size_t, std::uint32_t>> lists;
    for (std::uint32_t n = 0; n < nodes_; ++n)
      if (n == p || kind_[n] != kind::gone) lists.emplace_back(begin_[n], n);
    std::sort(lists.begin(), lists.end());
    std::size_t to = 0;
    for (auto const& [from, n] : lists) {
      begin_[n] = to;
      for (std::size_t i = 0; i < length_[n]; ++i) work_[to++] = work_[from + i];
    }
    work_.resize(to);
    if (to + more > work_.capacity() - work_.capacity() / 8)
      work_.reserve((std::max)(to + more, work_.capacity() + work_.capacity() / 2));
  }

  std::uint32_t nodes_;
  std::vector<std::uint32_t> const& block_of_;
  std::vector<std::uint32_t> work_;      // the lists of all variables and elements
  std::vector<std::size_t> begin_;       // of each list
  std::vector<std::uint32_t> length_;    // of each list
  std::vector<std::uint32_t> elements_;  // number of elements, which begin the list of a variable
  std::vector<kind> kind_;
  std::vector<std::uint32_t> size_;    // nodes of a variable
  std::vector<std::uint32_t> degree_;  // of a variable, or nodes in the list of an element
  std::vector<std::uint64_t> mark_;
  std::vector<std::uint32_t> next_, previous_, bucket_;                         // lists by degree
  std::vector<std::uint32_t> next_in_chain_, last_in_chain_;                    // nodes of a variable
  std::vector<std::uint32_t> head_;                                             // first variable of a degree
  std::vector<std::uint32_t> hash_head_, hash_next_, hash_;                     // variables with equal hash
  std::vector<std::uint32_t> mark_in_ = std::vector<std::uint32_t>(nodes_, 0);  // in the new element
  std::vector<std::uint32_t> order_;
  std::uint64_t base_ = 0, top_ = 0;
  std::uint32_t stamp_ = 0, block_ = 0, lowest_ = 0, reach_ = 0;
  std::uint64_t eliminated_ = 0;
};

}  // namespace cleave::detail
