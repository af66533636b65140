// SPDX-License-Identifier: MIT
#include "cleave/partition/exact/certificate.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "cleave/partition/slices/balance.hpp"
#include "support/brute_force.hpp"
#include "support/error_text.hpp"
#include "support/random_graph.hpp"
#include "support/rng.hpp"
#include "support/snapshot_builder.hpp"

namespace {

using cleave::balance_options;
using cleave::bound_proof;
using cleave::certify;
using cleave::testing::error_text;
using cleave::testing::rng;
using cleave::testing::small_graph;
using cleave::testing::snapshot_builder;

/// Blocks with a wide value that several nodes read, connected by narrow values.
cleave::snapshot_arrays blocks(int count, std::size_t wide) {
  snapshot_builder b;
  std::vector<std::uint32_t> last;
  for (int i = 0; i < count; ++i) {
    auto const opened = b.node(1, last, wide);
    auto const left = b.node(4, {opened}, wide), right = b.node(4, {opened}, wide);
    last = {b.node(1, {left, right}, 1)};
  }
  return b.build();
}

}  // namespace

TEST_CASE("certify: no bound exceeds the best of all assignments of small graphs") {
  rng r(1);
  std::size_t met = 0, by_dominator_chain = 0;
  for (int i = 0; i < 1500; ++i) {
    CAPTURE(i);
    auto const g = cleave::testing::random_graph(r, {.nodes = 1 + r.below(9),
                                                     .most_operands = 1 + r.below(3),
                                                     .reach = r.below(3),
                                                     .replicable = 8,
                                                     .tied = 8,
                                                     .ordered = 8});
    balance_options o{.cost_per_byte = static_cast<double>(r.below(4)) / 2};
    auto const k = 1 + static_cast<std::uint32_t>(r.below(4));
    if (r.one_in(2)) o.empty = cleave::empty_parts::allowed;
    if (r.one_in(4)) {
      std::vector<double> speed;
      for (std::uint32_t s = 0; s < k; ++s) speed.push_back(1 + static_cast<double>(r.below(3)));
      o.speed = speed;
      o.empty = cleave::empty_parts::allowed;
    }
    if (r.one_in(4)) {
      std::vector<double> link;
      for (std::uint32_t s = 0; s < k; ++s) link.push_back(static_cast<double>(r.below(3)) / 2);
      o.link = link;
    }
    if (r.one_in(4)) {
      o.backward.resize(g.nodes());
      for (auto& back : o.backward) back = r.one_in(3);
    }
    double const best = small_graph(g, o).best_ascending(k);
    auto const c = certify(g, k, o);
    if (best < small_graph::impossible) REQUIRE(c.bound <= best * (1 + 1e-9));
    auto const told = certify(g, k, o, best);
    REQUIRE(told.bound <= best * (1 + 1e-9));
    REQUIRE(told.gap(best) >= -1e-9);
    met += best < small_graph::impossible && told.bound >= best * (1 - 1e-9);
    by_dominator_chain += told.by == bound_proof::dominator_chain;
  }
  REQUIRE(met > 500);
  REQUIRE(by_dominator_chain > 20);
}

TEST_CASE("certify: the dominator chain proves that wide values are not cut, which closes the gap") {
  auto const g = blocks(9, 6);  // 90 in all; three blocks per part, with a narrow value on each side
  auto const p = cleave::balance(g, 3);
  REQUIRE(p.bottleneck == 32);
  REQUIRE(p.bound == 30);
  auto const c = certify(g, 3, {}, p.bottleneck);
  REQUIRE(c.bound > p.bound);
  REQUIRE(c.by == bound_proof::dominator_chain);
  auto const four = cleave::balance(g, 4);  // nine blocks cannot be spread evenly over four parts
  REQUIRE(four.bottleneck == 31);
  REQUIRE(four.bound < 0.75 * four.bottleneck);
  REQUIRE(certify(g, 4, {}, four.bottleneck).bound == four.bottleneck);
}

TEST_CASE("certify: an empty graph has bound 0, and gap() is the relative distance to the bound") {
  REQUIRE(certify(cleave::snapshot_arrays{}, 2).bound == 0);
  cleave::certificate const c{10, bound_proof::even_share};
  REQUIRE(c.gap(12) == doctest::Approx(0.2));
  REQUIRE(c.gap(10) == 0);
  REQUIRE(cleave::certificate{}.gap(1) == std::numeric_limits<double>::infinity());
}

TEST_CASE("certify: rejects a negative weight and names the node") {
  snapshot_builder b;
  b.node(-1, {}, 1);
  REQUIRE(error_text([&] { certify(b.build(), 2); }) ==
          "certify: the weight of node #0 is -1.000000: weights must be finite and not negative");
}
