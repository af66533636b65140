// SPDX-License-Identifier: MIT
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cleave/core/language.hpp"

namespace cleave::inline v0_2::detail {

/// A set of small integers as a bit vector.
class bit_row {
 public:
  explicit bit_row(std::size_t size) : word_((size + 63) / 64) {}
  void put(std::size_t i) { word_[i / 64] |= std::uint64_t{1} << i % 64; }
  void drop(std::size_t i) { word_[i / 64] &= ~(std::uint64_t{1} << i % 64); }
  bool has(std::size_t i) const { return (word_[i / 64] >> i % 64 & 1) != 0; }
  void join(bit_row const& other) {
    for (std::size_t w = 0; w < word_.size(); ++w) word_[w] |= other.word_[w];
  }
  std::span<std::uint64_t const> words() const { return word_; }
  std::span<std::uint64_t> words() { return word_; }

 private:
  std::vector<std::uint64_t> word_;
};

/// Calls `f(i)` for each element of the set `words`.
template <class F>
void each_bit(std::span<std::uint64_t const> words, F f) {
  for (std::size_t w = 0; w < words.size(); ++w)
    for (auto bits = words[w]; bits != 0; bits &= bits - 1)
      f(static_cast<std::uint32_t>(64 * w + static_cast<std::size_t>(std::countr_zero(bits))));
}

}  // namespace cleave::detail
