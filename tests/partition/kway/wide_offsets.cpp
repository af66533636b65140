// SPDX-License-Identifier: MIT
// Offsets of a graph have 32 or 64 bits. Both are read in place and give the same parts, and no number of a
// directed edge is cut off.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/graph/adjacency.hpp"
#include "cleave/partition/kway/detail/coarsening.hpp"
#include "cleave/partition/kway/detail/level.hpp"
#include "cleave/partition/kway/detail/multilevel.hpp"
#include "cleave/partition/kway/detail/presets.hpp"
#include "cleave/partition/kway/detail/task.hpp"
#include "cleave/partition/kway/detail/team.hpp"
#include "cleave/partition/kway/kway.hpp"
#include "cleave/partition/kway/machine.hpp"
#include "cleave/partition/kway/map_kway.hpp"
#include "cleave/partition/kway/options.hpp"
#include "cleave/partition/model/partition.hpp"
#include "support/cases.hpp"
#include "support/rng.hpp"
#include "support/weighted_level.hpp"

using namespace cleave;

using namespace cleave::detail;
using cleave::testing::alike;
using cleave::testing::rng;

namespace {

constexpr auto beyond = (std::uint64_t{1} << 32) + 6;  // directed edges that 32 bits do not number

template <class Offset>
std::vector<Offset> offsets_as(testing::weighted_level const& g) {
  return {g.offsets.begin(), g.offsets.end()};
}

/// A graph with offsets of a type, with or without weights.
template <class Offset>
struct typed_arrays {
  std::vector<Offset> offsets;
  testing::weighted_level const& level;

  explicit typed_arrays(testing::weighted_level const& g) : offsets(offsets_as<Offset>(g)), level(g) {}
  auto unit() const { return adjacency_view{offsets, level.targets}; }
  auto weighted() const {
    return adjacency_view{offsets, level.targets, level.node_weight, level.edge_weight};
  }
};

/// The same level with 64-bit offsets.
struct wide_level {
  std::vector<std::uint64_t> offsets;
  weighted_view view;

  explicit wide_level(testing::weighted_level const& g)
      : offsets(offsets_as<std::uint64_t>(g)), view(g.view()) {
    view.offsets = offsets.data();
  }
};

/// Checks that two graphs give the same parts with all options that change how a graph is read.
template <class A, class B>
void check_same_parts(A const& a, B const& b, kway_options options, std::uint32_t k) {
  auto const nodes = a.nodes();
  for (auto const threads : {1u, 3u}) {
    options.threads = threads;
    auto const p = partition_kway(a, k, options), q = partition_kway(b, k, options);
    CHECK(p.of == q.of);
    CHECK(p.cut == q.cut);
    partition start{std::vector<part_id>(nodes), k};
    for (std::size_t n = 0; n < nodes; ++n) start.of[n] = part_id{static_cast<std::uint32_t>(n * 7 % k)};
    CHECK(refine_kway(a, start, options).of == refine_kway(b, start, options).of);
  }
}

}  // namespace

TEST_CASE("partition_kway: 32-bit and 64-bit offsets give the same parts") {
  rng random(11);
  auto const g = testing::random_strip(random, testing::cases(40, 600), 20, 6);
  typed_arrays<std::uint32_t> const narrow(g);
  typed_arrays<std::uint64_t> const wide(g);
  typed_arrays<std::int64_t> const with_sign(g);
  auto const nodes = narrow.unit().nodes();
  kway_options fixed, several, connected;
  for (std::size_t n = 0; n < nodes; ++n)
    fixed.fixed.push_back(n % 50 == 0 ? part_id{static_cast<std::uint32_t>(n % 4)} : no_part);
  std::vector<double> memory(nodes);
  for (auto& w : memory) w = static_cast<double>(1 + random.below(9));
  several.further_weights = {{memory, 0.1}};
  connected.connected = true;
  for (auto options : {kway_options{}, fixed, several, connected})
    for (auto const preset : {kway_preset::fast, kway_preset::standard}) {
      options.preset = preset;
      check_same_parts(narrow.unit(), wide.unit(), options, 4);
      check_same_parts(narrow.weighted(), wide.weighted(), options, 4);
      check_same_parts(narrow.weighted(), with_sign.weighted(), options, 7);
    }
  check_same_parts(narrow.weighted(), wide.weighted(), {.preset = kway_preset::quality}, 5);
  auto const m = machine::hierarchy({2, 3}, {1, 10});
  CHECK(map_kway(narrow.weighted(), m).of == map_kway(wide.weighted(), m).of);
}

