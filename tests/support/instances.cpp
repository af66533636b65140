// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/graph/adjacency.hpp"
#include "instances/catalogue.hpp"
#include "instances/hypergraphs.hpp"
#include "support/error_text.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

/// An FNV-1a hash of words.
class word_digest {
 public:
  void add(std::uint64_t word) { hash_ = (hash_ ^ word) * 0x100000001b3u; }
  std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325u;
};

std::uint64_t digest_of(bench::made_instance const& made) {
  word_digest d;
  if (auto const* g = std::get_if<bench::graph>(&made)) {
    for (auto const i : g->offsets) d.add(i);
    for (auto const i : g->targets) d.add(i);
    return d.value();
  }
  auto const& dag = std::get<cost_dag>(made);
  for (double const w : dag.work) d.add(std::bit_cast<std::uint64_t>(w));
  for (double const m : dag.memory) d.add(std::bit_cast<std::uint64_t>(m));
  for (auto const& a : dag.arcs) d.add(a.from), d.add(a.to), d.add(std::bit_cast<std::uint64_t>(a.cost));
  return d.value();
}

}  // namespace

TEST_CASE("instances: small graphs are valid and the same with every compiler") {
  std::map<std::string, std::uint64_t> const recorded{
      {"grid2d_10k", 0x7ae998d572fa28e7},   {"grid3d_27k", 0x62d80705ce870913},
      {"mesh3d_13k", 0x6356d627a53d5b47},   {"fem2d_10k", 0xf32802a412be9207},
      {"del2d_10k", 0xc4b4285028fb4c2b},    {"rgg2d_14", 0x5ab21ffee97666e5},
      {"road_10k", 0x91731b51b2839747},     {"rhyp_14", 0x3cb8b266686533a1},
      {"ba_14", 0x8504612fb3b1fae3},        {"rmat_13", 0x410226f95371fbfb},
      {"sbm_14", 0x0781a93398359415},       {"tfm_L24_H1", 0x7b5dde95ac566b50},
      {"tfm_L64_H16", 0x8b6eb65b2fcef609},  {"tfm_train_L32_H16", 0x0071e07b416c1fb4},
      {"resnet_b50", 0xab770749ee388264},   {"resnet_10k", 0xd769d89d61961264},
      {"inception_3k", 0x7c853b3a278f38e8}, {"unet_6x4", 0x5ca3a9b5b535494e},
      {"moe_32x64", 0x69e419afda715028},    {"layered_10k", 0x93233a6beec8e078},
  };
  std::size_t small = 0;
  for (auto const& i : bench::instances()) {
    if (i.size != bench::instance_size::small) continue;
    auto const made = i.make();
    auto const name = std::string(i.name);
    CAPTURE(name);
    CHECK(recorded.at(name) == digest_of(made));
    ++small;
    if (auto const* g = std::get_if<bench::graph>(&made)) {
      CHECK(!i.directed);
      CHECK(!find_adjacency_fault(g->view()));
      for (std::size_t n = 0; n < g->view().nodes(); ++n)
        for (auto const to : g->view().neighbours(n))
          if (to == n) FAIL_CHECK("a loop at node " << n);
    } else {
      auto const& d = std::get<cost_dag>(made);
      CHECK(i.directed);
      CHECK(order_of(d).size() == d.nodes());
    }
  }
  CHECK(small == recorded.size());
  CHECK(digest_of(*bench::find_instance("fem3d:5k")) == 0x5c0cebdee56d5c27);
  CHECK(digest_of(*bench::find_instance("er:5k")) == 0x4bc039b87e8b5c2b);
  CHECK(digest_of(*bench::find_instance("ws:5k")) == 0xfc0137ef5653717b);
}

