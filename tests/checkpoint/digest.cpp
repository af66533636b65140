// SPDX-License-Identifier: MIT
#include "cleave/checkpoint/checkpoint_writer.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

using namespace cleave;

using namespace cleave::detail;

namespace {

checkpoint_digest in_pieces(std::span<std::byte const> bytes) {
  element_digest found;
  for (std::size_t at = 0; at < bytes.size(); at += checkpoint_piece)
    found.add(bytes.subspan(at, std::min(checkpoint_piece, bytes.size() - at)));
  return found.digest();
}

}  // namespace

TEST_CASE("element_digest: is XXH3-128 of the bytes of one piece, or of the digests of several") {
  std::vector<std::byte> bytes(2 * checkpoint_piece + 5, std::byte{7});
  std::span const all(bytes);
  CHECK(in_pieces({}) == digest_of({}));
  CHECK(digest_of({}) == checkpoint_digest{0x6001c324468d497f, 0x99aa06d3014798d8});
  CHECK(in_pieces(all.first(5)) == digest_of(all.first(5)));
  CHECK(in_pieces(all.first(checkpoint_piece)) == digest_of(all.first(checkpoint_piece)));
  auto const whole = digest_of(all.first(checkpoint_piece));
  std::vector<checkpoint_digest> const pieces{whole, whole, digest_of(all.first(5))};
  CHECK(in_pieces(all) == digest_of(std::as_bytes(std::span(pieces))));
}

TEST_CASE("element_digest: a changed byte in any piece changes the digest") {
  std::vector<std::byte> bytes(checkpoint_piece + 100, std::byte{0});
  auto const before = in_pieces(bytes);
  for (std::size_t const at : {std::size_t{0}, checkpoint_piece - 1, checkpoint_piece, bytes.size() - 1}) {
    bytes[at] = std::byte{1};
    CHECK(in_pieces(bytes) != before);
    bytes[at] = std::byte{0};
  }
  CHECK(in_pieces(bytes) == before);
}
