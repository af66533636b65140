// SPDX-License-Identifier: MIT
#include "cleave/graph/flow/pushed_flow.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/graph/flow/local_flow.hpp"
#include "support/rng.hpp"

namespace {

struct both_flows {
  cleave::detail::pushed_flow pushed;
  cleave::detail::local_flow local;

  explicit both_flows(std::size_t nodes) : pushed(nodes), local(nodes) {}
  void arc(std::uint32_t from, std::uint32_t to, std::int64_t capacity) {
    pushed.arc(from, to, capacity);
    local.arc(from, to, capacity);
  }
};

/// A network with parallel and opposite arcs, arcs into the source and out of the sink, and some unlimited
/// arcs.
both_flows random_flows(cleave::testing::rng& r, std::size_t nodes) {
  both_flows x(nodes);
  for (auto count = r.below(6 * nodes); count-- > 0;) {
    auto const from = static_cast<std::uint32_t>(r.below(nodes));
    auto const to = static_cast<std::uint32_t>(r.below(nodes));
    if (from == to) continue;
    x.arc(
        from, to,
        from != 0 && r.one_in(5) ? cleave::detail::unreachable_load : static_cast<std::int64_t>(r.below(12)));
  }
  return x;
}

/// A ladder whose rungs are joined in both directions, so that paths are as long as the ladder.
both_flows ladder(cleave::testing::rng& r, std::uint32_t rungs) {
  both_flows x(2 + 2 * rungs);
  for (std::uint32_t i = 0; i < 2 * rungs; ++i) {
    auto const here = 2 + i, beside = 2 + (i ^ 1);
    x.arc(here, beside, static_cast<std::int64_t>(r.below(9)));
    if (i + 2 < 2 * rungs) x.arc(here, here + 2, static_cast<std::int64_t>(1 + r.below(9)));
    if (i >= 2) x.arc(here, here - 2, static_cast<std::int64_t>(r.below(9)));
  }
  for (std::uint32_t i = 0; i < 2; ++i) {
    x.arc(0, 2 + i, 20);
    x.arc(2 * rungs + i, 1, 20);
  }
  return x;
}

}  // namespace

TEST_CASE("pushed_flow: equals local_flow, and never exceeds it if stopped early") {
  cleave::testing::rng r(1);
  int connected = 0;
  for (int i = 0; i < 3000; ++i) {
    auto x = random_flows(r, 2 + r.below(i % 10 == 0 ? 60 : 9));
    auto const all = x.local.most(0, 1, 10'000'000);
    auto stopped = x.pushed;
    CHECK(x.pushed.most(0, 1, 10'000'000) == all);
    CHECK(stopped.most(0, 1, r.below(100)) <= all);
    connected += all > 0 ? 1 : 0;
  }
  CHECK(connected > 1000);
}

TEST_CASE("pushed_flow: equals local_flow on long ladders") {
  cleave::testing::rng r(2);
  for (std::uint32_t const rungs : {1u, 2u, 30u, 500u}) {
    auto x = ladder(r, rungs);
    CHECK(x.pushed.most(0, 1, 100'000'000) == x.local.most(0, 1, 1'000'000'000));
    CHECK(x.pushed.steps() > 0);
  }
}
