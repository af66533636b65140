// SPDX-License-Identifier: MIT
#include "cleave/core/nearest_names.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "support/rng.hpp"

using namespace cleave;

namespace {

/// The edit distance by its recursive definition.
std::size_t distance(std::string const& a, std::string const& b) {
  if (a.empty() || b.empty()) return a.size() + b.size();
  auto const rest = [](std::string const& s) { return s.substr(1); };
  if (a[0] == b[0]) return distance(rest(a), rest(b));
  return 1 + std::min({distance(rest(a), b), distance(a, rest(b)), distance(rest(a), rest(b))});
}

}  // namespace

TEST_CASE("edit_distance: equals the recursive definition on random words") {
  testing::rng random(3);
  auto const word = [&] {
    std::string w;
    for (auto n = random.below(7); n-- > 0;) w += static_cast<char>('a' + random.below(3));
    return w;
  };
  for (int round = 0; round < 500; ++round) {
    auto const a = word(), b = word();
    CHECK(edit_distance(a, b) == distance(a, b));
  }
}

TEST_CASE("edit_distance: compares only the first 256 bytes of long names") {
  CHECK(edit_distance(std::string(1 << 20, 'a'), std::string(1 << 20, 'b')) == 256);
}

TEST_CASE(
    "nearest_names: returns the nearest names first, ties in input order, at most the number asked for") {
  std::vector<std::string> const names{"encoder", "decoder", "head", "layers.0", "layers.1"};
  CHECK(nearest_names("decodr", names) == std::vector<std::string>{"decoder", "encoder", "head"});
  CHECK(nearest_names("layers.7", names, 2) == std::vector<std::string>{"layers.0", "layers.1"});
  CHECK(nearest_names("x", {}).empty());
}

TEST_CASE("suggestion: lists the names, escaped for a terminal") {
  CHECK(suggestion({}).empty());
  CHECK(suggestion({"a", "b\n"}) == "; nearest: 'a', 'b\\x0a'");
}

TEST_CASE("near_names: leaves out names that no slip turns into the one wanted") {
  std::vector<std::string> const names{"encoder", "decoder", "head", "layers.0", "layers.1"};
  CHECK(near_names("decodr", names) == std::vector<std::string>{"decoder", "encoder"});
  CHECK(near_names("layers.7", names) == std::vector<std::string>{"layers.0", "layers.1"});
  CHECK(near_names("enc", names) == std::vector<std::string>{"encoder"});
  CHECK(near_names("nonexistent", names).empty());
  CHECK(near_names("", names).empty());
  CHECK(near_names("x", {}).empty());
}
