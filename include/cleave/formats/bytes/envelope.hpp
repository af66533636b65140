// SPDX-License-Identifier: MIT
#pragma once
#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cleave/core/error.hpp"

/// An envelope for bytes that detects truncation and corruption: a magic word, a version, a length and a
/// checksum, followed by the payload. See docs/stage_format.md for the layout. The checksum is xxh3-128 of
/// the payload, with the version as its seed: it detects accidents, not attacks.
namespace cleave::inline v0_2::detail {

/// The size of the header before the payload: magic 4, version 4, length 8, checksum 16 bytes, all
/// little-endian.
inline constexpr std::size_t envelope_header_bytes = 32;
inline constexpr char envelope_magic[] = "CLVS";
inline constexpr std::uint32_t envelope_version = 2;

/// The reason why bytes are not an envelope that this library can open.
struct envelope_fault {
  static constexpr char subject[] = "envelope: ";
  enum class kind : std::uint8_t { above_limit, header_cut_short, magic, version, length, checksum };
  kind what;
  std::size_t at;           ///< offset of the byte where it shows
  std::uint64_t claimed{};  ///< by the header: the version, or the size of the payload in bytes
  std::uint64_t found{};    ///< the actual number of bytes, or the newest version that this library reads
  std::uint64_t limit{};    ///< largest number of bytes allowed

  bool operator==(envelope_fault const&) const = default;
};

/// The message for a fault, in one sentence with the numbers found and expected.
inline std::string describe(envelope_fault const& f) {
  auto const bytes = [](std::uint64_t n) { return std::to_string(n) + (n == 1 ? " byte" : " bytes"); };
  switch (f.what) {
    case envelope_fault::kind::above_limit:
      return bytes(f.found) + " exceed the limit of " + bytes(f.limit) +
             "; raise it if the sender is trusted";
    case envelope_fault::kind::header_cut_short:
      return "the bytes end at byte " + std::to_string(f.at) + ", within the header of " +
             bytes(envelope_header_bytes) + "; they are truncated, fetch them again";
    case envelope_fault::kind::magic:
      return "the bytes do not begin with '" + std::string(envelope_magic) +
             "': they were not written by cleave";
    case envelope_fault::kind::version:
      return "byte 4 gives version " + std::to_string(f.claimed) + ", this library reads versions up to " +
             std::to_string(f.found) + "; read them with the version of the library that wrote them";
    case envelope_fault::kind::length:
      return "byte 8 claims " + bytes(f.claimed) + " after the header, but there are " +
             std::to_string(f.found) +
             (f.found < f.claimed ? "; they are truncated, fetch them again" : "; something was appended");
    case envelope_fault::kind::checksum:
      return "the checksum at byte 16 is not that of the version at byte 4 and the bytes from " +
             std::to_string(envelope_header_bytes) + " on: they were altered; fetch them again";
  }
  return {};
}

/// Thrown for an envelope that is rejected; the witness is the first fault.
using envelope_error = fault_error<envelope_fault>;

/// Returns the checksum of a payload in an envelope of that version. Version 1 did not cover the version.
inline XXH128_hash_t envelope_checksum(std::span<std::byte const> payload, std::uint64_t version) {
  return XXH3_128bits_withSeed(payload.data(), payload.size(), version == 1 ? 0 : version);
}

/// Returns the header of an envelope for `payload`. O(size).
inline std::vector<std::byte> envelope_header(std::span<std::byte const> payload) {
  std::vector<std::byte> header;
  header.reserve(envelope_header_bytes);
  auto const number = [&](std::uint64_t n, int bytes) {
    for (int i = 0; i < bytes; ++i) header.push_back(static_cast<std::byte>(n >> (8 * i) & 0xff));
  };
  for (int i = 0; i < 4; ++i) header.push_back(static_cast<std::byte>(envelope_magic[i]));
  auto const sum = envelope_checksum(payload, envelope_version);
  number(envelope_version, 4);
  number(payload.size(), 8);
  number(sum.low64, 8);
  number(sum.high64, 8);
  return header;
}

/// Returns `payload` in an envelope. O(size).
inline std::vector<std::byte> seal_envelope(std::span<std::byte const> payload) {
  auto sealed = envelope_header(payload);
  sealed.reserve(sealed.size() + payload.size());
  sealed.insert(sealed.end(), payload.begin(), payload.end());
  return sealed;
}

/// Returns the reason why `bytes` are not an envelope, or nothing. Cheap checks come first. The payload is
/// not read before its length is known to be right. A version that this library does not know counts only if
/// the checksum is right; otherwise the bytes were altered. O(size).
inline std::optional<envelope_fault> find_envelope_fault(std::span<std::byte const> bytes,
                                                         std::size_t limit) {
  using enum envelope_fault::kind;
  auto const number = [&](std::size_t at, std::size_t size) {
    std::uint64_t n = 0;
    for (std::size_t i = size; i-- > 0;) n = n << 8 | std::to_integer<std::uint64_t>(bytes[at + i]);
    return n;
  };
  if (bytes.size() > limit)
    return envelope_fault{.what = above_limit, .at = limit, .found = bytes.size(), .limit = limit};
  for (std::size_t i = 0; i < 4 && i < bytes.size(); ++i)
    if (bytes[i] != static_cast<std::byte>(envelope_magic[i])) return envelope_fault{.what = magic, .at = 0};
  if (bytes.size() < envelope_header_bytes)
    return envelope_fault{.what = header_cut_short, .at = bytes.size(), .found = bytes.size()};
  auto const payload = bytes.subspan(envelope_header_bytes);
  if (auto const claimed = number(8, 8); claimed != payload.size())
    return envelope_fault{.what = length, .at = 8, .claimed = claimed, .found = payload.size()};
  auto const claimed_version = number(4, 4);
  auto const sum = envelope_checksum(payload, claimed_version);
  if (sum.low64 != number(16, 8) || sum.high64 != number(24, 8))
    return envelope_fault{.what = checksum, .at = 16};
  if (claimed_version < 1 || claimed_version > envelope_version)
    return envelope_fault{.what = version, .at = 4, .claimed = claimed_version, .found = envelope_version};
  return std::nullopt;
}

/// Returns the payload within `bytes`, which must outlive it. O(size).
/// \throws envelope_error
inline std::span<std::byte const> open_envelope(std::span<std::byte const> bytes, std::size_t limit) {
  if (auto const fault = find_envelope_fault(bytes, limit)) throw envelope_error(*fault);
  return bytes.subspan(envelope_header_bytes);
}

}  // namespace cleave::detail
