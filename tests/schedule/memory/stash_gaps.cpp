// SPDX-License-Identifier: MIT
#include "cleave/schedule/memory/limit_saved_activations.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

struct problem {
  std::vector<std::uint64_t> kept;
  std::vector<saved_gap> gaps;
  std::uint64_t most = 0;
};

/// Random gaps, and cells that keep their bytes and some bytes without a gap.
problem some_problem(testing::rng& random, std::size_t sizes) {
  std::size_t const cells = 1 + random.below(9);
  problem p{std::vector<std::uint64_t>(cells), {}, random.below(6)};
  for (auto& k : p.kept) k = random.below(3);
  for (auto left = random.below(9); left > 0; --left) {
    auto const first = random.below(cells), last = first + random.below(cells - first);
    auto const bytes = 1 + random.below(sizes);
    p.gaps.push_back({{static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(last)}, bytes});
    for (auto c = first; c <= last; ++c) p.kept[c] += bytes;
  }
  return p;
}

bool is_enough(problem const& p, std::vector<std::uint32_t> const& gaps) {
  auto kept = p.kept;
  for (auto const g : gaps)
    for (auto c = p.gaps[g].free.first; c <= p.gaps[g].free.last; ++c) kept[c] -= p.gaps[g].bytes;
  return std::ranges::all_of(kept, [&](std::uint64_t k) { return k <= p.most; });
}

/// Returns the smallest number of gaps that suffices, by trying all sets; or none.
std::optional<std::size_t> fewest(problem const& p) {
  std::optional<std::size_t> best;
  for (std::uint32_t set = 0; set < (1u << p.gaps.size()); ++set) {
    std::vector<std::uint32_t> gaps;
    for (std::uint32_t g = 0; g < p.gaps.size(); ++g)
      if ((set >> g & 1) != 0) gaps.push_back(g);
    if ((!best || gaps.size() < *best) && is_enough(p, gaps)) best = gaps.size();
  }
  return best;
}

}  // namespace

TEST_CASE("choose_gaps: the choice suffices, and a shortage means that no choice does") {
  testing::rng random(17);
  int shortages = 0, choices = 0;
  for (int i = 0; i < 1500; ++i) {
    auto const p = some_problem(random, 4);
    auto const chosen = choose_gaps(p.kept, p.gaps, p.most);
    REQUIRE(chosen.shortage.has_value() == !fewest(p).has_value());
    shortages += chosen.shortage.has_value();
    choices += !chosen.gaps.empty() && !chosen.shortage;
    if (!chosen.shortage) REQUIRE(is_enough(p, chosen.gaps));
  }
  CHECK(shortages > 100);
  CHECK(choices > 100);
}

TEST_CASE("choose_gaps: if all gaps have the same size, no smaller choice suffices") {
  testing::rng random(18);
  for (int i = 0; i < 1500; ++i) {
    auto const p = some_problem(random, 1);
    auto const chosen = choose_gaps(p.kept, p.gaps, p.most);
    if (!chosen.shortage) REQUIRE(chosen.gaps.size() == *fewest(p));
  }
}

TEST_CASE("choose_gaps: prefers the gap that lasts longest, then the largest, then the first") {
  auto const chosen = [](std::vector<std::uint64_t> const& kept, std::vector<saved_gap> const& gaps,
                         std::uint64_t most) { return choose_gaps(kept, gaps, most).gaps; };
  CHECK(chosen({2, 2}, {{{0, 0}, 1}, {{0, 1}, 1}}, 1) == std::vector<std::uint32_t>{1});
  CHECK(chosen({5}, {{{0, 0}, 1}, {{0, 0}, 2}, {{0, 0}, 2}}, 3) == std::vector<std::uint32_t>{1});
  CHECK(chosen({5, 5}, {{{0, 1}, 5}}, 5).empty());
  CHECK(choose_gaps(std::vector<std::uint64_t>{1, 4}, std::vector<saved_gap>{{{0, 0}, 1}}, 3).shortage ==
        saved_shortage{1, 4});
}
