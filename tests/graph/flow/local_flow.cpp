// SPDX-License-Identifier: MIT
#include "cleave/graph/flow/local_flow.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/rng.hpp"

namespace {

struct arc {
  std::uint32_t from, to;
  std::int64_t capacity;
};

struct network {
  std::size_t nodes;
  std::vector<arc> arcs;

  /// The minimum cut between source and sink, by brute force over all sets.
  std::int64_t min_cut(std::uint32_t source, std::uint32_t sink) const {
    auto least = 2 * cleave::detail::unreachable_load;
    for (std::size_t set = 0; set < std::size_t{1} << nodes; ++set) {
      auto const has = [&](std::uint32_t n) { return (set >> n & 1) != 0; };
      if (!has(source) || has(sink)) continue;
      std::int64_t cut = 0;
      for (auto const& a : arcs)
        if (has(a.from) && !has(a.to))
          cut = std::min(cut + a.capacity, 2 * cleave::detail::unreachable_load - 1);
      least = std::min(least, cut);
    }
    return least;
  }
  cleave::detail::local_flow flow() const {
    cleave::detail::local_flow f(nodes);
    for (auto const& [from, to, capacity] : arcs) f.arc(from, to, capacity);
    return f;
  }
};

/// A network with loops, parallel and opposite arcs, arcs into the source and arcs out of the sink.
network random_network(cleave::testing::rng& r) {
  network x{2 + r.below(7), {}};
  auto const node = [&] { return static_cast<std::uint32_t>(r.below(x.nodes)); };
  for (auto count = r.below(4 * x.nodes); count-- > 0;)
    x.arcs.push_back({node(), node(), static_cast<std::int64_t>(r.below(12))});
  return x;
}

}  // namespace

TEST_CASE("local_flow: the maximum flow equals the minimum cut found by brute force") {
  cleave::testing::rng r(1);
  int connected = 0;
  for (int i = 0; i < 1000; ++i) {
    auto const x = random_network(r);
    auto const flow = x.flow().most(0, 1, 100'000);
    REQUIRE(flow == x.min_cut(0, 1));
    connected += flow != 0;
  }
  CHECK(connected > 300);
}

TEST_CASE("local_flow: the reached nodes are the smallest source side of a minimum cut") {
  cleave::testing::rng r(3);
  for (int i = 0; i < 1000; ++i) {
    auto const x = random_network(r);
    auto f = x.flow();
    auto const flow = f.most(0, 1, 100'000);
    REQUIRE_FALSE(f.reached(1));
    auto const cut_of = [&](std::size_t set) {
      std::int64_t cut = 0;
      for (auto const& a : x.arcs)
        if ((set >> a.from & 1) != 0 && (set >> a.to & 1) == 0) cut += a.capacity;
      return cut;
    };
    std::size_t side = 0;
    for (std::uint32_t n = 0; n < x.nodes; ++n) side |= std::size_t{f.reached(n)} << n;
    REQUIRE(cut_of(side) == flow);
    for (std::size_t set = 1; set < std::size_t{1} << x.nodes; set += 4)  // contains node 0 but not node 1
      if (cut_of(set) == flow) REQUIRE((side & set) == side);
  }
}

TEST_CASE("local_flow: stops after the given number of searches, and a later call finishes the flow") {
  network const x{
      8, {{0, 2, 1}, {2, 3, 1}, {3, 1, 1}, {0, 4, 1}, {4, 5, 1}, {5, 3, 1}, {2, 6, 1}, {6, 7, 1}, {7, 1, 1}}};
  auto f = x.flow();
  CHECK(f.most(0, 1, 1000, 1) == 1);
  CHECK(f.reached(1));
  CHECK(f.most(0, 1, 1000) == 1);  // the remaining flow
  CHECK_FALSE(f.reached(1));
}

TEST_CASE("local_flow: with few steps, the flow never exceeds the minimum cut and grows with the steps") {
  cleave::testing::rng r(2);
  for (int i = 0; i < 100; ++i) {
    auto const x = random_network(r);
    auto const cut = x.min_cut(0, 1);
    std::int64_t before = 0;
    for (std::size_t steps = 0; steps < 60; ++steps) {
      auto const flow = x.flow().most(0, 1, steps);
      REQUIRE(flow >= before);
      REQUIRE(flow <= cut);
      before = flow;
    }
  }
}

TEST_CASE("local_flow: an unreachable sink gets no flow, and unlimited arcs keep the limits of others") {
  CHECK(cleave::detail::local_flow(2).most(0, 1, 1000) == 0);
  cleave::detail::local_flow f(4);
  f.arc(0, 2, cleave::detail::unreachable_load);
  f.arc(2, 3, std::int64_t{1} << 59);
  f.arc(3, 1, cleave::detail::unreachable_load);
  CHECK(f.most(0, 1, 1000) == std::int64_t{1} << 59);
}

TEST_CASE("local_flow: handles a path of 100,000 arcs") {
  std::uint32_t const n = 100'000;
  cleave::detail::local_flow f(n);
  for (std::uint32_t i = 1; i < n; ++i) f.arc(i - 1, i, 1 + i);
  CHECK(f.most(0, n - 1, 10 * n) == 2);
}

TEST_CASE("local_flow: reroutes flow off the shortest path to reach the maximum") {
  network const x{
      8, {{0, 2, 1}, {2, 3, 1}, {3, 1, 1}, {0, 4, 1}, {4, 5, 1}, {5, 3, 1}, {2, 6, 1}, {6, 7, 1}, {7, 1, 1}}};
  CHECK(x.flow().most(0, 1, 1000) == 2);
  CHECK(x.min_cut(0, 1) == 2);
}
