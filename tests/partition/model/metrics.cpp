// SPDX-License-Identifier: MIT
#include "cleave/partition/model/metrics.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <vector>

#include "cleave/partition/model/validity.hpp"
#include "support/brute_force.hpp"
#include "support/random_graph.hpp"
#include "support/rng.hpp"
#include "support/snapshot_builder.hpp"

namespace {

using cleave::no_part;
using cleave::part_id;
using cleave::testing::snapshot_builder;

constexpr part_id p0{0}, p1{1}, p2{2};

}  // namespace

TEST_CASE("part_loads: a value is sent once and received once by each part that reads it") {
  snapshot_builder b;
  auto const x = b.node(5, {b.input(1000)}, 10);
  auto const y = b.node(3, {x, x}, 7);
  b.node(2, {x});
  b.node(1, {x, y});
  auto const g = b.build();
  cleave::partition const p{{p0, p1, p1, p2}, 3};
  CHECK(cleave::part_weights(g, p) == std::vector<double>{5, 5, 1});
  CHECK(cleave::detail::part_transfers(g, p) == std::vector<std::size_t>{10, 17, 17});
  CHECK(cleave::part_loads(g, p) == std::vector<double>{15, 22, 18});
  CHECK(cleave::part_loads(g, p, {.cost_per_byte = 0.5, .speed = {1, 5, 2}}) ==
        std::vector<double>{10, 9.5, 9});
  CHECK(cleave::bottleneck(g, p) == 22);
  CHECK(cleave::detail::cut_bytes(g, p) == 27);
  CHECK(cleave::detail::cut_values(g, p) == 2);
  CHECK(cleave::imbalance(g, p) == doctest::Approx(5 * 3 / 11.0 - 1));
}

TEST_CASE("unsized_cut_values: counts cut values of unknown size, which cost nothing") {
  snapshot_builder b;
  auto const x = b.node(1, {}, 0);
  b.node(1, {x});
  auto g = b.build();
  cleave::partition const p{{p0, p1}, 2};
  CHECK(cleave::detail::unsized_cut_values(g, p) == 1);
  CHECK(cleave::detail::cut_bytes(g, p) == 0);
  g.bytes.clear();
  CHECK(cleave::detail::unsized_cut_values(g, p) == 1);
  CHECK(cleave::bottleneck(g, p) == 1);
}

TEST_CASE("part_loads: replicable nodes and nodes without a part cost nothing") {
  snapshot_builder b;
  auto const c = b.node(100, {}, 50);
  b.replicable();
  auto const x = b.node(1, {c}, 9);
  auto const y = b.node(1, {c, x}, 9);
  b.node(1, {y});
  auto const g = b.build();
  cleave::partition const p{{no_part, p0, p1, no_part}, 2};
  CHECK(cleave::part_loads(g, p) == std::vector<double>{10, 10});
}

TEST_CASE("part_loads, part_memory: equal a direct count on random graphs") {
  cleave::testing::rng r(1);
  for (int i = 0; i < 200; ++i) {
    auto const g = random_graph(r, {.nodes = 1 + r.below(9), .states = 4, .replicable = 5});
    auto const parts = static_cast<std::uint32_t>(1 + r.below(4));
    auto const p = cleave::testing::random_partition(r, g.nodes(), parts);
    cleave::balance_options o{.cost_per_byte = 2};
    for (std::size_t n = 0; n < g.nodes(); ++n) o.node_memory.push_back(r.below(4));
    auto const memory = cleave::part_memory(g, p, o.node_memory);
    auto const loads = cleave::part_loads(g, p, {.cost_per_byte = 2});
    for (std::uint32_t part = 0; part < parts; ++part) {
      cleave::testing::small_graph::set members = 0;
      for (std::size_t n = 0; n < g.nodes(); ++n)
        if (p.of[n] == part_id{part} && !g.replicable[n]) members |= 1u << n;
      o.memory = memory[part];
      REQUIRE(cleave::testing::small_graph(g, o).load(0, members) == loads[part]);
      if (memory[part] == 0) continue;
      o.memory = memory[part] - 1;
      REQUIRE(cleave::testing::small_graph(g, o).load(0, members) ==
              cleave::testing::small_graph::impossible);
    }
  }
}

TEST_CASE("part_transfers: bytes that overflow are an error that names the node") {
  snapshot_builder b;
  auto const huge = std::numeric_limits<std::size_t>::max();
  auto const x = b.node(1, {}, huge);
  b.node(1, {x}, 1);
  b.name("second");
  b.node(1, {1});
  auto const g = b.build();
  CHECK_THROWS_WITH_AS(cleave::detail::part_transfers(g, {{p0, p1, p0}, 2}), doctest::Contains("second (#1)"),
                       cleave::error);
}

TEST_CASE("metrics.hpp: an empty graph has bottleneck, imbalance and cut 0") {
  auto const g = snapshot_builder{}.build();
  CHECK(cleave::bottleneck(g, {}) == 0);
  CHECK(cleave::imbalance(g, {}) == 0);
  CHECK(cleave::detail::cut_bytes(g, {}) == 0);
}
