// SPDX-License-Identifier: MIT
#include "cleave/graph/flow/undirected_flow.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "support/rng.hpp"

namespace {

struct edge {
  std::uint32_t u, v;
  std::int64_t capacity;
};

struct network {
  std::size_t nodes;
  std::vector<edge> edges;

  /// The minimum cut between two sets (bit masks), by brute force.
  std::int64_t min_cut(std::size_t sources, std::size_t sinks) const {
    auto least = std::numeric_limits<std::int64_t>::max();
    for (std::size_t set = 0; set < std::size_t{1} << nodes; ++set) {
      if ((set & sources) != sources || (set & sinks) != 0) continue;
      least = std::min(least, weight(set));
    }
    return least;
  }
  std::int64_t weight(std::size_t set) const {
    std::int64_t cut = 0;
    for (auto const& e : edges)
      if ((set >> e.u & 1) != (set >> e.v & 1)) cut += e.capacity;
    return cut;
  }
  void fill(cleave::detail::undirected_flow& f) const {
    f.clear(nodes);
    for (auto const& e : edges) f.edge(e.u, e.v, e.capacity);
    f.build();
  }
};

network random_network(cleave::testing::rng& r, std::size_t most_nodes) {
  network x{2 + r.below(most_nodes - 1), {}};
  for (auto count = r.below(3 * x.nodes); count-- > 0;) {
    auto const u = static_cast<std::uint32_t>(r.below(x.nodes));
    auto const v = static_cast<std::uint32_t>(r.below(x.nodes));
    if (u != v) x.edges.push_back({u, v, static_cast<std::int64_t>(r.below(7))});
  }
  return x;
}

constexpr auto no_bound = std::numeric_limits<std::int64_t>::max();
using cleave::detail::flow_end;

/// The nodes that `end` reaches, as a bit mask.
std::size_t reach(cleave::detail::undirected_flow const& f, flow_end end) {
  std::size_t set = 0;
  for (std::uint32_t n = 0; n < f.nodes(); ++n) set |= std::size_t{f.reaches(end, n)} << n;
  return set;
}

}  // namespace

TEST_CASE("undirected_flow: the maximum flow equals the minimum cut found by brute force") {
  cleave::testing::rng r(1);
  cleave::detail::undirected_flow f;  // reused for all networks, to test that `clear` removes everything
  int positive = 0;
  for (int i = 0; i < 500; ++i) {
    auto const x = random_network(r, 9);
    x.fill(f);
    f.add(flow_end::source, 0), f.add(flow_end::sink, 1);
    REQUIRE(f.advance(flow_end::source, no_bound));
    REQUIRE(f.flow() == x.min_cut(1, 2));
    REQUIRE(x.weight(reach(f, flow_end::source)) == f.flow());
    REQUIRE(x.weight(reach(f, flow_end::sink)) == f.flow());
    positive += f.flow() > 0;
  }
  CHECK(positive > 100);
}

TEST_CASE("undirected_flow: the flow stays maximal while the source or sink set grows") {
  cleave::testing::rng r(2);
  cleave::detail::undirected_flow f;
  int grown = 0;
  for (int i = 0; i < 400; ++i) {
    auto const x = random_network(r, 9);
    x.fill(f);
    std::size_t sets[2] = {1, 2};
    f.add(flow_end::source, 0), f.add(flow_end::sink, 1);
    REQUIRE(f.advance(flow_end::source, no_bound));
    for (auto const before = f.flow();;) {
      auto const end = r.one_in(2) ? flow_end::source : flow_end::sink;
      if (r.one_in(2)) {
        sets[static_cast<std::size_t>(end)] = reach(f, end);
        f.absorb(end);
      }
      std::vector<std::uint32_t> free;
      for (std::uint32_t n = 0; n < x.nodes; ++n)
        if (f.free(n)) free.push_back(n);
      if (free.empty()) {
        grown += f.flow() > before;
        break;
      }
      auto const n = free[r.below(free.size())];
      f.add(end, n);
      sets[static_cast<std::size_t>(end)] |= std::size_t{1} << n;
      REQUIRE(f.advance(end, no_bound));
      REQUIRE(f.flow() == x.min_cut(sets[0], sets[1]));
      REQUIRE(x.weight(reach(f, flow_end::source)) == f.flow());
      REQUIRE(x.weight(reach(f, flow_end::sink)) == f.flow());
    }
  }
  CHECK(grown > 100);
}

TEST_CASE("undirected_flow: stops once the flow reaches the given bound") {
  cleave::detail::undirected_flow f;
  f.clear(5);
  for (std::uint32_t middle = 2; middle < 5; ++middle) f.edge(0, middle, 10), f.edge(middle, 1, 7);
  f.build();
  f.add(flow_end::source, 0), f.add(flow_end::sink, 1);
  CHECK_FALSE(f.advance(flow_end::source, 8));
  CHECK(f.flow() >= 8);
  CHECK(f.flow() <= 21);
}
