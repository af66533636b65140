// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "cleave/core/language.hpp"

/// Codes that only who knows a key can make. They prove who wrote a message and that it is whole; they hide
/// nothing.
namespace cleave::detail {

using sha256_digest = std::array<std::uint8_t, 32>;

/// SHA-256, FIPS 180-4, of bytes that are added in pieces.
class sha256 {
 public:
  sha256& add(std::string_view bytes) {
    for (total_ += bytes.size(); !bytes.empty();) {
      auto const n = (std::min)(bytes.size(), block_.size() - held_);
      std::memcpy(block_.data() + held_, bytes.data(), n);
      bytes.remove_prefix(n);
      held_ += n;
      if (held_ == block_.size()) mix();
    }
    return *this;
  }
  sha256& add(sha256_digest const& bytes) { return add({reinterpret_cast<char const*>(bytes.data()), 32}); }

  /// Of all that was added. Nothing may be added afterwards.
  sha256_digest digest() {
    auto const bits = total_ * 8;
    block_[held_++] = 0x80;
    if (held_ > block_.size() - 8) pad();
    pad(8);
    for (std::size_t i = 0; i < 8; ++i)
      block_[block_.size() - 1 - i] = static_cast<std::uint8_t>(bits >> (8 * i));
    mix();
    sha256_digest out;
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<std::uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
    return out;
  }

 private:
  void pad(std::size_t kept_free = 0) {
    std::fill(block_.begin() + static_cast<std::ptrdiff_t>(held_), block_.end(), std::uint8_t{0});
    held_ = block_.size() - kept_free;
    if (kept_free == 0) mix();
  }

  void mix() {
    std::array<std::uint32_t, 64> w;
    for (std::size_t i = 0; i < 16; ++i)
      w[i] = std::uint32_t{block_[4 * i]} << 24 | std::uint32_t{block_[4 * i + 1]} << 16 |
             std::uint32_t{block_[4 * i + 2]} << 8 | block_[4 * i + 3];
    for (std::size_t i = 16; i < 64; ++i) {
      auto const a = w[i - 15], b = w[i - 2];
      w[i] = w[i - 16] + w[i - 7] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ (a >> 3)) +
             (std::rotr(b, 17) ^ std::rotr(b, 19) ^ (b >> 10));
    }
    auto [a, b, c, d, e, f, g, h] = state_;
    for (std::size_t i = 0; i < 64; ++i) {
      auto const one = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) +
                       round_constants[i] + w[i];
      auto const two =
          (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + one;
      d = c, c = b, b = a, a = one + two;
    }
    std::array const mixed = {a, b, c, d, e, f, g, h};
    for (std::size_t i = 0; i < 8; ++i) state_[i] += mixed[i];
    held_ = 0;
  }

  static constexpr std::array<std::uint32_t, 64> round_constants = {
      0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
      0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
      0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
      0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
      0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
      0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
      0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
      0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::uint8_t, 64> block_ = {};
  std::size_t held_ = 0;
  std::uint64_t total_ = 0;
};

/// HMAC-SHA-256, RFC 2104, of bytes that are added in pieces, under a key of any length.
class hmac_sha256 {
 public:
  explicit hmac_sha256(std::string_view key) {
    std::array<char, 64> block = {};
    if (key.size() > block.size()) {
      auto const shorter = sha256().add(key).digest();
      std::ranges::copy(shorter, block.begin());
    } else {
      std::ranges::copy(key, block.begin());
    }
    auto const masked = [&](char mask) {
      auto with = block;
      for (char& c : with) c = static_cast<char>(c ^ mask);
      return with;
    };
    auto const inner = masked(0x36), outer = masked(0x5c);
    inner_.add({inner.data(), inner.size()});
    outer_.add({outer.data(), outer.size()});
  }
  explicit hmac_sha256(sha256_digest const& key)
      : hmac_sha256(std::string_view(reinterpret_cast<char const*>(key.data()), key.size())) {}

  hmac_sha256& add(std::string_view bytes) {
    inner_.add(bytes);
    return *this;
  }
  /// Of all that was added. Nothing may be added afterwards.
  sha256_digest digest() { return outer_.add(inner_.digest()).digest(); }

 private:
  sha256 inner_, outer_;
};

/// Whether they are equal, in a time that does not tell where they differ.
constexpr bool equal_in_constant_time(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

}  // namespace cleave::detail
