// SPDX-License-Identifier: MIT
#include "cleave/adapt/range_v3.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <range/v3/range/conversion.hpp>
#include <range/v3/view/take.hpp>
#include <vector>

#include "cleave/partition/model/partition.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;
namespace views = ranges::views;

namespace {

using edge = cut_edge<std::int64_t>;

partition const halves{{part_id{0}, part_id{1}, part_id{1}, part_id{0}, no_part}, 2};

}  // namespace

TEST_CASE("nodes_of: returns a view that composes with others, as parts_of does") {
  auto here = nodes_of(halves, part_id{1});
  CHECK((here | ranges::to<std::vector>()) == std::vector<std::size_t>{1, 2});
  auto doubled = nodes_of(halves, part_id{0}) | views::transform([](auto n) { return 2 * n; });
  CHECK((doubled | ranges::to<std::vector>()) == std::vector<std::size_t>{0, 6});
  auto const members = part_members(halves);
  auto first_of_each = parts_of(members) | views::transform([](auto nodes) { return nodes.front(); });
  CHECK((first_of_each | ranges::to<std::vector>()) == std::vector<std::size_t>{0, 1});
  CHECK(ranges::random_access_range<decltype(parts_of(members))>);
}

TEST_CASE("cut_edges: yields each edge between parts once, and composes with views::take") {
  adjacency<std::uint32_t> const path{
      .offsets = {0, 1, 3, 4}, .targets = {1, 0, 2, 1}, .node_weight = {}, .edge_weight = {5, 5, 7, 7}};
  partition const p{{part_id{0}, part_id{1}, part_id{0}}, 2};
  CHECK((cut_edges(path.view(), p) | ranges::to<std::vector>()) == std::vector<edge>{{0, 1, 5}, {1, 2, 7}});
  CHECK((cut_edges(path.view(), p) | views::take(1) | ranges::to<std::vector>()) ==
        std::vector<edge>{{0, 1, 5}});

  cleave::testing::rng dice(8);
  for (int round = 0; round < 50; ++round) {
    auto const n = 1 + dice.below(10);
    std::vector<std::vector<std::uint32_t>> rows(n);
    partition parts{{}, 3};
    for (std::size_t i = 0; i < n; ++i)
      parts.of.push_back(part_id{static_cast<std::uint32_t>(dice.below(3))});
    std::int64_t crossing = 0;
    for (auto edges = dice.below(20); edges > 0; --edges) {
      auto const a = dice.below(n), b = dice.below(n);
      if (a == b) continue;
      rows[a].push_back(static_cast<std::uint32_t>(b)), rows[b].push_back(static_cast<std::uint32_t>(a));
      crossing += parts.of[a] != parts.of[b];
    }
    adjacency<std::uint32_t> g;
    for (auto const& row : rows) {
      g.targets.insert(g.targets.end(), row.begin(), row.end());
      g.offsets.push_back(static_cast<std::uint32_t>(g.targets.size()));
    }
    std::int64_t seen = 0;
    for (auto const& e : cut_edges(g.view(), parts)) seen += e.weight;
    CHECK(seen == crossing);
  }
}