TEST_CASE_TEMPLATE("make_flat: references offsets of 32 and of 64 bits", Offset, std::int32_t, std::uint32_t,
                   std::int64_t, std::uint64_t) {
  testing::weighted_level const g = testing::triangulated_squares(5);
  typed_arrays<Offset> const a(g);
  auto const f = make_flat(a.unit());
  CHECK(f.own_offsets.empty());
  CHECK(f.own_targets.empty());
  CHECK(f.targets == g.targets.data());
  void const* const given = a.offsets.data();
  if constexpr (sizeof(Offset) == sizeof(std::uint32_t))
    CHECK((f.offsets.narrow == given && !f.offsets.wide));
  else
    CHECK((f.offsets.wide == given && !f.offsets.narrow));
  CHECK(f.directed_edges() == g.targets.size());

  auto const w = make_flat(a.weighted());
  CHECK(w.own_offsets.empty());
  CHECK(w.targets == g.targets.data());
  CHECK(w.edge_total == static_cast<std::int64_t>(g.targets.size()));
}

TEST_CASE("make_flat: copies offsets of other widths and rows with self-loops") {
  testing::weighted_level const g = testing::triangulated_squares(5);
  typed_arrays<std::uint16_t> const shorter(g);
  auto const f = make_flat(shorter.unit());
  CHECK(f.own_offsets.width() == offset_width::narrow);
  CHECK(f.targets == g.targets.data());
  for (std::size_t n = 0; n < g.offsets.size(); ++n) CHECK(f.offsets[n] == g.offsets[n]);

  std::vector<std::uint64_t> const offsets{0, 2, 4, 5};
  std::vector<std::uint32_t> const targets{0, 1, 0, 2, 1};
  auto const loop = make_flat(adjacency_view{offsets, targets});
  CHECK(loop.own_offsets.width() == offset_width::narrow);
  CHECK(loop.directed_edges() == 4);
  for (std::size_t n = 0; n < 4; ++n) CHECK(loop.offsets[n] == std::vector<std::uint64_t>{0, 1, 3, 4}[n]);
}

#if SIZE_MAX > 0xffffffff  // what a machine of 32 bits cannot have
TEST_CASE("make_flat: takes more directed edges than 32 bits number, and refuses only nodes") {
  // Neither call reads an array beyond its first elements: without weights, nothing is copied.
  std::vector<std::uint64_t> const offsets{0, beyond / 2, beyond};
  std::uint32_t const first[] = {1, 0};
  adjacency_view<std::uint32_t, std::int64_t, std::int64_t, std::uint64_t> g{offsets, {}};
  g.targets = {first, beyond};
  auto const f = make_flat(g, 0);
  CHECK(f.directed_edges() == beyond);
  CHECK(f.edge_total == static_cast<std::int64_t>(beyond));
  CHECK(f.own_offsets.empty());

  g.targets = {};
  g.offsets = {offsets.data(), std::size_t{0xffffffff} + 1};
  CHECK_THROWS_WITH_AS(make_flat(g, 0),
                       "k-way partition: 4294967295 nodes are too many: at most 4294967294 are supported",
                       kway_size_error);
}
#endif

