// SPDX-License-Identifier: MIT
#include "cleave/formats/bytes/envelope.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;
using enum envelope_fault::kind;

namespace {

std::vector<std::byte> bytes_of(std::string const& text) {
  auto const bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

constexpr std::size_t no_limit = 1 << 20;

}  // namespace

TEST_CASE("open_envelope: returns the sealed bytes, even if there are none") {
  for (std::string const text : {"", "a", "some payload"}) {
    auto const sealed = seal_envelope(bytes_of(text));
    CHECK(sealed.size() == envelope_header_bytes + text.size());
    auto const payload = open_envelope(sealed, no_limit);
    CHECK(std::vector(payload.begin(), payload.end()) == bytes_of(text));
  }
}

TEST_CASE("seal_envelope: writes the documented layout, byte by byte") {
  auto const sealed = seal_envelope(bytes_of("abc"));
  CHECK(std::vector(sealed.begin(), sealed.begin() + 16) ==
        bytes_of(std::string("CLVS\2\0\0\0\3\0\0\0\0\0\0\0", 16)));
  auto const sum = XXH3_128bits_withSeed("abc", 3, 2);
  std::vector<std::byte> bytes(16);
  for (std::size_t i = 0; i < 8; ++i) {
    bytes[i] = static_cast<std::byte>(sum.low64 >> (8 * i) & 0xff);
    bytes[8 + i] = static_cast<std::byte>(sum.high64 >> (8 * i) & 0xff);
  }
  CHECK(std::vector(sealed.begin() + 16, sealed.begin() + 32) == bytes);
}

TEST_CASE("open_envelope: reads version 1, whose checksum does not cover the version") {
  // xxh128sum prints 06b05ab6733a618578af5f94892f3950 for abc: the high half first.
  auto const old = bytes_of(std::string("CLVS\1\0\0\0\3\0\0\0\0\0\0\0", 16) +
                            "\x50\x39\x2f\x89\x94\x5f\xaf\x78\x85\x61\x3a\x73\xb6\x5a\xb0\x06" + "abc");
  auto const payload = open_envelope(old, no_limit);
  CHECK(std::vector(payload.begin(), payload.end()) == bytes_of("abc"));
}

TEST_CASE(
    "find_envelope_fault: reports bytes cut short anywhere, with the place of the cut or of the length") {
  auto const sealed = seal_envelope(bytes_of("some payload"));
  for (std::size_t size = 0; size < sealed.size(); ++size) {
    auto const fault = find_envelope_fault(std::span(sealed).first(size), no_limit);
    REQUIRE(fault);
    if (size < envelope_header_bytes)
      CHECK(*fault == envelope_fault{.what = header_cut_short, .at = size, .found = size});
    else
      CHECK(*fault ==
            envelope_fault{.what = length, .at = 8, .claimed = 12, .found = size - envelope_header_bytes});
  }
}

TEST_CASE("open_envelope: names appended bytes, wrong magic, wrong version, damage and too many bytes") {
  auto const sealed = seal_envelope(bytes_of("some payload"));
  auto const message = [&](auto alter, std::size_t limit = no_limit) {
    auto altered = sealed;
    alter(altered);
    try {
      open_envelope(altered, limit);
    } catch (envelope_error const& e) {
      CHECK(e.witness == *find_envelope_fault(altered, limit));
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  CHECK(message([](auto& b) { b.push_back(std::byte{0}); }) ==
        "envelope: byte 8 claims 12 bytes after the header, but there are 13; something was appended");
  CHECK(message([](auto& b) { b.resize(40); }) ==
        "envelope: byte 8 claims 12 bytes after the header, but there are 8; they are truncated, fetch them "
        "again");
  CHECK(message([](auto& b) { b.resize(20); }) ==
        "envelope: the bytes end at byte 20, within the header of 32 bytes; they are truncated, fetch them "
        "again");
  CHECK(message([](auto& b) { b[0] = std::byte{'P'}; }) ==
        "envelope: the bytes do not begin with 'CLVS': they were not written by cleave");
  auto const of_version = [](auto& b, std::uint32_t version) {
    b[4] = static_cast<std::byte>(version);
    auto const sum = envelope_checksum(std::span(b).subspan(envelope_header_bytes), version);
    for (std::size_t i = 0; i < 8; ++i) {
      b[16 + i] = static_cast<std::byte>(sum.low64 >> (8 * i) & 0xff);
      b[24 + i] = static_cast<std::byte>(sum.high64 >> (8 * i) & 0xff);
    }
  };
  for (std::uint32_t const version : {0u, 3u, 7u})
    CHECK(message([&](auto& b) { of_version(b, version); }) ==
          "envelope: byte 4 gives version " + std::to_string(version) +
              ", this library reads versions up to 2; read them with the version of the library that wrote "
              "them");
  auto const altered =
      "envelope: the checksum at byte 16 is not that of the version at byte 4 and the bytes from 32 on: they "
      "were altered; fetch them again";
  CHECK(message([](auto& b) { b[4] = std::byte{7}; }) == altered);
  CHECK(message([](auto& b) { b.back() ^= std::byte{1}; }) == altered);
  CHECK(message([](auto&) {}, 43) ==
        "envelope: 44 bytes exceed the limit of 43 bytes; raise it if the sender is trusted");
}

TEST_CASE("find_envelope_fault: rejects a length that would wrap around") {
  auto sealed = seal_envelope(bytes_of("some payload"));
  for (std::size_t i = 8; i < 16; ++i) sealed[i] = std::byte{0xff};
  CHECK(find_envelope_fault(sealed, no_limit)->what == length);
  CHECK(find_envelope_fault(sealed, no_limit)->claimed == ~std::uint64_t{0});
}

TEST_CASE("find_envelope_fault: rejects each of 20,000 random bit flips") {
  testing::rng random(5);
  std::vector<std::byte> payload;
  while (payload.size() < 5000) payload.push_back(static_cast<std::byte>(random.next() & 0xff));
  auto sealed = seal_envelope(payload);
  REQUIRE(!find_envelope_fault(sealed, no_limit));
  std::size_t accepted = 0;
  for (std::size_t i = 0; i < 20'000; ++i) {
    auto& byte = sealed[i % 4 == 0 ? random.below(envelope_header_bytes) : random.below(sealed.size())];
    auto const before = byte;
    byte ^= static_cast<std::byte>(1u << random.below(8));
    accepted += find_envelope_fault(sealed, no_limit) ? 0 : 1;
    byte = before;
  }
  CHECK(accepted == 0);
  for (std::size_t bit = 0; bit < 32; ++bit) {  // of the version: never a newer one
    sealed[4 + bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    CHECK(find_envelope_fault(sealed, no_limit)->what == checksum);
    sealed[4 + bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
  }
}
