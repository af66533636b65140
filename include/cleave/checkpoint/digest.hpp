// SPDX-License-Identifier: MIT
#pragma once
#include <xxhash.h>

#include <cstddef>
#include <span>
#include <vector>

#include "cleave/checkpoint/checkpoint_data.hpp"
#include "cleave/core/bytes.hpp"
#include "cleave/core/expects.hpp"

namespace cleave::detail {

/// xxh3-128.
inline checkpoint_digest digest_of(std::span<std::byte const> bytes) {
  auto const sum = XXH3_128bits(bytes.data(), bytes.size());
  return {sum.low64, sum.high64};
}

/// How much of a tensor is read, digested and written at a time: it stays in the cache.
inline constexpr std::size_t checkpoint_piece = 1_MiB;

/// The digest of elements that come piece by piece: of one piece its own, of several that of their digests.
class element_digest {
 public:
  /// Precondition: all pieces before this one were of `checkpoint_piece` bytes.
  void add(std::span<std::byte const> piece) {
    expects(!last_, "a piece after whole ones");
    last_ = piece.size() != checkpoint_piece;
    pieces_.push_back(digest_of(piece));
  }
  /// Of all that was added.
  checkpoint_digest digest() const {
    if (pieces_.size() == 1) return pieces_.front();
    return digest_of(std::as_bytes(std::span(pieces_)));
  }

 private:
  std::vector<checkpoint_digest> pieces_;
  bool last_ = false;
};

}  // namespace cleave::detail
