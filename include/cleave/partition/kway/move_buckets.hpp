// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "cleave/partition/kway/raw_array.hpp"

namespace cleave::detail {

/// Nodes in buckets of like gain, the last put in first out. Gains below 32 have a bucket each, larger ones
/// share one with those within 6 %: so any weights do, and every act is O(1). Fiduccia, Mattheyses, DAC 1982.
class move_buckets {
 public:
  static constexpr std::uint32_t buckets = 2048;

  explicit move_buckets(std::uint32_t nodes)
      : next_(nodes), previous_(nodes), bucket_(raw_array<std::uint16_t>::zeros(nodes)) {
    head_.fill(none);
    used_.fill(0);
  }

  bool empty() const { return size_ == 0; }
  bool contains(std::uint32_t n) const { return bucket_[n] != absent; }

  void put(std::uint32_t n, std::int64_t gain) {
    auto const b = bucket_of(gain);
    if (bucket_[n] == b) return;
    if (bucket_[n] != absent) remove(n);
    bucket_[n] = b;
    next_[n] = head_[b];
    previous_[n] = none;
    if (head_[b] != none) previous_[head_[b]] = n;
    head_[b] = n;
    used_[b >> 6] |= std::uint64_t{1} << (b & 63);
    ++size_;
  }

  void remove(std::uint32_t n) {
    auto const b = bucket_[n];
    if (next_[n] != none) previous_[next_[n]] = previous_[n];
    if (previous_[n] != none)
      next_[previous_[n]] = next_[n];
    else
      head_[b] = next_[n];
    if (head_[b] == none) used_[b >> 6] &= ~(std::uint64_t{1} << (b & 63));
    bucket_[n] = absent;
    --size_;
  }

  /// Of the highest gain. Precondition: not empty.
  std::uint32_t top() const { return head_[highest()]; }
  std::uint16_t highest() const {
    auto word = used_.size() - 1;
    while (used_[word] == 0) --word;
    return static_cast<std::uint16_t>(word * 64 + 63 - static_cast<unsigned>(std::countl_zero(used_[word])));
  }
  std::uint32_t pop() {
    auto const n = top();
    remove(n);
    return n;
  }
  void clear() {
    while (!empty()) pop();
  }

  /// Rises with the gain.
  static std::uint16_t bucket_of(std::int64_t gain) {
    auto const up = step(gain < 0 ? -gain : gain);
    return static_cast<std::uint16_t>(gain < 0 ? zero - up : zero + up);
  }

 private:
  static constexpr std::uint32_t none = 0xffffffff;
  static constexpr std::uint16_t absent = 0;  // no gain is so low
  static constexpr int zero = 1024;

  static int step(std::int64_t gain) {
    auto const g = static_cast<std::uint64_t>(gain);
    if (g < 32) return static_cast<int>(g);
    auto const shift = 59 - std::countl_zero(g);  // the five leading bits remain
    return shift * 16 + static_cast<int>(g >> shift);
  }

  raw_array<std::uint32_t> next_, previous_;
  raw_array<std::uint16_t> bucket_;
  std::array<std::uint32_t, buckets> head_;
  std::array<std::uint64_t, buckets / 64> used_;
  std::size_t size_ = 0;
};

}  // namespace cleave::detail
