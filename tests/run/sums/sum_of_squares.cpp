// SPDX-License-Identifier: MIT
#include "cleave/run/sums/sum_of_squares.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;

namespace {

template <class T>
std::vector<T> random_elements(rng& random, std::size_t count) {
  std::vector<T> made(count);
  for (auto& x : made) x = narrowed<T>(static_cast<float>(random.unit() * 4 - 2));
  return made;
}

template <class T>
region of(std::vector<T>& x, element_type type) {
  return {x.data(), x.size(), type};
}

template <class T>
long double long_sum(std::vector<T> const& x) {
  long double sum = 0;
  for (auto const n : x) sum += static_cast<long double>(widened(n)) * static_cast<long double>(widened(n));
  return sum;
}

/// Adds neighbours, then neighbouring sums, until one is left.
double twin_tree(std::vector<double> x) {
  while (x.size() > 1) {
    std::vector<double> half;
    for (std::size_t i = 0; i < x.size(); i += 2) half.push_back(x[i] + x[i + 1]);
    x = half;
  }
  return x[0];
}

/// Adds term i to sum i % 2048, then combines the sums in a tree.
double twin_turns(std::vector<double> const& terms) {
  std::vector<double> sums(2048);
  for (std::size_t i = 0; i < terms.size(); ++i) sums[i % 2048] += terms[i];
  return twin_tree(sums);
}

template <class T>
void add_tiles(std::vector<T> const& x, std::vector<double>& tiles) {
  for (std::size_t first = 0; first < x.size(); first += 8192) {
    std::vector<double> squares;
    for (std::size_t i = first; i < std::min(x.size(), first + 8192); ++i)
      squares.push_back(static_cast<double>(widened(x[i])) * static_cast<double>(widened(x[i])));
    tiles.push_back(twin_turns(squares));
  }
}

}  // namespace

TEST_CASE("sum_of_squares: adds in the documented order, bit for bit") {
  rng random(77);
  for (int round = 0; round < 12; ++round) {
    std::vector<std::vector<float>> a(random.below(5));
    std::vector<std::vector<bfloat16_bits>> b(random.below(5));
    std::vector<region> all;
    std::vector<double> tiles;
    for (auto& x : a) x = random_elements<float>(random, random.below(3) * random.below(15'000));
    for (auto& x : b) x = random_elements<bfloat16_bits>(random, random.below(40'000));
    for (auto& x : a) all.push_back(of(x, element_type::f32)), add_tiles(x, tiles);
    for (auto& x : b) all.push_back(of(x, element_type::bf16)), add_tiles(x, tiles);
    CHECK(sum_of_squares(all) == twin_turns(tiles));

    auto const table = make_squares_table(all);
    std::uint64_t in_runs = 0;
    for (auto const& r : table.runs) in_runs += r.tiles;
    CHECK(in_runs == tiles.size());
    CHECK(table.segments.size() ==
          static_cast<std::size_t>(std::ranges::count_if(all, [](region const& r) { return r.count > 0; })));
  }
  std::vector<float> large(std::size_t{2100} * 8192);  // more tiles than sums
  for (auto& x : large) x = static_cast<float>(random.unit());
  std::vector<double> tiles;
  add_tiles(large, tiles);
  std::vector<region> const all{of(large, element_type::f32)};
  CHECK(sum_of_squares(all) == twin_turns(tiles));
}

TEST_CASE("sum_of_squares: is close to a long double sum for every floating-point type") {
  rng random(31);
  for (std::size_t const count : {0u, 1u, 4095u, 4096u, 4097u, 100000u}) {
    auto a = random_elements<float>(random, count);
    auto b = random_elements<double>(random, count);
    auto c = random_elements<float16_bits>(random, count);
    auto d = random_elements<bfloat16_bits>(random, count);
    std::vector<region> const all{of(a, element_type::f32), of(b, element_type::f64),
                                  of(c, element_type::f16), of(d, element_type::bf16)};
    auto const twin = static_cast<double>(long_sum(a) + long_sum(b) + long_sum(c) + long_sum(d));
    CHECK(sum_of_squares(all) == doctest::Approx(twin).epsilon(1e-12));
    CHECK(sum_of_squares(std::span(all).first(1)) ==
          doctest::Approx(static_cast<double>(long_sum(a))).epsilon(1e-12));
  }
}

TEST_CASE("sum_of_squares: is exact for whole numbers and does not overflow for floats") {
  std::vector<float> x(10000, 3), large{3e38f, 3e38f};
  std::vector<region> const all{of(x, element_type::f32)}, larger{of(large, element_type::f32)};
  CHECK(sum_of_squares(all) == 90000);
  CHECK(std::isfinite(sum_of_squares(larger)));
  CHECK(sum_of_squares(std::span<region const>()) == 0);
}

TEST_CASE("sum_of_squares: is not finite if any element is not, wherever it is") {
  for (double const bad : {std::numeric_limits<double>::infinity(), std::nan("")})
    for (std::size_t const at : {0u, 5000u, 9999u}) {
      std::vector<double> x(10000, 1);
      x[at] = -bad;
      std::vector<region> const all{of(x, element_type::f64)};
      CHECK_FALSE(std::isfinite(sum_of_squares(all)));
    }
}
