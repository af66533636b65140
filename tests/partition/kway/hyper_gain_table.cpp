// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/partition/kway/detail/hyper_level.hpp"
#include "cleave/partition/kway/detail/hyper_refinement.hpp"
#include "support/rng.hpp"

namespace {

using namespace cleave::detail;
using cleave::testing::rng;

/// A hypergraph in which some nodes have many nets, and some nets many pins.
hyper_level random_level(rng& r, std::size_t nodes, std::size_t nets) {
  hyper_builder b(nodes);
  for (std::size_t e = 0; e < nets; ++e) {
    auto const size = r.one_in(5) ? nodes / 2 : 2 + r.below(4);
    for (std::size_t i = 0; i < size; ++i)
      b.add_pin(static_cast<std::uint32_t>(r.one_in(2) ? r.below(nodes) : r.below(1 + nodes / 4)));
    b.end_net(static_cast<std::int64_t>(1 + r.below(9)));
  }
  return b.level(std::vector<std::int64_t>(nodes, 1), {});
}

/// Counts the weight of the nets of a node that have pins in a part: other pins than the node, in its own
/// part.
std::int64_t shared_weight(hyper_level const& h, std::vector<std::uint32_t> const& of, std::uint32_t n,
                           std::uint32_t part, bool others_only) {
  std::int64_t sum = 0;
  for (auto at = h.node_first[n]; at < h.node_first[n + 1]; ++at) {
    auto const e = h.net[at];
    bool there = false;
    for (auto i = h.net_first[e]; i < h.net_first[e + 1]; ++i)
      there |= of[h.pin[i]] == part && !(others_only && h.pin[i] == n);
    if (there) sum += h.net_weight[e];
  }
  return sum;
}

}  // namespace

TEST_CASE("hyper_gain_table: keeps what a count finds, while nodes move") {
  rng r(1);
  std::size_t rows = 0, without = 0;
  for (int round = 0; round < 30; ++round) {
    auto const nodes = 4 + r.below(30);
    auto const parts = static_cast<std::uint32_t>(2 + r.below(6));
    auto const h = random_level(r, nodes, 5 + r.below(60));
    std::vector<std::uint32_t> of;
    for (std::size_t n = 0; n < nodes; ++n) of.push_back(static_cast<std::uint32_t>(r.below(parts)));
    net_pin_counts pins(h, of, parts);
    hyper_gain_table gains(h, of, pins, parts, parts);
    for (int move = 0; move < 40; ++move) {
      auto const n = static_cast<std::uint32_t>(r.below(nodes));
      auto const from = of[n], to = static_cast<std::uint32_t>((from + 1 + r.below(parts - 1)) % parts);
      of[n] = to;
      for (auto at = h.node_first[n]; at < h.node_first[n + 1]; ++at) {
        pins.move(h.net[at], from, to);
        gains.net_changed(h.net[at], n, from, to);
      }
      gains.moved(n);
      for (std::uint32_t m = 0; m < nodes; ++m) {
        REQUIRE(gains.has(m) == (h.node_first[m + 1] - h.node_first[m] >= parts));
        if (!gains.has(m)) {
          ++without;
          continue;
        }
        ++rows;
        REQUIRE(gains.loss(m) == shared_weight(h, of, m, of[m], true));
        for (std::uint32_t part = 0; part < parts; ++part)
          REQUIRE(gains.shared(m, part) == shared_weight(h, of, m, part, false));
      }
    }
  }
  CHECK(rows > 1000);
  CHECK(without > 100);
}
