// SPDX-License-Identifier: MIT
#include "cleave/partition/kway/detail/bisection.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/core/random.hpp"
#include "cleave/partition/kway/detail/config.hpp"
#include "cleave/partition/kway/detail/team.hpp"
#include "support/rng.hpp"
#include "support/weighted_level.hpp"

using namespace cleave::testing;
using cleave::splitmix;
using cleave::detail::bisection_config;
using cleave::detail::no_block;
using cleave::detail::repeated_bisection;

namespace {

/// `count` separate rings of equal size with chords.
weighted_level rings(std::uint32_t count, std::uint32_t size) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
  for (std::uint32_t n = 0; n < count * size; ++n)
    for (auto const step : {1u, size / 3}) edges.emplace_back(n, n / size * size + (n + step) % size);
  return level_of(std::size_t{count} * size, edges);
}

/// Equal limits with a little room.
std::vector<std::int64_t> limits(weighted_level const& g, std::uint32_t k) {
  std::int64_t total = 0;
  for (auto const weight : g.node_weight) total += weight;
  return std::vector<std::int64_t>(k, (total + k - 1) / k * 11 / 10 + 5);
}

std::vector<std::uint32_t> bisected(weighted_level const& g, std::vector<std::uint32_t> const& fixed,
                                    std::vector<std::int64_t> const& limit, bisection_config const& config,
                                    std::uint32_t threads = 1) {
  splitmix random(7);
  return repeated_bisection(g.view(), fixed, limit, config, cleave::detail::thread_team(threads))
      .parts(random);
}

/// A plain version that builds a separate graph for each piece, one after the other. All limits are equal and
/// leave much room.
class literal_bisection {
 public:
  literal_bisection(weighted_level const& g, std::vector<std::uint32_t> const& fixed, std::int64_t limit,
                    bisection_config const& config)
      : g_(g), fixed_(fixed), limit_(limit), config_(config), of_(g.node_weight.size()) {}

  std::vector<std::uint32_t> parts(std::uint32_t k) {
    std::vector<std::uint32_t> all(of_.size());
    for (std::uint32_t n = 0; n < all.size(); ++n) all[n] = n;
    cut(all, 0, k, 0);
    return of_;
  }

 private:
  void cut(std::vector<std::uint32_t> const& nodes, std::uint32_t first_part, std::uint32_t parts,
           std::uint32_t depth) {
    if (parts == 1) {
      for (auto const n : nodes) of_[n] = first_part;
      return;
    }
    auto const left = (parts + 1) / 2;
    std::vector<std::uint32_t> side;
    for (auto const n : nodes)
      side.push_back(fixed_[n] == no_block ? no_block : fixed_[n] >= first_part + left);
    auto const piece = induced(nodes);
    std::int64_t total = 0;
    for (auto const weight : piece.node_weight) total += weight;
    auto const aim =
        static_cast<std::int64_t>(static_cast<double>(total) * static_cast<double>(left * limit_) /
                                  static_cast<double>(parts * limit_));
    cleave::detail::two_sides best;
    for (std::uint32_t i = 0; i < std::max(config_.least_restarts, config_.restarts >> depth); ++i) {
      auto const view = piece.view();
      cleave::detail::multilevel_bisection const bisection(
          view, side, {left * limit_, (parts - left) * limit_}, aim, config_);
      auto const tried = bisection.sides(random_.next(), i);
      if (i == 0 || tried.better_than(best)) best = tried;
    }
    std::vector<std::uint32_t> half[2];
    for (std::size_t i = 0; i < nodes.size(); ++i) half[best.of[i]].push_back(nodes[i]);
    cut(half[1], first_part + left, parts - left, depth + 1);
    cut(half[0], first_part, left, depth + 1);
  }

  weighted_level induced(std::vector<std::uint32_t> const& nodes) const {
    weighted_level piece;
    for (auto const n : nodes) {
      for (auto a = g_.offsets[n]; a < g_.offsets[n + 1]; ++a) {
        auto const at = std::lower_bound(nodes.begin(), nodes.end(), g_.targets[a]);
        if (at == nodes.end() || *at != g_.targets[a]) continue;
        piece.targets.push_back(static_cast<std::uint32_t>(at - nodes.begin()));
        piece.edge_weight.push_back(g_.edge_weight[a]);
      }
      piece.offsets.push_back(static_cast<std::uint32_t>(piece.targets.size()));
      piece.node_weight.push_back(g_.node_weight[n]);
    }
    return piece;
  }