TEST_CASE("level_offsets: are 32 bits wide as long as that numbers all directed edges") {
  CHECK(width_for_edges(0xffffffff) == offset_width::narrow);
  CHECK(width_for_edges(0x100000000) == offset_width::wide);
  level_offsets small(3, offset_width::narrow), large(3, offset_width::wide);
  CHECK(level_offsets().empty());
  for (auto* const offsets : {&small, &large}) {
    for (std::size_t i = 0; i < 3; ++i) offsets->set(i, 5 * i);
    offsets->shrink(2);
    CHECK(offsets->size() == 2);
    CHECK((*offsets)[1] == 5);
    CHECK(offsets->view()[1] == 5);
  }
  CHECK((small.view().narrow && !small.view().wide));
  CHECK((large.view().wide && !large.view().narrow));
  large.set(1, beyond);
  CHECK(large.view()[1] == beyond);
}

TEST_CASE("weighted_view: counts more directed edges than 32 bits number") {
  std::vector<std::uint64_t> const offsets{0, 4, beyond};
  weighted_view const g{2, offsets.data(), nullptr, nullptr, nullptr};
  CHECK(g.directed_edges() == beyond);
  CHECK(g.degree(1) == beyond - 4);
  CHECK(edge_weight_of(g) == static_cast<std::int64_t>(beyond / 2));
  CHECK(g.width() == weight_width::wide);  // the sum of all weights exceeds 32 bits
  static_assert(std::is_same_v<decltype(g.offsets[0]), std::uint64_t>);
}

TEST_CASE("contraction: wide offsets, and positions remembered anew, give the same level") {
  rng random(5);
  auto const g = testing::random_strip(random, testing::cases(10'000, 40'000), 100, 5);
  wide_level const wide(g);
  cluster_rules const rules{.heaviest = 12, .fixed = nullptr};
  auto const clusters = [&](weighted_view const& v) {
    return label_clustering<std::int64_t>(v, rules).clusters(1, thread_team(1));
  };
  auto const c = clusters(g.view()), d = clusters(wide.view);
  REQUIRE(std::equal(c.of.begin(), c.of.end(), d.of.begin(), d.of.end()));
  auto const above = contraction(g.view(), c).graph(thread_team(1));
  CHECK(above.offsets.width() == offset_width::narrow);
  CHECK(contraction(wide.view, c).graph(thread_team(1)).offsets.width() == offset_width::narrow);
  for (auto const threads : {1u, 3u})
    for (auto const width : {offset_width::narrow, offset_width::wide})
      for (auto const most : {c.clusters, c.clusters + 3, c.clusters + 1000, 0xffffffff}) {
        auto const made =
            contraction(wide.view, c).graph(thread_team(threads), weight_width::wide, width, most);
        CHECK(made.offsets.width() == width);
        CHECK(alike(above, made));
      }
}

TEST_CASE("multilevel_kway: levels with wide offsets give the same parts") {
  rng random(8);
  auto const g = testing::random_strip(random, testing::cases(2'000, 6'000), 40, 4);
  cluster_rules const rules{.heaviest = 8, .fixed = nullptr};
  thread_team const team(1);
  auto const c = label_clustering<std::int64_t>(g.view(), rules).clusters(1, team);
  auto const narrow = contraction(g.view(), c).graph(team, weight_width::narrow, offset_width::narrow);
  auto const wide = contraction(g.view(), c).graph(team, weight_width::narrow, offset_width::wide);
  std::int64_t total = 0;
  for (auto const w : g.node_weight) total += w;
  std::vector<std::int64_t> const limit(6, total / 6 + total / 100);
  for (auto const preset : {kway_preset::fast, kway_preset::standard}) {
    auto const parts = [&](level_graph const& level) {
      return multilevel_kway(limit, choose_config(preset), 3, team, nullptr).parts(level.view(), {}).of;
    };
    CHECK(parts(narrow) == parts(wide));
  }
}
