// SPDX-License-Identifier: MIT
#include "cleave/partition/slices/slicing.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "support/rng.hpp"

namespace {

using index_type = std::uint32_t;
using task = cleave::detail::slicing_task<index_type>;
using boundaries = std::vector<index_type>;

/// A row of units, up to four parts of two speeds, and often memory limits and pins.
task random_task(cleave::testing::rng& r) {
  task t;
  auto const parts = static_cast<index_type>(1 + r.below(4));
  t.may_be_empty = r.one_in(2);
  auto const n = static_cast<index_type>((t.may_be_empty ? 0 : parts) + r.below(7));
  t.pairs.alone.resize(n);
  for (int row = 0; row < 2; ++row) {
    auto& before = t.before.emplace_back(1);
    for (index_type i = 0; i < n; ++i)
      before.push_back(before.back() + static_cast<std::int64_t>(r.below(6)));
  }
  for (auto rows = r.one_in(2) ? 2 : 0; rows-- > 0;) {
    auto& fits = t.fitting.emplace_back(1);
    for (index_type j = 1; j <= n; ++j)
      fits.push_back(std::min(j, fits.back() + static_cast<index_type>(r.below(3))));
  }
  for (index_type s = 0; s < parts; ++s) {
    t.speed_of.push_back(static_cast<std::uint32_t>(r.below(2)));
    t.limit_of.push_back(static_cast<std::uint32_t>(r.below(2)));
  }
  for (index_type s = 0; s <= parts; ++s) {
    auto const gap = t.may_be_empty ? 0 : 1u;
    t.low.push_back(s == parts ? n : s * gap);
    t.high.push_back(s == 0 ? 0 : n - (parts - s) * gap);
  }
  if (parts > 1 && r.one_in(3)) {  // a pin moves all boundaries on one side of it
    auto const s = 1 + r.below(parts - 1);
    auto const at = static_cast<index_type>(t.low[s] + r.below(t.high[s] - t.low[s] + 1));
    for (auto k = s; k < parts; ++k) t.low[k] = std::max(t.low[k], at);
  }
  return t;
}

std::int64_t time_of(task const& t, std::size_t s, index_type begin, index_type end) {
  auto const& before = t.before[t.speed_of[s]];
  return before[end] - before[begin];
}

/// All boundaries that pins, memory and `may_be_empty` allow.
std::vector<boundaries> all_slices(task const& t) {
  std::vector<boundaries> done{{0}};
  for (std::size_t s = 0; s < t.parts(); ++s) {
    std::vector<boundaries> longer;
    for (auto const& at : done)
      for (auto end = std::max(t.low[s + 1], at.back()); end <= t.high[s + 1]; ++end) {
        if ((end == at.back() && !t.may_be_empty) || t.fits_from(s, end) > at.back()) continue;
        longer.push_back(at);
        longer.back().push_back(end);
      }
    done.swap(longer);
  }
  return done;
}

std::int64_t longest(task const& t, boundaries const& at) {
  std::int64_t most = 0;
  for (std::size_t s = 0; s < t.parts(); ++s) most = std::max(most, time_of(t, s, at[s], at[s + 1]));
  return most;
}

}  // namespace

TEST_CASE("slice_bands: contain all slices within a bound, and exactly their hull if slices may be empty") {
  cleave::testing::rng r(1);
  int none_at_all = 0;
  for (int i = 0; i < 300; ++i) {
    auto const t = random_task(r);
    auto const slices = all_slices(t);
    cleave::detail::slice_bands<index_type> const bands(t);
    for (std::int64_t bound = 0; bound < 20; bound += 1 + bound / 6) {
      boundaries low, high;
      for (auto const& at : slices) {
        if (longest(t, at) > bound) continue;
        if (low.empty()) low = high = at;
        for (std::size_t s = 0; s < at.size(); ++s)
          low[s] = std::min(low[s], at[s]), high[s] = std::max(high[s], at[s]);
      }
      auto next = cleave::detail::unreachable_load;
      auto const found = bands.within(bound, next);
      none_at_all += !found;
      if (t.may_be_empty) REQUIRE(found.has_value() == !low.empty());
      if (!low.empty()) {
        REQUIRE(found);
        for (std::size_t s = 0; s < low.size(); ++s) {
          REQUIRE(found->low[s] <= low[s]);
          REQUIRE(found->high[s] >= high[s]);
          if (t.may_be_empty) REQUIRE(found->low[s] == low[s]);
          if (t.may_be_empty) REQUIRE(found->high[s] == high[s]);
        }
      }
    }
  }
  CHECK(none_at_all > 300);
}

TEST_CASE("slice_bands: stay the same until the next bound that within() reports") {
  cleave::testing::rng r(2);
  for (int i = 0; i < 200; ++i) {
    auto const t = random_task(r);
    cleave::detail::slice_bands<index_type> const bands(t);
    for (std::int64_t bound = 0; bound < 20; ++bound) {
      auto next = cleave::detail::unreachable_load, unused = next;
      auto const here = bands.within(bound, next);
      REQUIRE(next > bound);
      for (auto later = bound + 1; later < std::min<std::int64_t>(next, 25); ++later) {
        auto const there = bands.within(later, unused);
        REQUIRE(there.has_value() == here.has_value());
        if (!here) continue;
        REQUIRE(there->low == here->low);
        REQUIRE(there->high == here->high);
      }
    }
  }
}

TEST_CASE("slice_bands: least() is the best bottleneck, or below it if slices must not be empty") {
  cleave::testing::rng r(3);
  int impossible = 0;
  for (int i = 0; i < 400; ++i) {
    auto const t = random_task(r);
    auto best = cleave::detail::unreachable_load;
    for (auto const& at : all_slices(t)) best = std::min(best, longest(t, at));
    cleave::detail::slice_bands<index_type> const bands(t);
    auto const least = bands.least(0);
    REQUIRE(least <= best);
    if (t.may_be_empty) REQUIRE(least == best);
    impossible += least == cleave::detail::unreachable_load;
    if (least == cleave::detail::unreachable_load) continue;
    std::int64_t unused = 0;
    REQUIRE(bands.within(least, unused));
    if (least > 0) REQUIRE(!bands.within(least - 1, unused));
    REQUIRE(bands.least(least + 3) == least + 3);
  }
  CHECK(impossible > 10);
}

TEST_CASE("slice_bands: guess() is a legal slicing within its bound and seldom misses one") {
  cleave::testing::rng r(4);
  int guessed = 0, missed = 0;
  for (int i = 0; i < 400; ++i) {
    auto const t = random_task(r);
    auto const slices = all_slices(t);
    cleave::detail::slice_bands<index_type> const bands(t);
    for (std::int64_t bound = 0; bound < 16; bound += 3) {
      auto const at = bands.guess(bound);
      if (at) {
        ++guessed;
        REQUIRE(std::ranges::find(slices, *at) != slices.end());
        REQUIRE(longest(t, *at) <= bound);
      } else {
        missed += std::ranges::any_of(slices, [&](auto const& x) { return longest(t, x) <= bound; });
      }
    }
  }
  CHECK(guessed > 300);
  CHECK(missed < guessed / 10);
}