  weighted_level const& g_;
  std::vector<std::uint32_t> const& fixed_;
  std::int64_t limit_;
  bisection_config config_;
  splitmix random_{7};
  std::vector<std::uint32_t> of_;
};

/// Checks that each of the `k` rings is a part.
void check_rings_are_parts(weighted_level const& g, std::uint32_t k, std::vector<std::int64_t> const& limit) {
  auto const of = bisected(g, {}, limit, {.restarts = 8, .least_restarts = 4});
  auto used = of;
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  REQUIRE(used.size() == k);
  REQUIRE(used.back() == k - 1);
  REQUIRE(g.cut(of) == 0);
}

}  // namespace

TEST_CASE("repeated_bisection: equals bisecting a separate graph for each piece") {
  rng r(4);
  for (int i = 0; i < 60; ++i) {
    auto const g = random_strip(r, 50 + r.below(250), 1 + r.below(6), 1 + r.below(5));
    auto const k = static_cast<std::uint32_t>(2 + r.below(9));
    std::vector<std::uint32_t> fixed(g.node_weight.size(), no_block);
    if (r.one_in(2))
      for (std::size_t n = 0; n < fixed.size(); ++n)
        if (r.one_in(10)) fixed[n] = static_cast<std::uint32_t>(n % k);
    auto const limit = limits(g, 1)[0];
    bisection_config const config{.restarts = 4, .least_restarts = 2};
    REQUIRE(bisected(g, fixed, std::vector<std::int64_t>(k, limit), config) ==
            literal_bisection(g, fixed, limit, config).parts(k));
  }
}

TEST_CASE("repeated_bisection: each component of a graph becomes a part") {
  // With room for half a ring more, a ring may be divided. Those cases use recorded random numbers.
  auto r = rng(1), recorded = rng::recorded(1);
  for (std::uint32_t const k : {2u, 3u, 8u, 13u, 16u})
    for (int i = 0; i < 4; ++i) {
      auto const size = static_cast<std::uint32_t>(10 + r.below(90));
      check_rings_are_parts(shuffled(r, rings(k, size)), k, std::vector<std::int64_t>(k, size + 2));
      auto const g = shuffled(recorded, rings(k, static_cast<std::uint32_t>(10 + recorded.below(90))));
      check_rings_are_parts(g, k, limits(g, k));
    }
}

TEST_CASE("repeated_bisection: limits hold, fixed nodes stay and threads change nothing") {
  rng r(2);
  for (int i = 0; i < 60; ++i) {
    auto g = random_strip(r, 50 + r.below(300), 1 + r.below(6), 1 + r.below(5));
    std::fill(g.node_weight.begin(), g.node_weight.end(), 1);
    auto const k = static_cast<std::uint32_t>(2 + r.below(9));
    auto const limit = limits(g, k);
    std::vector<std::uint32_t> fixed;
    if (r.one_in(2))
      for (std::size_t n = 0; n < g.node_weight.size(); ++n)
        fixed.push_back(r.one_in(10) ? static_cast<std::uint32_t>(n % k) : no_block);
    auto const of = bisected(g, fixed, limit, {.restarts = 4});
    std::vector<std::int64_t> weight(k);
    for (auto const part : of) {
      REQUIRE(part < k);
      ++weight[part];
    }
    for (std::uint32_t part = 0; part < k; ++part) REQUIRE(weight[part] <= limit[part]);
    for (std::size_t n = 0; n < fixed.size(); ++n) REQUIRE((fixed[n] == no_block || fixed[n] == of[n]));
    REQUIRE(bisected(g, fixed, limit, {.restarts = 4}, 3) == of);
  }
}

TEST_CASE("repeated_bisection: tries a graph with many edges less often") {
  rng r(3);
  auto const g = random_strip(r, 400, 8, 4);
  auto const limit = limits(g, 6);
  auto const arcs = static_cast<std::uint32_t>(g.view().directed_edges());
  auto const thrice = bisected(g, {}, limit, {.restarts = 3, .least_restarts = 3});
  CHECK(bisected(g, {}, limit, {.restarts = 12, .least_restarts = 12, .arcs = 3 * arcs}) == thrice);
  CHECK(bisected(g, {}, limit, {.restarts = 12, .least_restarts = 12}) != thrice);
  CHECK(bisected(g, {}, limit, {.restarts = 12, .arcs = 1}) == bisected(g, {}, limit, {.restarts = 1}));
}
