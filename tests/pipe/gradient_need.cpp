// SPDX-License-Identifier: MIT
#include "cleave/pipe/module_gradients.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "support/random_graph.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

TEST_CASE(
    "gradient_need: marks the values that passing nodes connect to a starting value, on random graphs") {
  testing::rng r(61);
  for (int round = 0; round < 500; ++round) {
    auto const s = testing::random_graph(r, {.nodes = 1 + r.below(10), .states = 2});
    std::vector<char> starts(s.values()), passes(s.nodes());
    for (auto& x : starts) x = r.one_in(3);
    for (auto& x : passes) x = !r.one_in(3);
    auto const need = gradient_need(
        s, [&](std::size_t v) { return starts[v] != 0; }, [&](std::size_t n) { return passes[n] != 0; });
    std::vector<char> twin(s.values());  // the expected result, by fixed-point iteration
    for (bool more = true; more;) {
      more = false;
      for (std::size_t v = 0; v < s.values(); ++v) {
        auto const m = s.producer[v];
        bool any = m == none<std::uint32_t> && starts[v];
        if (m != none<std::uint32_t> && passes[m])
          for (auto const u : s.operands[m]) any |= twin[u] != 0;
        more |= any && !twin[v];
        twin[v] |= any;
      }
    }
    CHECK(need == twin);
  }
}
