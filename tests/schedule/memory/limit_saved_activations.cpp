// SPDX-License-Identifier: MIT
#include "cleave/schedule/memory/limit_saved_activations.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cleave/schedule/families/one_f_one_b.hpp"
#include "cleave/schedule/lower/lower.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"
#include "cleave/schedule/verify/deadlock.hpp"
#include "support/some_schedule.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

std::size_t count(schedule const& s, action_kind k) {
  std::size_t n = 0;
  for (auto const& row : s.ranks) each_action(row, [&](action const& a) { n += a.kind == k; });
  return n;
}

std::string limited_row(std::string const& row, std::uint64_t most,
                        saved_relief relief = saved_relief::offload, std::uint32_t ahead = 0) {
  auto const s = testing::schedule_of_rows({row});
  return row_text(
      limit_saved_activations(s, {.memory_limit = {most}, .relief = {relief}, .ahead = ahead}).ranks[0]);
}

schedule without_relief(schedule s) {
  for (auto& row : s.ranks)
    std::erase_if(row, [](action const& a) {
      return a.kind == action_kind::offload || a.kind == action_kind::reload ||
             a.kind == action_kind::recompute;
    });
  return s;
}

}  // namespace

TEST_CASE("limit_saved_activations: the activation needed last leaves after its F and returns before its B") {
  CHECK(limited_row("0F0,0F1,0F2,0B0,0B1,0B2", 3) == "0F0,0F1,0F2,0B0,0B1,0B2");
  CHECK(limited_row("0F0,0F1,0F2,0B0,0B1,0B2", 2) == "0F0,0F1,0OFFLOAD1,0F2,0B0,0RELOAD1,0B1,0B2");
  CHECK(limited_row("0F0,0F1,0B1,0B0", 1) == "0F0,0OFFLOAD0,0F1,0B1,0RELOAD0,0B0");
  CHECK(limited_row("0F0,0F1,0B1,0B0", 1, saved_relief::recompute) == "0F0,0F1,0B1,0RECOMPUTE0,0B0");
}

TEST_CASE("limit_saved_activations: no rank exceeds its limit, and passes stay unchanged") {
  testing::rng random(19);
  int limited = 0;
  for (int i = 0; i < 200; ++i) {
    auto const compute = testing::some_schedule(random);
    auto const s = random.one_in(3) ? lower(compute) : compute;
    saved_activation_limit limit{.ahead = static_cast<std::uint32_t>(random.below(3))};
    limit.relief.clear();
    for (std::uint32_t st = 0; st < s.place.stages(); ++st) {
      limit.bytes.stages.push_back({random.below(20), random.below(10), random.below(6)});
      limit.relief.push_back(static_cast<saved_relief>(random.below(3)));
    }
    for (auto const most : max_saved_bytes(s, limit.bytes))
      limit.memory_limit.push_back(most - random.below(most / 2 + 1));
    if (auto const fault = find_saved_limit_fault(s, limit)) {
      REQUIRE(fault->needed > fault->allowed);
      REQUIRE_THROWS_AS(limit_saved_activations(s, limit), saved_limit_error);
      continue;
    }
    auto const less = limit_saved_activations(s, limit);
    auto const most = max_saved_bytes(less, limit.bytes);
    for (std::size_t r = 0; r < most.size(); ++r) REQUIRE(most[r] <= limit.memory_limit[r]);
    REQUIRE(without_relief(less) == s);
    REQUIRE(!find_schedule_fault(less, {.passes = passes_of(s)}));
    limited += !(less == s);
    REQUIRE(limit_saved_activations(less, limit) == less);
  }
  CHECK(limited > 20);
}

