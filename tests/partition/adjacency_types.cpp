// SPDX-License-Identifier: MIT
// Offsets and ids of an undirected graph have 32 or 64 bits each. All algorithms give the same result for all
// four combinations.
#include <doctest/doctest.h>

#include <concepts>
#include <cstdint>
#include <vector>

#include "cleave/formats/graph_files/metis_graph.hpp"
#include "cleave/graph/adjacency.hpp"
#include "cleave/partition/classic/named_methods.hpp"
#include "cleave/partition/exact/min_k_cut.hpp"
#include "cleave/partition/kway/kway.hpp"
#include "cleave/partition/repartition/repartition.hpp"
#include "cleave/partition/verify/verify_partition.hpp"
#include "support/small_adjacency.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

template <std::integral Offset, std::integral Index>
struct arrays {
  using offset = Offset;
  using index = Index;
  std::vector<Offset> offsets;
  std::vector<Index> targets;
  std::vector<std::int64_t> node_weight, edge_weight;

  explicit arrays(adjacency<std::uint32_t> const& g)
      : offsets(g.offsets.begin(), g.offsets.end()),
        targets(g.targets.begin(), g.targets.end()),
        node_weight(g.node_weight),
        edge_weight(g.edge_weight) {}
  auto view() const { return adjacency_view{offsets, targets, node_weight, edge_weight}; }
};

/// A grid, and a grid with weights and a self-loop.
std::vector<adjacency<std::uint32_t>> graphs() {
  auto const plain = testing::grid_adjacency(12, 10);
  auto weighted = plain;
  for (std::uint32_t n = 0; n < 120; ++n) weighted.node_weight.push_back(1 + n % 3);
  weighted.targets.push_back(119);
  ++weighted.offsets.back();
  weighted.edge_weight.assign(weighted.targets.size(), 2);
  return {plain, weighted};
}

}  // namespace

TEST_CASE_TEMPLATE("adjacency_view: algorithms give the same result with 32-bit and 64-bit offsets and ids",
                   Arrays, arrays<std::int32_t, std::int32_t>, arrays<std::int64_t, std::int32_t>,
                   arrays<std::int32_t, std::int64_t>, arrays<std::int64_t, std::int64_t>,
                   arrays<std::uint64_t, std::uint32_t>) {
  for (auto const& like : graphs()) {
    Arrays const same(like);
    auto const g = same.view();
    static_assert(std::same_as<decltype(g.offsets[0]), typename Arrays::offset const&>);
    static_assert(std::same_as<decltype(g.targets[0]), typename Arrays::index const&>);
    CHECK(!find_adjacency_fault(g));
    for (auto const preset : {kway_preset::fast, kway_preset::standard}) {
      auto const p = partition_kway(g, 4, {.preset = preset}),
                 q = partition_kway(like.view(), 4, {.preset = preset});
      CHECK(p.of == q.of);
      CHECK(p.cut == q.cut);
      CHECK(refine_kway(g, p).of == refine_kway(like.view(), q).of);
      CHECK(verify_partition(g, p).cut == p.cut);
    }
    auto const old = partition_kway(g, 4);
    CHECK(repartition(g, old, 5, {}).of == repartition(like.view(), old, 5, {}).of);
    CHECK(classic_partition("fm", g, 3).of == classic_partition("fm", like.view(), 3).of);
    CHECK(edges_of(g).size() == edges_of(like.view()).size());
    CHECK(write_metis_graph(g) == write_metis_graph(like.view()));
  }
  Arrays const path(testing::grid_adjacency(3, 2));
  CHECK(min_k_cut(path.view(), 2, {}).cut == 3);
}

TEST_CASE_TEMPLATE("find_adjacency_fault: reports the position of a negative offset", Arrays,
                   arrays<std::int64_t, std::int32_t>, arrays<std::int32_t, std::int64_t>) {
  Arrays g(testing::grid_adjacency(3, 2));
  g.offsets[2] = -1;
  CHECK(find_adjacency_fault(g.view()) == adjacency_fault{adjacency_violation::offsets_out_of_range, 2, 0});
  CHECK_THROWS_WITH_AS(partition_kway(g.view(), 2),
                       "graph: offsets[2] is -1: offsets must begin at 0, never decrease, and end at the "
                       "number of arcs; there are 14 arcs",
                       adjacency_error);
}
