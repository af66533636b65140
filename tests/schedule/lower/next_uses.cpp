// SPDX-License-Identifier: MIT
#include "cleave/schedule/lower/lower.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

/// Returns the next `count` different stages from a cell on.
std::vector<stage_id> looked_ahead(std::span<action const> row, std::size_t cell, std::size_t count) {
  std::vector<stage_id> next;
  std::size_t at = 0;
  each_cell(row, [&](action const& head, std::span<action const> parts) {
    if (head.kind == action_kind::idle || at++ < cell || next.size() >= count) return;
    for (action const& a : parts.empty() ? std::span(&head, 1) : parts)
      if (std::ranges::find(next, a.stage) == next.end()) next.push_back(a.stage);
  });
  return next;
}

std::vector<action> random_row(testing::rng& rng) {
  std::vector<action> row;
  auto const stages = 1 + rng.below(6);
  auto const pass = [&] {
    return action{action_kind::forward, 0, stage_id{static_cast<std::uint32_t>(rng.below(stages))},
                  microbatch_id{0}};
  };
  for (auto cells = rng.below(30); cells > 0; --cells) {
    if (rng.one_in(5)) row.push_back({});
    if (rng.one_in(3)) {
      row.push_back({action_kind::overlap, 2});
      row.push_back(pass());
    }
    row.push_back(pass());
  }
  return row;
}

}  // namespace

TEST_CASE("next_uses: matches a forward scan, and pass returns true only if the next stages stay the same") {
  testing::rng rng(11);
  for (int round = 0; round < 300; ++round) {
    auto const row = random_row(rng);
    std::size_t cells = 0;
    each_cell(std::span(row), [&](action const& a, auto) { cells += a.kind != action_kind::idle; });
    next_uses uses(row);
    auto const found = [&](std::size_t count) {
      std::vector<stage_id> next;
      for (auto const s : uses.next(count)) next.push_back(uses.stages()[s]);
      return next;
    };
    for (std::size_t cell = 0; cell < cells; ++cell) {
      for (std::size_t count = 1; count < 8; ++count) CHECK(found(count) == looked_ahead(row, cell, count));
      if (uses.pass())
        for (std::size_t count = 1; count < 8; ++count)
          CHECK(looked_ahead(row, cell, count) == looked_ahead(row, cell + 1, count));
    }
    CHECK(uses.next(9).empty());
  }
}
