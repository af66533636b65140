// SPDX-License-Identifier: MIT
#include "cleave/partition/kway/stream_partitioner.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cleave/graph/adjacency.hpp"
#include "support/cases.hpp"
#include "support/error_text.hpp"
#include "support/rng.hpp"
#include "support/small_adjacency.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

using graph = adjacency<std::uint32_t>;

graph_totals totals_of(graph const& g) {
  graph_totals t{g.view().nodes(), 0, 0};
  for (std::size_t n = 0, e = 0; n < t.nodes; ++n) {
    *t.node_weight += g.view().weight(n);
    for (; e < g.offsets[n + 1]; ++e)
      if (g.targets[e] < n) *t.edge_weight += g.view().weight_of_edge(e);
  }
  return t;
}

kway_partition<std::int64_t> streamed(graph const& g, std::uint32_t parts, stream_options const& o = {}) {
  stream_partitioner s(parts, totals_of(g), o);
  for (std::size_t n = 0; n < g.view().nodes(); ++n) {
    std::vector<std::uint64_t> to;
    std::vector<std::int64_t> weight;
    for (auto e = g.offsets[n]; e < g.offsets[n + 1]; ++e) {
      to.push_back(g.targets[e]);
      weight.push_back(g.view().weight_of_edge(e));
    }
    s.add(to, g.view().weight(n), weight);
  }
  return s.finish();
}

std::int64_t cut_of_parts(graph const& g, partition const& p) {
  std::int64_t cut = 0;
  for (std::size_t n = 0; n < g.view().nodes(); ++n)
    for (auto e = g.offsets[n]; e < g.offsets[n + 1]; ++e)
      if (g.targets[e] < n && p.of[n] != p.of[g.targets[e]]) cut += g.view().weight_of_edge(e);
  return cut;
}

/// LDG and Fennel in a few lines: looks at all parts for each node.
partition placed_one_by_one(graph const& g, std::uint32_t parts, stream_options const& o) {
  auto const t = totals_of(g);
  auto const nodes = g.view().nodes();
  auto const share = *t.node_weight / parts + (*t.node_weight % parts != 0);
  auto const limit =
      std::min(*t.node_weight, share + static_cast<std::int64_t>(o.imbalance * static_cast<double>(share)));
  auto const n = static_cast<double>(std::max<std::int64_t>(1, *t.node_weight));
  auto const price = 1.5 * std::sqrt(parts) * (static_cast<double>(*t.edge_weight) / (n * std::sqrt(n)));
  partition p{{}, parts};
  std::vector<std::int64_t> weight(parts, 0);
  std::vector<std::size_t> size(parts, 0);
  for (std::size_t node = 0; node < nodes; ++node) {
    auto const w = g.view().weight(node);
    std::vector<std::int64_t> into(parts, 0);
    for (auto e = g.offsets[node]; e < g.offsets[node + 1]; ++e)
      if (g.targets[e] < node) into[index(p.of[g.targets[e]])] += g.view().weight_of_edge(e);
    auto best = parts;
    double most = 0;
    auto const empty = static_cast<std::size_t>(std::ranges::count(size, 0u));
    for (std::uint32_t part = 0; part < parts; ++part) {
      if (weight[part] + w > limit || (nodes - node <= empty && size[part] > 0)) continue;
      auto const edges = static_cast<double>(into[part]), heavy = static_cast<double>(weight[part]);
      auto const score = o.rule == stream_rule::ldg ? edges * static_cast<double>(limit - weight[part])
                         : w == 0                   ? edges
                                  : edges / static_cast<double>(w) - price * std::sqrt(heavy);
      if (best == parts || score > most || (score == most && weight[part] < weight[best]))
        best = part, most = score;
    }
    if (best == parts) best = static_cast<std::uint32_t>(std::ranges::min_element(weight) - weight.begin());
    weight[best] += w;
    ++size[best];
    p.of.push_back(part_id{best});
  }
  return p;
}

graph some_graph(testing::rng& r, std::size_t round) {
  auto g = testing::random_adjacency(r, 1 + r.below(120), r.below(400), 1 + round % 3 * 4);
  if (round % 3 == 0) g.node_weight.clear(), g.edge_weight.clear();
  return g;
}

}  // namespace

