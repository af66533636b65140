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

/// Bytes that tell when they are not whole: a magic word, a version, a length and a checksum, then the
/// payload; docs/stage_format.md has the layout. The checksum is xxh3-128: it finds accidents, and nobody who
/// means harm.
namespace cleave::detail {

/// What an envelope holds before its payload: magic 4, version 4, length 8, checksum 16 bytes, all of them
/// little-endian.
inline constexpr std::size_t envelope_header_bytes = 32;
inline constexpr char envelope_magic[] = "CLVS";
inline constexpr std::uint32_t envelope_version = 1;

/// Why bytes are no envelope that this library opens.
struct envelope_fault {
  static constexpr char subject[] = "envelope: ";
  enum class kind : std::uint8_t { above_limit, header_cut_short, magic, version, length, checksum };
  kind what;
  std::size_t at;           ///< the byte where it shows
  std::uint64_t claimed{};  ///< by the header: a version, how many bytes of payload
  std::uint64_t found{};    ///< how many bytes there are, or the version that this library writes
  std::uint64_t limit{};    ///< how many bytes may be there

  bool operator==(envelope_fault const&) const = default;
};

/// One sentence, with the numbers that were found and expected.
inline std::string describe(envelope_fault const& f) {
  auto const bytes = [](std::uint64_t n) { return std::to_string(n) + (n == 1 ? " byte" : " bytes"); };
  switch (f.what) {
    case envelope_fault::kind::above_limit:
      return bytes(f.found) + " are above the limit of " + bytes(f.limit) +
             "; raise it if the sender is trusted";
    case envelope_fault::kind::header_cut_short:
      return "cut short at byte " + std::to_string(f.at) + ", within the header of " +
             bytes(envelope_header_bytes) + "; ask for the whole";
    case envelope_fault::kind::magic:
      return "byte 0 does not begin '" + std::string(envelope_magic) +
             "': these are no bytes that cleave sealed";
    case envelope_fault::kind::version:
      return "byte 4 says version " + std::to_string(f.claimed) + ", this library reads version " +
             std::to_string(f.found) + "; write them with the same version of the library that reads them";
    case envelope_fault::kind::length:
      return "byte 8 claims " + bytes(f.claimed) + " after the header, there are " + std::to_string(f.found) +
             (f.found < f.claimed ? "; cut short, ask for the whole" : "; something was appended");
    case envelope_fault::kind::checksum:
      return "the checksum at byte 16 is not that of the bytes from " +
             std::to_string(envelope_header_bytes) + " on: they were altered; ask for them again";
  }
  return {};
}

/// An envelope that is refused. The witness: the first fault.
using envelope_error = fault_error<envelope_fault>;

/// The header of an envelope for `payload`. O(size).
inline std::vector<std::byte> envelope_header(std::span<std::byte const> payload) {
  std::vector<std::byte> header;
  header.reserve(envelope_header_bytes);
  auto const number = [&](std::uint64_t n, int bytes) {
    for (int i = 0; i < bytes; ++i) header.push_back(static_cast<std::byte>(n >> (8 * i) & 0xff));
  };
  for (int i = 0; i < 4; ++i) header.push_back(static_cast<std::byte>(envelope_magic[i]));
  auto const sum = XXH3_128bits(payload.data(), payload.size());
  number(envelope_version, 4);
  number(payload.size(), 8);
  number(sum.low64, 8);
  number(sum.high64, 8);
  return header;
}

/// `payload` in an envelope. O(size).
inline std::vector<std::byte> seal_envelope(std::span<std::byte const> payload) {
  auto sealed = envelope_header(payload);
  sealed.reserve(sealed.size() + payload.size());
  sealed.insert(sealed.end(), payload.begin(), payload.end());
  return sealed;
}

/// Why `bytes` are no envelope, or nothing. What is cheap is asked first: no byte of the payload is read
/// before its length is known to be right. O(size).
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
  if (auto const claimed = number(4, 4); claimed != envelope_version)
    return envelope_fault{.what = version, .at = 4, .claimed = claimed, .found = envelope_version};
  auto const payload = bytes.subspan(envelope_header_bytes);
  if (auto const claimed = number(8, 8); claimed != payload.size())
    return envelope_fault{.what = length, .at = 8, .claimed = claimed, .found = payload.size()};
  auto const sum = XXH3_128bits(payload.data(), payload.size());
  if (sum.low64 != number(16, 8) || sum.high64 != number(24, 8))
    return envelope_fault{.what = checksum, .at = 16};
  return std::nullopt;
}

/// The payload within `bytes`, which must outlive it. O(size).
/// \throws envelope_error
inline std::span<std::byte const> open_envelope(std::span<std::byte const> bytes, std::size_t limit) {
  if (auto const fault = find_envelope_fault(bytes, limit)) throw envelope_error(*fault);
  return bytes.subspan(envelope_header_bytes);
}

}  // namespace cleave::detail
