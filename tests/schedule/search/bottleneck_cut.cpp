// SPDX-License-Identifier: MIT
#include "cleave/schedule/search/cut_for_schedule.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cleave/core/random.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

double slowest(unit_row const& row, row_cut const& cut) {
  double most = 0;
  for (std::size_t s = 0; s + 1 < cut.size(); ++s)
    most = std::max(most, pass_time_between(row, cut[s], cut[s + 1]));
  return most;
}

/// Returns the time of the slowest stage in the best of all cuts of the units after place `from`.
double best_of_all(unit_row const& row, std::size_t from, std::uint32_t stages) {
  if (stages == 1) return pass_time_between(row, from, row.units());
  double best = 1e9;
  for (std::size_t to = from + 1; to + stages <= row.units() + 1; ++to)
    best = std::min(best, std::max(pass_time_between(row, from, to), best_of_all(row, to, stages - 1)));
  return best;
}

}  // namespace

TEST_CASE("bottleneck_cut: no other cut has a faster slowest stage, and no stage is empty") {
  splitmix rng(51);
  for (int round = 0; round < 300; ++round) {
    unit_row row{.cost = {{0, 0, 0, 0}}};
    for (auto units = 1 + rng.below(10); units-- > 0;) {
      auto const by = static_cast<double>(rng.below(9));
      row.cost.push_back({row.cost.back().forward + by, row.cost.back().backward + 2 * by, 0, 0});
    }
    auto const stages = static_cast<std::uint32_t>(1 + rng.below(row.units()));
    auto const cut = bottleneck_cut(row, stages);
    REQUIRE(cut.size() == stages + 1);
    CHECK(cut.front() == 0);
    CHECK(cut.back() == row.units());
    CHECK(std::ranges::adjacent_find(cut, [](auto a, auto b) { return a >= b; }) == cut.end());
    CHECK(slowest(row, cut) == best_of_all(row, 0, stages));
  }
}