TEST_CASE("stream_partitioner: places each node, keeps the limits, and counts the cut of the whole graph") {
  testing::rng r(1);
  for (std::size_t round = 0; round < testing::cases(6, 30); ++round) {
    auto const g = some_graph(r, round);
    auto const nodes = g.view().nodes();
    stream_options o;
    o.rule = round % 2 == 0 ? stream_rule::ldg : stream_rule::fennel;
    o.imbalance = 10;  // any node fits
    o.buffer = std::vector<std::size_t>{0, 1, 2, 7, 40, 1000}[round % 6];
    o.preset = kway_preset::fast;
    auto const few = std::min<std::size_t>(nodes, 6);  // tiny buffers are cut often, which takes long
    auto const parts = static_cast<std::uint32_t>(1 + r.below(o.buffer == 1 || o.buffer == 2 ? few : nodes));
    CAPTURE(round);
    auto const p = streamed(g, parts, o);
    REQUIRE(p.of.size() == nodes);
    CHECK(p.parts == parts);
    CHECK(p.cut == cut_of_parts(g, p));
    std::vector<std::int64_t> weight(parts, 0);
    std::vector<std::size_t> size(parts, 0);
    for (std::size_t n = 0; n < nodes; ++n) {
      REQUIRE(index(p.of[n]) < parts);
      weight[index(p.of[n])] += g.view().weight(n);
      ++size[index(p.of[n])];
    }
    CHECK(p.part_weights == weight);
    CHECK(std::ranges::count(size, 0u) == 0);
    CHECK(p.within_limits);
  }
}

TEST_CASE("stream_partitioner: keeps tight limits of nodes that weigh 1") {
  testing::rng r(2);
  for (std::size_t round = 0; round < testing::cases(6, 12); ++round) {
    auto g = testing::random_adjacency(r, 60 + r.below(100), r.below(600), 5);
    g.node_weight.clear();
    auto const parts = static_cast<std::uint32_t>(2 + r.below(8));
    auto const p = streamed(g, parts,
                            {.imbalance = 0,
                             .rule = round % 2 == 0 ? stream_rule::ldg : stream_rule::fennel,
                             .buffer = 16 * (round % 3)});
    auto const share = static_cast<std::int64_t>((g.view().nodes() + parts - 1) / parts);
    CHECK(p.within_limits);
    CHECK(*std::ranges::max_element(p.part_weights) <= share);
    CHECK(p.imbalance <= 0);
  }
}

TEST_CASE("stream_partitioner: without a buffer, it is LDG or Fennel") {
  testing::rng r(3);
  for (std::size_t round = 0; round < testing::cases(80, 200); ++round) {
    auto const g = some_graph(r, round);
    auto const parts = static_cast<std::uint32_t>(1 + r.below(20));
    stream_options const o{.imbalance = round % 5 == 0 ? 10 : 4.0,
                           .rule = round % 2 == 0 ? stream_rule::ldg : stream_rule::fennel,
                           .buffer = 0};
    if (std::ranges::any_of(g.node_weight, [&](auto w) { return w * parts > *totals_of(g).node_weight; }))
      continue;  // a node may be too heavy for a part
    CAPTURE(round);
    CHECK(streamed(g, parts, o).of == placed_one_by_one(g, parts, o).of);
  }
}

TEST_CASE("stream_partitioner: a buffer never makes the cut larger") {
  testing::rng r(4);
  for (std::size_t round = 0; round < testing::cases(2, 10); ++round) {
    auto g = testing::random_adjacency(r, 100, 300, 1);
    g.node_weight.clear(), g.edge_weight.clear();
    auto const rule = round % 2 == 0 ? stream_rule::ldg : stream_rule::fennel;
    auto const alone = streamed(g, 4, {.rule = rule, .buffer = 0});
    for (std::size_t const buffer : {10u, 30u, 200u})
      CHECK(streamed(g, 4, {.rule = rule, .buffer = buffer}).cut <= alone.cut);
  }
}

TEST_CASE("stream_partitioner: a buffer for all nodes cuts a ring of cliques between them") {
  graph g;
  for (std::uint32_t n = 0; n < 64; ++n) {  // node n is in clique n mod 4, so that its order misleads LDG
    for (std::uint32_t to = n % 4; to < 64; to += 4)
      if (to != n) g.targets.push_back(to);
    if (n < 4) g.targets.insert(g.targets.end(), {(n + 1) % 4, (n + 3) % 4});
    g.offsets.push_back(static_cast<std::uint32_t>(g.targets.size()));
  }
  CHECK(streamed(g, 4).cut == 4);
  CHECK(streamed(g, 4, {.buffer = 16}).cut == 4);
}

TEST_CASE("stream_partitioner: threads do not affect the result, seeds are kept") {
  testing::rng r(5);
  auto const nodes = testing::cases(100, 1000);
  auto const g = testing::random_adjacency(r, nodes, 3 * nodes, 3);
  stream_options o{.imbalance = 0.1, .buffer = nodes / 4, .seed = 7};
  auto const one = streamed(g, 8, o);
  CHECK(streamed(g, 8, o).of == one.of);
  o.threads = 3;
  CHECK(streamed(g, 8, o).of == one.of);
}

TEST_CASE("stream_partitioner: edges may come with the later node only after the buffer") {
  graph_totals const path{5, {}, 4};
  stream_partitioner s(2, path, {.buffer = 2});
  s.add(std::vector<std::uint64_t>{4});
  s.add(std::vector<std::uint64_t>{2});
  s.add(std::vector<std::uint64_t>{1, 3});
  s.add(std::vector<std::uint64_t>{2, 4});
  s.add(std::vector<std::uint64_t>{3, 0});
  auto const p = s.finish();
  CHECK(p.cut >= 1);
  CHECK(p.within_limits);
}

