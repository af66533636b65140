// SPDX-License-Identifier: MIT
#include "cleave/partition/acyclic/state.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "support/rng.hpp"

TEST_CASE("pin_counts: counts after any moves equal a recount") {
  cleave::testing::rng r(1);
  for (int i = 0; i < 60; ++i) {
    auto const units = 2 + r.below(12);
    auto const parts = static_cast<std::uint32_t>(1 + r.below(6));
    cleave::detail::csr<std::uint32_t> touching;
    for (int v = 0; v < 8; ++v, touching.close())
      for (std::uint32_t u = 0; u < units; ++u)
        if (r.one_in(3)) touching.add(u);
    std::vector<std::uint32_t> of(units);
    for (auto& part : of) part = static_cast<std::uint32_t>(r.below(parts));
    cleave::detail::pin_counts<std::uint32_t> pins(touching, of, parts);
    for (int step = 0; step < 30; ++step) {
      auto const u = static_cast<std::uint32_t>(r.below(units));
      auto const to = static_cast<std::uint32_t>(r.below(parts));
      if (to == of[u]) continue;
      for (std::size_t v = 0; v < touching.rows(); ++v)
        for (auto const other : touching[v])
          if (other == u) pins.move(v, of[u], to);
      of[u] = to;
      for (std::size_t v = 0; v < touching.rows(); ++v) {
        std::vector<std::uint32_t> count(parts), listed(parts);
        for (auto const other : touching[v]) ++count[of[other]];
        std::uint32_t spread = 0;
        for (std::uint32_t p = 0; p < parts; ++p) {
          REQUIRE(pins.count(v, p) == count[p]);
          spread += count[p] != 0;
        }
        REQUIRE(pins.spread(v) == spread);
        pins.each_part(v, [&](std::uint32_t p) { ++listed[p]; });
        for (std::uint32_t p = 0; p < parts; ++p) REQUIRE(listed[p] == (count[p] != 0));
      }
    }
  }
}
