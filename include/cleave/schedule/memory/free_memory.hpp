// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/core/language.hpp"

namespace cleave::detail {

/// Which bytes of an arena are free, while the arena grows as needed. Free blocks are kept in lists by size,
/// 16 lists for each power of two, so that one that fits well is found at once. Masmano, Ripoll, Crespo and
/// Real, ECRTS 2004 (two-level segregated fit).
class free_memory {
 public:
  free_memory() { heads_.fill(none); }

  /// Takes `bytes`, one at least; the number is what is given back. O(1).
  std::uint32_t take(std::uint64_t bytes) {
    auto const found = find(bytes);
    if (found == none) return grow(bytes);
    unlink(found);
    if (blocks_[found].bytes > bytes) {
      // What is left over becomes a block behind it.
      auto const rest =
          add({blocks_[found].offset + bytes, blocks_[found].bytes - bytes, found, blocks_[found].after});
      if (blocks_[rest].after != none)
        blocks_[blocks_[rest].after].before = rest;
      else
        last_ = rest;
      blocks_[found].after = rest;
      blocks_[found].bytes = bytes;
      link(rest);
    }
    return found;
  }

  /// Gives back what was taken; it joins what is free beside it. O(1).
  void give(std::uint32_t block) {
    if (auto const before = blocks_[block].before; before != none && blocks_[before].is_free) {
      unlink(before);
      block = join(before);
    }
    if (auto const after = blocks_[block].after; after != none && blocks_[after].is_free) {
      unlink(after);
      join(block);
    }
    link(block);
  }

  std::uint64_t offset_of(std::uint32_t block) const { return blocks_[block].offset; }
  /// How large the arena has become.
  std::uint64_t bytes() const { return bytes_; }

 private:
  static constexpr std::uint32_t none = 0xffffffff;
  struct memory_block {
    std::uint64_t offset, bytes;
    std::uint32_t before, after;                 // by address
    std::uint32_t previous = none, next = none;  // in its list
    bool is_free = false;
  };

  /// The list that a size belongs to.
  static std::size_t list_of(std::uint64_t bytes) {
    if (bytes < 16) return static_cast<std::size_t>(bytes);
    auto const log = static_cast<unsigned>(std::bit_width(bytes)) - 1;
    return std::size_t{16} * (log - 3) + static_cast<std::size_t>(bytes >> (log - 4) & 15);
  }

  /// The first block of its own list, if it is large enough, or any of the next list that has one.
  std::uint32_t find(std::uint64_t bytes) const {
    auto const list = list_of(bytes);
    if (heads_[list] != none && blocks_[heads_[list]].bytes >= bytes) return heads_[list];
    for (auto word = (list + 1) / 64; word < filled_.size(); ++word) {
      auto const bits = filled_[word] &
                        (word == (list + 1) / 64 ? ~std::uint64_t{0} << (list + 1) % 64 : ~std::uint64_t{0});
      if (bits != 0) return heads_[64 * word + static_cast<std::size_t>(std::countr_zero(bits))];
    }
    return none;
  }

  /// The arena grows, from its last block on where that is free.
  std::uint32_t grow(std::uint64_t bytes) {
    auto block = last_;
    if (block != none && blocks_[block].is_free) {
      unlink(block);
      blocks_[block].bytes = bytes;
    } else {
      block = add({bytes_, bytes, last_, none});
      if (last_ != none) blocks_[last_].after = block;
      last_ = block;
    }
    bytes_ = blocks_[block].offset + bytes;
    return block;
  }

  std::uint32_t add(memory_block b) {
    if (unused_.empty()) {
      blocks_.push_back(b);
      return static_cast<std::uint32_t>(blocks_.size() - 1);
    }
    auto const number = unused_.back();
    unused_.pop_back();
    blocks_[number] = b;
    return number;
  }

  /// A block and the one behind it become one, the first of both.
  std::uint32_t join(std::uint32_t block) {
    auto const gone = blocks_[block].after;
    blocks_[block].bytes += blocks_[gone].bytes;
    blocks_[block].after = blocks_[gone].after;
    if (blocks_[gone].after != none)
      blocks_[blocks_[gone].after].before = block;
    else
      last_ = block;
    unused_.push_back(gone);
    return block;
  }

  void link(std::uint32_t block) {
    auto const list = list_of(blocks_[block].bytes);
    auto& b = blocks_[block];
    b.is_free = true;
    b.previous = none;
    b.next = heads_[list];
    if (b.next != none) blocks_[b.next].previous = block;
    heads_[list] = block;
    filled_[list / 64] |= std::uint64_t{1} << list % 64;
  }

  void unlink(std::uint32_t block) {
    auto const list = list_of(blocks_[block].bytes);
    auto& b = blocks_[block];
    b.is_free = false;
    if (b.next != none) blocks_[b.next].previous = b.previous;
    if (b.previous != none) {
      blocks_[b.previous].next = b.next;
      return;
    }
    heads_[list] = b.next;
    if (b.next == none) filled_[list / 64] &= ~(std::uint64_t{1} << list % 64);
  }

  std::vector<memory_block> blocks_;
  std::vector<std::uint32_t> unused_;  ///< numbers of blocks that have been joined to others
  std::array<std::uint32_t, 1024> heads_;
  std::array<std::uint64_t, 16> filled_{};  ///< which lists have blocks
  std::uint32_t last_ = none;               ///< by address
  std::uint64_t bytes_ = 0;
};

}  // namespace cleave::detail
