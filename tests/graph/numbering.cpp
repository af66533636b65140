// SPDX-License-Identifier: MIT
#include "cleave/graph/numbering.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <string>

#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

TEST_CASE_TEMPLATE("numbering: agrees with std::map for integers of any sign and size and for text", Handle,
                   int, std::uint64_t, std::string) {
  testing::rng random(5);
  for (int round = 0; round < 50; ++round) {
    numbering<Handle, std::uint32_t> numbers;
    std::map<Handle, std::uint32_t> twin;
    for (int i = 0; i < 500; ++i) {
      auto const raw = random.one_in(3) ? random.next() >> random.below(64) : random.below(200);
      Handle h;
      if constexpr (std::integral<Handle>)
        h = static_cast<Handle>(raw);
      else
        h = std::to_string(raw);
      auto const known = twin.find(h);
      CHECK(numbers.find(h) == (known == twin.end() ? none<std::uint32_t> : known->second));
      if (random.one_in(2)) continue;
      auto const number = twin.try_emplace(h, static_cast<std::uint32_t>(twin.size())).first->second;
      CHECK(numbers.insert(h) == number);
      CHECK(numbers[number] == h);
    }
    CHECK(numbers.size() == twin.size());
    for (auto const& [h, number] : twin) CHECK(numbers.find(h) == number);
  }
}
