// SPDX-License-Identifier: MIT
#include "cleave/schedule/model/simulate_options.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <set>

using namespace cleave;

TEST_CASE("noise: factors lie around one and fill their whole range") {
  noise const some(0.5, 3);
  double sum = 0, least = 2, most = 0;
  for (std::uint32_t m = 0; m < 10'000; ++m) {
    auto const f = some.factor(action_kind::forward, 1, microbatch_id{m});
    sum += f, least = f < least ? f : least, most = f > most ? f : most;
  }
  CHECK(least >= 0.5);
  CHECK(least < 0.51);
  CHECK(most < 1.5);
  CHECK(most > 1.49);
  CHECK(sum / 10'000 == doctest::Approx(1).epsilon(0.02));
}

TEST_CASE("noise: each action has its own factor, which the same seed repeats") {
  noise const some(1, 3);
  std::set<double> different;
  for (std::uint32_t s = 0; s < 20; ++s)
    for (std::uint32_t m = 0; m < 20; ++m)
      for (auto const kind : {action_kind::forward, action_kind::backward})
        different.insert(some.factor(kind, s, microbatch_id{m}));
  CHECK(different.size() == 800);
  CHECK(noise(1, 3).factor(action_kind::forward, 4, microbatch_id{5}) ==
        some.factor(action_kind::forward, 4, microbatch_id{5}));
  CHECK(noise(1, 4).factor(action_kind::forward, 4, microbatch_id{5}) !=
        some.factor(action_kind::forward, 4, microbatch_id{5}));
  CHECK(noise(0, 3).factor(action_kind::forward, 4, microbatch_id{5}) == 1);
}