TEST_CASE("stream_partitioner: an empty graph and a single part") {
  CHECK(stream_partitioner(3, {.nodes = 0}).finish().of.empty());
  graph const pair{{0, 1, 2}, {1, 0}, {}, {}};
  CHECK(streamed(pair, 1).cut == 0);
  CHECK(streamed(pair, 5).part_weights.size() == 5);
}

TEST_CASE("stream_partitioner: an error names the node and the fix") {
  using row = std::vector<std::uint64_t>;
  auto const text = [](graph_totals const& t, stream_options const& o, std::uint32_t parts, auto&& feed) {
    return testing::error_text<stream_error>([&] {
      stream_partitioner s(parts, t, o);
      feed(s);
      s.finish();
    });
  };
  auto const nothing = [](stream_partitioner&) {};
  CHECK(text({.nodes = 3}, {}, 2, [](auto& s) { s.add(row{7}); }) ==
        "stream partition: node #0 lists the neighbour 7, but the graph has only 3 nodes, numbered from 0");
  CHECK(text({.nodes = 1}, {}, 1, [](auto& s) { s.add(row{}), s.add(row{}); }) ==
        "stream partition: node #1 is one more than the 1 nodes that were announced: give the true number of "
        "nodes");
  CHECK(
      text({.nodes = 2}, {}, 1, nothing) ==
      "stream partition: the stream ends after 0 nodes, but 2 were announced: give the true number of nodes");
  CHECK(text({.nodes = 2, .node_weight = 9}, {}, 1, [](auto& s) { s.add(row{}, 4), s.add(row{}, 4); }) ==
        "stream partition: the nodes weigh 8 together, but 9 was announced: give the true total");
  CHECK(text({.nodes = 2, .node_weight = 9}, {}, 1, [](auto& s) {
          s.add(row{}, 4), s.add(row{}, 6);
        }).find("with node #1, the nodes weigh more than the announced total of 9") != std::string::npos);
  CHECK(text({.nodes = 2, .node_weight = 9}, {}, 1, [](auto& s) {
          s.add(row{}, -1);
        }).find("node #0 weighs -1") != std::string::npos);
  CHECK(text({.nodes = 4, .node_weight = 12}, {}, 4, [](auto& s) { s.add(row{}, 4); }) ==
        "stream partition: node #0 weighs 4, but a part may weigh only 3: use fewer parts or a larger "
        "imbalance");
  std::vector<std::int64_t> const negative{-2}, heavy{std::int64_t{1} << 62};
  CHECK(text({.nodes = 2}, {}, 1, [&](auto& s) {
          s.add(row{1}, 1, negative);
        }).find("node #0 has an edge of weight -2") != std::string::npos);
  CHECK(text({.nodes = 2}, {}, 1, [&](auto& s) {
          s.add(row{1}, 1, heavy), s.add(row{0}, 1, heavy);
        }).find("exceeds 2^63 - 1 at node #1") != std::string::npos);
  CHECK(text({.nodes = 2}, {.rule = stream_rule::fennel}, 1, nothing).find("needs the total edge weight") !=
        std::string::npos);
  CHECK(text({.nodes = 2, .node_weight = -1}, {}, 1, nothing).find("total weight is negative") !=
        std::string::npos);
  CHECK(text({.nodes = 2}, {.buffer = std::size_t{1} << 31}, 1, nothing).find("too large") !=
        std::string::npos);
  CHECK(testing::error_text<kway_option_error>([] { stream_partitioner(0, {.nodes = 2}); }).find("0 parts") !=
        std::string::npos);
}

TEST_CASE("stream_partitioner: an edge that is listed at one end only is found, and named within a buffer") {
  using row = std::vector<std::uint64_t>;
  auto const text = [](std::size_t buffer) {
    return testing::error_text<stream_error>([&] {
      stream_partitioner s(2, {.nodes = 4}, {.buffer = buffer});
      s.add(row{1});
      s.add(row{0, 2});
      s.add(row{});
      s.add(row{});
      s.finish();
    });
  };
  CHECK(text(0).find("the graph is not symmetric") != std::string::npos);
  CHECK(text(1).find("the graph is not symmetric") != std::string::npos);
  CHECK(text(100).find("the edge from node #1 to node #2, of weight 1") != std::string::npos);
  CHECK(text(3).find("the edge from node #1 to node #2, of weight 1") != std::string::npos);
  std::vector<std::int64_t> const two{2}, three{3};
  CHECK(testing::error_text<stream_error>([&] {
          stream_partitioner s(2, {.nodes = 2}, {.buffer = 0});
          s.add(row{1}, 1, two);
          s.add(row{0}, 1, three);
          s.finish();
        }).find("with two different weights") != std::string::npos);
}
