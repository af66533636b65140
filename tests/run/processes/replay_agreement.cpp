// SPDX-License-Identifier: MIT
#include "cleave/run/processes/process_pipeline.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "support/kept_broadcasts.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;

namespace {

using obstacle = std::optional<std::string>;

/// The obstacle that each rank learns if they have these obstacles.
std::vector<obstacle> heard_by(std::vector<obstacle> const& own) {
  std::vector<std::vector<std::byte>> kept;
  std::vector<obstacle> heard;
  auto const ranks = static_cast<std::uint32_t>(own.size());
  for (int round = 0; round < 2; ++round)
    for (std::uint32_t r = 0; r < ranks; ++r) {
      kept_broadcasts rendezvous{&kept, rank_id{r}};
      auto first = find_first_obstacle(rendezvous, own[r], rank_id{r}, ranks, {});
      if (round == 1) heard.push_back(std::move(first));
    }
  return heard;
}

}  // namespace

TEST_CASE("find_first_obstacle: finds none if no rank has an obstacle") {
  CHECK(heard_by(std::vector<obstacle>(3)) == std::vector<obstacle>(3));
  CHECK(heard_by({std::nullopt}) == std::vector<obstacle>(1));
}

TEST_CASE("find_first_obstacle: tells all ranks the first rank's obstacle") {
  CHECK(heard_by({std::nullopt, "its stage waits", "out of memory"}) ==
        std::vector<obstacle>(3, "rank 1: its stage waits"));
  CHECK(heard_by({"a long story " + std::string(1000, '.'), std::nullopt})[1] ==
        "rank 0: a long story " + std::string(1000, '.'));
}