TEST_CASE("find_instance: accepts names, families and sizes, and rejects other words") {
  std::set<std::string> names;
  for (auto const& i : bench::instances()) CHECK(names.insert(std::string(i.name)).second);
  CHECK(bench::instances_called("grid2d").size() == 3);
  CHECK(bench::instances_called("tfm_1M").size() == 1);
  CHECK(bench::instances_called("all").size() == bench::instances().size());
  CHECK(bench::instances_called("dag").size() + bench::instances_called("graph").size() == names.size());
  CHECK(bench::instances_called("rgg").empty());
  CHECK(!bench::find_instance("mesh.graph"));
  for (auto const& f : bench::families())
    for (std::string const size : {":1", ":100", ":2k:3"}) {
      auto const made = bench::find_instance(std::string(f.name) + size);
      REQUIRE(made.has_value());
      auto const g = bench::undirected_instance(*made);
      CHECK(!find_adjacency_fault(g.view()));
      CHECK(g.view().nodes() > 0);
      if (size == ":2k:3") CHECK(g.view().nodes() > 900);
      if (size == ":2k:3") CHECK(g.view().nodes() < 2500);
    }
  auto const text = [](char const* word) {
    return testing::error_text<error>([&] { bench::find_instance(word); });
  };
  CHECK(text("rgg:100") == "no family of graphs is called 'rgg'; nearest: 'rgg2d', 'rgg3d', 'road'");
  CHECK(text("rgg2d:100x").find("write rgg2d:100k for about 100000 nodes") != std::string::npos);
  CHECK(text("rgg2d:0").find("says no graph") != std::string::npos);
  CHECK(text("rgg2d:9000000000").find("says no graph") != std::string::npos);
  CHECK(bench::node_count("20k") == 20'000u);
  CHECK(bench::node_count("1M") == 1'000'000u);
}

TEST_CASE("find_hypergraph: hypergraphs are valid and the same with every compiler") {
  std::map<std::string, std::uint64_t> const recorded{{"rows_fem2d_10k", 0xc9ded471a01873ef},
                                                      {"netlist_10k", 0x54d96d0844718c68},
                                                      {"nets_10k", 0x0e3abc76431d4a35},
                                                      {"values_moe_32x64", 0x8bbbe64315947b3f},
                                                      {"netlist:20:2", 0x34a3eefaa43f0800}};
  for (auto const& [name, digest] : recorded) {
    CAPTURE(name);
    auto const h = bench::find_hypergraph(name);
    REQUIRE(h.has_value());
    CHECK(!find_hypergraph_fault(h->view()));
    word_digest d;
    for (auto const i : h->offsets) d.add(i);
    for (auto const i : h->pins) d.add(i);
    CHECK(d.value() == digest);
    for (std::size_t e = 0; e < h->view().nets(); ++e) {
      auto const pins = h->view().pins_of(e);
      if (pins.size() < 2 || std::ranges::adjacent_find(pins, std::greater_equal<>()) != pins.end())
        FAIL_CHECK("pins that do not rise in net " << e);
    }
  }
  CHECK(bench::hypergraphs_called("rows").size() == 5);
  CHECK(bench::hypergraphs_called("all").size() == bench::hypergraph_instances().size());
  CHECK(!bench::find_hypergraph("rgg2d_14"));
  CHECK(!bench::find_hypergraph("rows.graph"));
  auto const text = [](char const* word) {
    return testing::error_text<error>([&] { bench::find_hypergraph(word); });
  };
  CHECK(text("rows_rgg:100").find("no family of graphs is called 'rgg'") != std::string::npos);
  CHECK(text("values_rgg2d:100").find("values_ before a directed one") != std::string::npos);
  CHECK(text("nets:0").find("write nets:100k for 100000 nodes") != std::string::npos);
}

TEST_CASE("find_instance: networks have their known degrees and numbers of edges") {
  auto const named = [](char const* word) { return std::get<bench::graph>(*bench::find_instance(word)); };
  auto const degrees = [&](char const* word) {
    auto const g = named(word);
    std::set<std::size_t> all;
    for (std::uint32_t n = 0; n < g.view().nodes(); ++n) all.insert(g.view().neighbours(n).size());
    return all;
  };
  CHECK(degrees("hypercube:1k") == std::set<std::size_t>{9});
  CHECK(degrees("torus3d:1k") == std::set<std::size_t>{6});
  CHECK(degrees("debruijn:1k") == std::set<std::size_t>{2, 3, 4});
  CHECK(degrees("btree:1023") == std::set<std::size_t>{1, 2, 3});
  CHECK(named("btree:1023").targets.size() == 2 * 1022);
  CHECK(named("er:10k").targets.size() == doctest::Approx(60'000).epsilon(0.01));
  auto const ring = named("ws:10k");
  CHECK(ring.targets.size() == doctest::Approx(80'000).epsilon(0.01));
  std::size_t near = 0;
  for (std::uint32_t n = 0; n < 10'000; ++n)
    for (auto const to : ring.view().neighbours(n)) near += (to + 10'000 - n) % 10'000 <= 4;
  CHECK(near == doctest::Approx(38'000).epsilon(0.02));
}

TEST_CASE("find_instance: weights leave the edges of a graph unchanged") {
  auto const named = [](char const* word) { return std::get<bench::graph>(*bench::find_instance(word)); };
  auto const plain = named("rgg2d:2k");
  CHECK(plain.node_weight.empty());
  CHECK(plain.edge_weight.empty());
  for (auto const* word : {"rgg2d:2k+nodes", "rgg2d:2k+edges", "rgg2d:2k+weights"}) {
    auto const g = named(word);
    CAPTURE(word);
    CHECK(g.targets == plain.targets);
    CHECK(!find_adjacency_fault(g.view()));
    std::string_view const what = std::string_view(word).substr(9);
    CHECK(g.node_weight.empty() == (what == "edges"));
    CHECK(g.edge_weight.empty() == (what == "nodes"));
    for (auto const* weights : {&g.node_weight, &g.edge_weight}) {
      if (weights->empty()) continue;
      auto const heavy = std::ranges::count_if(*weights, [](auto w) { return w >= 16; });
      auto const count = static_cast<double>(weights->size());
      CHECK(static_cast<double>(heavy) / count == doctest::Approx(1.0 / 16).epsilon(0.3));
      CHECK(std::ranges::min(*weights) == 1);
      CHECK(std::ranges::max(*weights) <= 256);
    }
  }
  CHECK(named("grid2d_10k+weights").node_weight == named("sbm:10k+nodes").node_weight);
  auto const text = [](char const* word) {
    return testing::error_text<error>([&] { bench::find_instance(word); });
  };
  CHECK(text("grid2d_10k+sizes").find("+nodes, +edges or +weights") != std::string::npos);
  CHECK(text("resnet_b50+nodes").find("an undirected one") != std::string::npos);
}

TEST_CASE("triangulation: every edge has an empty circle, even among collinear points") {
  bench::dice d(5);
  for (int round = 0; round < 100; ++round) {
    std::uint32_t const n = 4 + d.below(12), span = round % 2 != 0 ? 8 : 1 << 24;
    std::vector<bench::plane_point> p;
    while (p.size() < n) {
      auto const x = static_cast<std::int32_t>(d.below(span)), y = static_cast<std::int32_t>(d.below(span));
      if (std::ranges::find(p, bench::plane_point{x, y}) == p.end()) p.push_back({x, y});
    }
    auto const g = adjacency_of_edges(n, bench::triangulation(p).edges(), repeated_edges::count_once);
    for (std::size_t a = 0; a < n; ++a)
      for (auto const b : g.view().neighbours(a)) {
        bool left = false, right = false, empty = false;
        for (auto const& c : p) {
          auto const side = bench::turn(p[a], p[b], c);
          left |= side > 0, right |= side < 0;
          if (side == 0) continue;
          empty |= std::ranges::none_of(p, [&](auto const& q) {
            return side > 0 ? bench::in_circle(p[a], p[b], c, q) : bench::in_circle(p[b], p[a], c, q);
          });
        }
        bool const inside = left && right;
        CHECK((empty || !inside));
      }
  }
}

TEST_CASE("tetrahedra: every edge has an empty sphere, even among coplanar and cospherical points") {
  bench::dice d(6);
  for (int round = 0; round < 60; ++round) {
    std::uint32_t const n = 5 + d.below(9), span = round % 2 != 0 ? 4 : 1 << 20;
    std::vector<bench::space_point> p;
    auto const coordinate = [&] { return static_cast<std::int32_t>(d.below(span)); };
    auto const flat = [&] {
      for (std::size_t i = 3; i < p.size(); ++i)
        for (std::size_t j = 2; j < i; ++j)
          if (bench::volume({p[0], p[1], p[j], p[i]}) != 0) return false;
      return true;
    };
    while (p.size() < n || flat()) {
      auto const x = coordinate(), y = coordinate();
      bench::space_point const next{x, y, coordinate()};
      if (std::ranges::find(p, next) == p.end()) p.push_back(next);
    }
    auto const nodes = p.size();
    std::set<std::pair<std::size_t, std::size_t>> possible, found;
    for (std::size_t a = 0; a < nodes; ++a)
      for (std::size_t b = 0; b < a; ++b)
        for (std::size_t c = 0; c < b; ++c)
          for (std::size_t e = 0; e < c; ++e) {
            bench::corner_points corner{p[a], p[b], p[c], p[e]};
            auto const volume = bench::volume(corner);
            if (volume < 0) std::swap(corner[0], corner[1]);
            if (volume == 0 ||
                std::ranges::any_of(p, [&](auto const& q) { return bench::in_sphere(corner, q); }))
              continue;
            for (auto const& [i, j] : {std::pair{a, b}, {a, c}, {a, e}, {b, c}, {b, e}, {c, e}})
              possible.emplace(j, i);
          }
    auto const g = adjacency_of_edges(nodes, bench::tetrahedra(p).edges(), repeated_edges::count_once);
    for (std::size_t i = 0; i < nodes; ++i) {
      CHECK(g.view().neighbours(i).size() >= 3);
      for (std::size_t const j : g.view().neighbours(i)) found.emplace(std::min(i, j), std::max(i, j));
    }
    CHECK(std::ranges::includes(possible, found));
    if (span > 4) CHECK(possible == found);
  }
}

TEST_CASE("wide_sum: has the right sign for products of wide numbers") {
  auto const sign = [](std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
    bench::wide_sum s;
    s.add(a, b), s.add(c, d);
    return s.positive();
  };
  std::int64_t const big = (std::int64_t{1} << 61) + 12'345;
  CHECK(sign(big, big, -(big - 1), big + 1));  // big^2 - (big^2 - 1)
  CHECK(!sign(big, big, -big, big));
  CHECK(!sign(big - 1, big + 1, -big, big));
  CHECK(sign(-3, -5, 2, -7));
  CHECK(!sign(-3, 5, 2, 7));
}

TEST_CASE("natural_log, exponential, power, cosine_of_turn: are exact to 15 digits") {
  CHECK(bench::natural_log(2.718281828459045) == doctest::Approx(1).epsilon(1e-15));
  CHECK(bench::natural_log(1e-300) == doctest::Approx(-690.7755278982137).epsilon(1e-15));
  CHECK(bench::exponential(1) == doctest::Approx(2.718281828459045).epsilon(1e-15));
  CHECK(bench::exponential(-20.5) == doctest::Approx(1.2501528663867426e-09).epsilon(1e-15));
  CHECK(bench::power(2, 0.5) == doctest::Approx(1.4142135623730951).epsilon(1e-15));
  CHECK(bench::cosine_of_turn(1.0 / 6) == doctest::Approx(0.5).epsilon(1e-15));
  CHECK(bench::cosine_of_turn(0.25) == 0);
  CHECK(bench::cosine_of_turn(0.5) == -1);
  CHECK(bench::cosine_of_turn(0.9) == doctest::Approx(0.8090169943749475).epsilon(1e-15));
}
