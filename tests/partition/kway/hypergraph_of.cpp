// SPDX-License-Identifier: MIT
#include "cleave/partition/kway/hypergraph_of.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/graph/hypergraph.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/partition/kway/hypergraph_cut.hpp"
#include "cleave/partition/kway/partition_hypergraph.hpp"
#include "cleave/partition/model/partition.hpp"
#include "support/rng.hpp"

namespace {

/// Operations with one result each, of random sizes, which read earlier results.
struct operations {
  std::vector<std::size_t> ids;
  std::vector<std::vector<std::size_t>> inputs;
  std::vector<std::size_t> sizes;

  std::span<std::size_t const> nodes() const { return ids; }
  std::span<std::size_t const> operands(std::size_t n) const { return inputs[n]; }
  double weight(std::size_t n) const { return static_cast<double>(n % 3 + 1); }
  std::size_t bytes(std::size_t n) const { return sizes[n]; }
};

operations random_operations(cleave::testing::rng& r, std::size_t nodes) {
  operations g;
  for (std::size_t n = 0; n < nodes; ++n) {
    g.ids.push_back(n);
    g.inputs.emplace_back();
    for (auto reads = n == 0 ? 0 : r.below(4); reads > 0; --reads) g.inputs.back().push_back(r.below(n));
    g.sizes.push_back(1 + r.below(9));
  }
  return g;
}

}  // namespace

TEST_CASE("hypergraph_of: the connectivity of parts is the number of bytes that they send to each other") {
  cleave::testing::rng r(1);
  for (int i = 0; i < 50; ++i) {
    auto const g = random_operations(r, 1 + r.below(40));
    auto const h = cleave::hypergraph_of(g);
    CHECK(!cleave::find_hypergraph_fault(h.view()));
    cleave::partition p{.of = {}, .parts = 1 + static_cast<std::uint32_t>(r.below(5))};
    for (std::size_t n = 0; n < g.ids.size(); ++n)
      p.of.push_back(cleave::part_id{static_cast<std::uint32_t>(r.below(p.parts))});
    std::set<std::pair<std::size_t, cleave::part_id>> sent;  // value and receiving part
    std::size_t bytes = 0;
    for (std::size_t n = 0; n < g.ids.size(); ++n)
      for (auto const value : g.inputs[n])
        if (p.of[value] != p.of[n] && sent.emplace(value, p.of[n]).second) bytes += g.sizes[value];
    CHECK(cleave::measure_cut(h.view(), p).connectivity == static_cast<double>(bytes));
  }
}

TEST_CASE("hypergraph_of: keeps node weights, and values that nothing reads become nets of one pin") {
  operations const g{{0, 1, 2}, {{}, {0}, {0}}, {4, 5, 6}};
  auto const h = cleave::hypergraph_of<std::uint64_t>(g);
  CHECK(h.node_weight == std::vector<double>{1, 2, 3});
  CHECK(h.offsets == std::vector<std::uint64_t>{0, 3, 4, 5});
  CHECK(h.pins == std::vector<std::uint64_t>{0, 1, 2, 1, 2});
  CHECK(h.net_weight == std::vector<double>{4, 5, 6});
}
