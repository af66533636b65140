// SPDX-License-Identifier: MIT
#include "cleave/place/detail/chain_step.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/core/random.hpp"
#include "cleave/place/device_network.hpp"
#include "cleave/place/placement.hpp"
#include "cleave/schedule/simulate/simulate.hpp"
#include "support/cases.hpp"
#include "support/rng.hpp"

using namespace cleave;
using namespace cleave::detail;

namespace {

/// Returns a number of bytes, for a third of the messages 0.
std::uint64_t random_bytes(splitmix& random) { return random.below(3) == 0 ? 0 : random.below(40); }

/// Returns 0, 0.25, … or `most` / 4; if `in_quarters` is false, with many more digits.
double random_time(splitmix& random, std::uint64_t most, bool in_quarters) {
  auto const quarters = static_cast<double>(random.below(most + 1)) / 4;
  return in_quarters || quarters == 0 ? quarters : quarters + random.unit();
}

}  // namespace

TEST_CASE("chain_step: the makespan of simulate, to the last bit") {
  testing::rng random(11);
  for (int i = 0; i < (testing::all_cases() ? 20'000 : 1'000); ++i) {
    auto const k = 1 + random.below(9);
    auto const m = static_cast<std::uint32_t>(1 + random.below(12));
    bool const in_quarters = random.below(2) == 0;
    device_placement p{.microbatches = m};
    p.schedule = std::vector{schedule_family::gpipe, schedule_family::one_f_one_b,
                             schedule_family::forward_only}[random.below(3)];
    device_network net{.devices = std::vector<device_spec>(k), .links = {}};
    for (std::size_t at = 0; at < k * k; ++at) {
      auto const latency = random_time(random, 3, in_quarters);
      auto const bandwidth =
          random.below(4) == 0 ? rank_link{}.bandwidth : 1 + random_time(random, 8, in_quarters);
      net.links.push_back({latency, bandwidth});
    }
    for (std::uint32_t s = 0; s < k; ++s) {
      device_stage stage{.device = s, .begin = s, .end = s + 1};
      stage.time.forward = random_time(random, 20, in_quarters);
      stage.time.backward = random_time(random, 40, in_quarters);
      stage.sent.activation = random_bytes(random);
      stage.sent.gradient = random_bytes(random);
      p.stages.push_back(stage);
    }

    std::vector<chain_stage> chain;
    auto const delay = [&](std::uint32_t from, std::uint32_t to, std::uint64_t bytes) {
      auto const link = net.link(from, to);
      return link_delay{static_cast<double>(bytes) / link.bandwidth, link.latency};
    };
    for (std::uint32_t s = 0; s < k; ++s) {
      chain.push_back({p.stages[s].time.forward, p.stages[s].time.backward, {}, {}});
      if (s + 1 < k) chain[s].activation = delay(s, s + 1, p.stages[s].sent.activation);
      if (s > 0) chain[s].gradient = delay(s, s - 1, p.stages[s - 1].sent.gradient);
    }
    CAPTURE(i);
    auto const expected = simulate(schedule_of(p), simulate_options_of(p, net)).makespan;
    chain_step step(p.schedule, m);
    CHECK(step.makespan(chain) == expected);
    CHECK(step.makespan(chain) == expected);  // nothing of a step is left in the next one
  }
}