TEST_CASE("limit_saved_activations: moves as few activations as possible if all have the same size") {
  // Tries every set of saved activations of a short list.
  testing::rng random(20);
  int limited = 0;
  for (int i = 0; i < 150; ++i) {
    std::vector<action> row;
    std::uint32_t const microbatches = 2 + static_cast<std::uint32_t>(random.below(5));
    std::vector<std::uint32_t> made, order(microbatches);
    for (std::uint32_t m = 0; m < microbatches; ++m) order[m] = m;
    random.shuffle(order);
    while (!order.empty() || !made.empty()) {
      bool const make = made.empty() || (!order.empty() && random.one_in(2));
      auto& from = make ? order : made;
      auto const at = from.begin() + static_cast<std::ptrdiff_t>(random.below(from.size()));
      row.push_back({make ? action_kind::forward : action_kind::backward, 0, stage_id{0}, microbatch_id{*at},
                     no_stage});
      if (make) made.push_back(*at);
      from.erase(at);
    }
    schedule const s{loop_placement(1), microbatches, {row}};
    saved_activation_limit const limit{.memory_limit = {1 + random.below(3)}};
    std::vector<lifetime> alive;
    for (auto const& stay : saved_intervals(s, 0, {})) alive.push_back(stay.alive);
    std::optional<int> fewest;
    for (std::uint32_t set = 0; set < (1u << alive.size()); ++set) {
      bool enough = true;
      for (std::uint32_t c = 0; c < row.size(); ++c) {
        std::uint64_t here = 0;
        for (std::size_t a = 0; a < alive.size(); ++a)
          here += alive[a].first <= c && c <= alive[a].last &&
                  ((set >> a & 1) == 0 || c == alive[a].first || c == alive[a].last);
        enough = enough && here <= limit.memory_limit[0];
      }
      if (enough && (!fewest || std::popcount(set) < *fewest)) fewest = std::popcount(set);
    }
    REQUIRE(find_saved_limit_fault(s, limit).has_value() == !fewest.has_value());
    if (!fewest) continue;
    REQUIRE(count(limit_saved_activations(s, limit), action_kind::offload) ==
            static_cast<std::size_t>(*fewest));
    limited += *fewest > 0;
  }
  CHECK(limited > 20);
}

TEST_CASE("limit_saved_activations: a reload ahead of its pass stays within the limit") {
  CHECK(limited_row("0F0,0F1,0F2,0B2,0B1,0B0", 2, saved_relief::offload, 1) ==
        "0F0,0OFFLOAD0,0F1,0F2,0B2,0RELOAD0,0B1,0B0");
  CHECK_THROWS_AS(limited_row("0F0,0F1,0B1,0B0", 1, saved_relief::offload, 1), saved_limit_error);
}

TEST_CASE(
    "limit_saved_activations: before or after lowering, the schedule stays within the limit and finishes") {
  auto const s = one_f_one_b(4, 8);
  saved_activation_limit const limit{.memory_limit = {2}};
  for (auto const& lowered :
       {lower(limit_saved_activations(s, limit)), limit_saved_activations(lower(s), limit)}) {
    CHECK(count(lowered, action_kind::offload) == count(lowered, action_kind::reload));
    CHECK(count(lowered, action_kind::offload) > 0);
    CHECK(!find_schedule_fault(lowered));
    for (auto const most : max_saved_bytes(lowered, {})) CHECK(most <= 2);
    for (auto const d : {delivery::rendezvous, delivery::async})
      CHECK(deadlock_verdict(lowered, d) == "finishes");
  }
}

TEST_CASE("limit_saved_activations: rejects a limit that is too low and names the rank, pass and bytes") {
  auto const s = one_f_one_b(2, 4);
  schedule_bytes const bytes{.stages = {{4096, 0, 0}}};
  CHECK(limit_saved_activations(s, {.bytes = bytes}) == s);
  CHECK(limit_saved_activations(
            s, {.bytes = bytes, .memory_limit = {4096}, .relief = {saved_relief::recompute}}) != s);
  try {
    limit_saved_activations(s, {.bytes = bytes, .memory_limit = {4095}});
    FAIL("accepted");
  } catch (saved_limit_error const& e) {
    CHECK(std::string(e.what()) ==
          "saved activations: rank 0 must keep 4096 bytes of saved activations at '0F0', but its limit is "
          "4095 bytes; raise the limit, keep "
          "fewer microbatches in flight, or let more stages offload or recompute");
  }
  CHECK_THROWS_AS(limit_saved_activations(s, {.memory_limit = {1}, .relief = {saved_relief::none}}),
                  saved_limit_error);
  CHECK_THROWS_AS(limit_saved_activations(s, {.bytes = {.stages = {{~std::uint64_t{0}, 0, 0}}}}),
                  schedule_bytes_error);
  auto broken = s;
  broken.ranks[0].pop_back();
  CHECK_THROWS_AS(limit_saved_activations(broken, {.memory_limit = {1}}), schedule_error);
}
