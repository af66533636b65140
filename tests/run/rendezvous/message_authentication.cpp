// SPDX-License-Identifier: MIT
#include "cleave/run/rendezvous/protocol.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

std::string in_hex(hmac_digest const& d) {
  std::string text;
  for (auto const byte : d) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}
std::string code(std::string_view key, std::string_view bytes) {
  return in_hex(hmac_sha256(key).add(bytes).digest());
}

}  // namespace

TEST_CASE("hmac_sha256: matches the RFC 4231 test vectors") {
  std::string const upward =
      "\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19";
  CHECK(code(std::string(20, '\x0b'), "Hi There") ==
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK(code("Jefe", "what do ya want for nothing?") ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(code(std::string(20, '\xaa'), std::string(50, '\xdd')) ==
        "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  CHECK(code(upward, std::string(50, '\xcd')) ==
        "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
  CHECK(code(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First") ==
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  CHECK(code(std::string(131, '\xaa'),
             "This is a test using a larger than block-size key and a larger than block-size data. The key "
             "needs to be hashed before being used by the HMAC algorithm.") ==
        "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

TEST_CASE("hmac_sha256: does not depend on the pieces in which bytes are added") {
  cleave::testing::rng random(5);
  for (std::size_t size = 0; size < 200; ++size) {
    std::string bytes;
    for (std::size_t i = 0; i < size; ++i) bytes += static_cast<char>(random.below(256));
    hmac_sha256 pieces("key");
    for (std::string_view rest = bytes; !rest.empty();) {
      auto const n = std::min(rest.size(), random.below(70));
      pieces.add(rest.substr(0, n));
      rest.remove_prefix(n);
    }
    CHECK(in_hex(pieces.digest()) == code("key", bytes));
  }
}

TEST_CASE("equal_in_constant_time: compares texts of any lengths") {
  CHECK(equal_in_constant_time("", ""));
  CHECK(equal_in_constant_time("abc", "abc"));
  CHECK_FALSE(equal_in_constant_time("abc", "abd"));
  CHECK_FALSE(equal_in_constant_time("bbc", "abc"));
  CHECK_FALSE(equal_in_constant_time("abc", "ab"));
}
