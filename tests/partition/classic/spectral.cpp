// SPDX-License-Identifier: MIT
#include "cleave/partition/classic/spectral.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <vector>

#include "cleave/core/error.hpp"
#include "support/rng.hpp"
#include "support/small_adjacency.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

/// The Rayleigh quotient of a unit vector and the Laplacian: the eigenvalue if `x` is an eigenvector.
double along_itself(adjacency<std::uint32_t> const& g, std::vector<double> const& x) {
  double sum = 0;
  for (std::size_t n = 0; n < x.size(); ++n)
    for (auto arc = g.offsets[n]; arc < g.offsets[n + 1]; ++arc) {
      double const d = x[n] - x[g.targets[arc]];
      sum += static_cast<double>(g.view().weight_of_edge(arc)) * d * d / 2;
    }
  return sum;
}

}  // namespace

TEST_CASE("small_eigen: vectors are orthonormal and reproduce the matrix") {
  testing::rng r(51);
  for (std::size_t n = 1; n < 12; ++n) {
    std::vector<double> a(n * n);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j <= i; ++j) a[i * n + j] = a[j * n + i] = r.one_in(4) ? 0 : r.unit() - 0.5;
    small_eigen const e(a, n);
    CHECK(std::ranges::is_sorted(e.values));
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j) {
        double made = 0, dot = 0;
        for (std::size_t k = 0; k < n; ++k) {
          made += e.vectors[i * n + k] * e.values[k] * e.vectors[j * n + k];
          dot += e.vectors[k * n + i] * e.vectors[k * n + j];
        }
        CHECK(std::abs(made - a[i * n + j]) < 1e-12);
        CHECK(std::abs(dot - (i == j)) < 1e-12);
      }
  }
}

TEST_CASE("fiedler_vector: gives the known second eigenvalues of paths, cycles, stars and grids") {
  fiedler_options const exact{.tolerance = 1e-9, .products = 3000};
  auto const second = [&](adjacency<std::uint32_t> const& g) {
    auto const x = fiedler_vector(integral_graph_of(g.view()), exact);
    double sum = 0, square = 0;
    for (double const v : x) sum += v, square += v * v;
    CHECK(std::abs(sum) < 1e-9);
    CHECK(square == doctest::Approx(1));
    return along_itself(g, x);
  };
  auto const pi = std::numbers::pi;
  for (std::uint32_t const n : {2u, 3u, 10u, 60u})
    CHECK(second(testing::grid_adjacency(n, 1)) == doctest::Approx(2 - 2 * std::cos(pi / n)));
  std::vector<testing::weighted_edge> cycle, star;
  for (std::uint32_t n = 0; n < 20; ++n) cycle.push_back({n, (n + 1) % 20, 3});
  for (std::uint32_t n = 1; n < 9; ++n) star.push_back({0, n});
  CHECK(second(testing::adjacency_of(20, cycle)) == doctest::Approx(3 * (2 - 2 * std::cos(2 * pi / 20))));
  CHECK(second(testing::adjacency_of(9, star)) == doctest::Approx(1));
  CHECK(second(testing::grid_adjacency(12, 7)) == doctest::Approx(2 - 2 * std::cos(pi / 12)));
  CHECK(second(testing::clique_ring(1, 6)) == doctest::Approx(6).epsilon(0.5));
}

TEST_CASE("partition_spectral: cuts grids straight and keeps cliques and components whole") {
  CHECK(partition_spectral(testing::grid_adjacency(32, 8).view(), 2).cut == 8);
  CHECK(partition_spectral(testing::grid_adjacency(32, 8).view(), 4, {.passes = 5}).cut == 24);
  CHECK(partition_spectral(testing::clique_ring(2, 9).view(), 2).cut == 2);
  std::vector<testing::weighted_edge> apart;
  for (std::uint32_t n = 0; n < 9; ++n) apart.push_back({n, n + 1}), apart.push_back({n + 10, n + 11});
  CHECK(partition_spectral(testing::adjacency_of(20, apart).view(), 2).cut == 0);
  CHECK(partition_spectral(testing::adjacency_of(23, apart).view(), 2).imbalance == 0);
}

TEST_CASE("partition_spectral: no part is empty or more than one node above an even share") {
  testing::rng r(52);
  for (int i = 0; i < 40; ++i) {
    auto const n = 1 + r.below(50);
    auto g = testing::random_adjacency(r, n, r.below(3 * n), 1);
    g.node_weight.clear();
    auto const k = static_cast<std::uint32_t>(1 + r.below(std::min<std::size_t>(n, 9)));
    auto const found = partition_spectral(g.view(), k);
    auto const weights = testing::plain_weights(g, found);
    CHECK(std::ranges::min(weights) > 0);
    CHECK(std::ranges::max(weights) <= static_cast<std::int64_t>((n + k - 1) / k) + 1);
    CHECK(partition_spectral(g.view(), k).of == found.of);
  }
}

TEST_CASE("partition_spectral: accepts more parts than nodes and zero weights, and rejects 0 parts") {
  auto const g = testing::grid_adjacency(2, 1);
  CHECK(partition_spectral(g.view(), 2).cut == 1);
  CHECK(partition_spectral(g.view(), 5).cut == 1);
  CHECK(partition_spectral(adjacency_view<int>{}, 2).of.empty());
  CHECK_THROWS_AS(partition_spectral(g.view(), 0), error);
  auto light = testing::adjacency_of(3, {{0, 1, 0}, {1, 2, 0}});
  CHECK(partition_spectral(light.view(), 3).cut == 0);
}
