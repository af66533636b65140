// SPDX-License-Identifier: MIT
#include "cleave/core/utf8.hpp"

#include <doctest/doctest.h>

#include <string>

#include "support/nasty_names.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

/// Checks each character separately.
bool each_is_well_formed(std::string const& text) {
  for (std::size_t at = 0; at < text.size();) {
    auto const c = utf8_at(text, at);
    if (c.code == malformed_utf8) return false;
    at += c.bytes;
  }
  return true;
}

}  // namespace

TEST_CASE("is_utf8: finds a malformed character at any position") {
  for (auto const& name : testing::nasty_names()) CHECK(is_utf8(name) == each_is_well_formed(name));
  for (std::size_t before = 0; before < 20; ++before)
    for (std::string const bad : {"\xff", "\xc3", "\xed\xa0\x80"}) {
      CHECK(!is_utf8(std::string(before, 'a') + bad));
      CHECK(!is_utf8(std::string(before, 'a') + bad + "and eight more"));
      CHECK(is_utf8(std::string(before, 'a') + "é and eight more"));
    }
}

TEST_CASE("is_utf8: agrees with a check of each character on random bytes") {
  testing::rng random(3);
  std::size_t good = 0;
  for (std::size_t i = 0; i < 20'000; ++i) {
    std::string text;
    for (auto size = random.below(24); size-- > 0;)
      text += random.one_in(12) ? static_cast<char>(random.below(256)) : random.one_in(6) ? '\xc3' : '\xa9';
    if (random.one_in(2)) text = std::string(random.below(20), 'x') + text;
    CHECK(is_utf8(text) == each_is_well_formed(text));
    good += is_utf8(text) ? 1 : 0;
  }
  CHECK(good > 100);
}
