// SPDX-License-Identifier: MIT
#include "cleave/schedule/memory/plan_memory.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "cleave/schedule/families/one_f_one_b.hpp"
#include "cleave/schedule/lower/lower.hpp"
#include "cleave/schedule/memory/limit_saved_activations.hpp"
#include "support/some_schedule.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

schedule_bytes some_bytes(testing::rng& random, stage_placement const& p) {
  schedule_bytes bytes;
  for (std::uint32_t s = 0; s < p.stages(); ++s)
    bytes.stages.push_back({random.below(2000), random.below(2000), random.below(500)});
  for (std::size_t e = 0; e < p.edges.size(); ++e)
    bytes.edges.push_back({1 + random.below(2000), 1 + random.below(2000)});
  return bytes;
}

std::uint32_t count(memory_plan const& p, std::uint32_t rank, slot_use use) {
  return p.ranks[rank].counts[static_cast<std::size_t>(use)];
}

using who = std::tuple<slot_use, stage_id, microbatch_id, stage_id>;

/// Returns the lifetimes of all messages of a rank, looked up action by action.
std::map<who, lifetime> plain_lifetimes(schedule const& s, std::uint32_t r) {
  using enum action_kind;
  std::map<std::tuple<action_kind, stage_id, microbatch_id, stage_id>, std::uint32_t> cell_of;
  std::uint32_t cell = 0;
  each_cell(std::span(s.ranks[r]), [&](action const& head, std::span<action const> parts) {
    for (auto const& a : parts.empty() ? std::span(&head, 1) : parts)
      cell_of[{a.kind == input_gradient ? backward : a.kind, a.stage, a.microbatch, a.peer}] = cell;
    ++cell;
  });
  auto const at = [&](action_kind k, stage_id st, microbatch_id m) {
    return cell_of.at({k, st, m, no_stage});
  };
  std::map<who, lifetime> all;
  for (auto const& [key, c] : cell_of) {
    auto const& [kind, st, m, peer] = key;
    auto const add = [&](slot_use use, lifetime alive) { all[{use, st, m, peer}] = alive; };
    if (kind == receive_activation) add(slot_use::received_activation, {c, at(backward, st, m)});
    if (kind == receive_gradient) add(slot_use::received_gradient, {c, at(backward, st, m)});
    if (kind == wait_send_activation) add(slot_use::sent_activation, {at(forward, st, m), c});
    if (kind == wait_send_gradient) add(slot_use::sent_gradient, {at(backward, st, m), c});
  }
  return all;
}

}  // namespace

TEST_CASE("plan_memory: values alive together never overlap, and a new value waits for the old one") {
  testing::rng random(12);
  for (int i = 0; i < 60; ++i) {
    auto const compute = testing::some_schedule(random);
    auto const s = random.one_in(4) ? compute : lower(compute);
    auto const bytes = some_bytes(random, s.place);
    auto const plan = plan_memory(s, bytes, {.alignment = std::uint64_t{1} << random.below(10)});
    REQUIRE(plan.ranks.size() == s.ranks.size());
    REQUIRE(!find_slot_fault(plan));
    for (auto const& rank : plan.ranks) {
      REQUIRE(rank.bytes >= rank.least_bytes);
      REQUIRE(std::ranges::is_sorted(rank.values, {}, &slot_value::alive));
      for (std::size_t u = 0; u < rank.counts.size(); ++u) {
        std::vector<slot_value> of_use;
        for (auto const& v : rank.values)
          if (v.use == static_cast<slot_use>(u)) of_use.push_back(v);
        std::uint32_t most = 0;
        for (auto const& a : of_use) {
          std::uint32_t meet = 0;
          for (auto const& b : of_use) {
            bool const together = a.alive.first <= b.alive.last && b.alive.first <= a.alive.last;
            if (together && &a != &b) REQUIRE(a.slot != b.slot);
            meet += b.alive.first <= a.alive.first && a.alive.first <= b.alive.last;
          }
          most = std::max(most, meet);
          REQUIRE(a.slot < rank.counts[u]);
        }
        REQUIRE(rank.counts[u] == most);
      }
    }
  }
}

TEST_CASE("plan_memory: messages live from receive to use, or from their pass until their send has ended") {
  testing::rng random(13);
  for (int i = 0; i < 40; ++i) {
    auto const compute = testing::some_schedule(random);
    if (passes_of(compute) == expected_passes::forward_alone) continue;
    auto const s = lower(compute);
    auto const plan = plan_memory(s, {.edges = {{16, 16}}});
    for (std::uint32_t r = 0; r < s.ranks.size(); ++r) {
      auto expected = plain_lifetimes(s, r);
      for (auto const& v : plan.ranks[r].values) {
        if (v.use < slot_use::received_activation || v.use > slot_use::sent_gradient) continue;
        auto const found = expected.extract(who{v.use, v.stage, v.microbatch, v.peer});
        REQUIRE(!found.empty());
        REQUIRE(found.mapped() == v.alive);
      }
      REQUIRE(expected.empty());
    }
  }
}

TEST_CASE("plan_memory: rank r of 1F1B on p ranks keeps p - r saved activations, in the least memory") {
  auto const s = lower(one_f_one_b(4, 16));
  auto const plan = plan_memory(s, {.stages = {{4096, 4096, 0}}, .edges = {{4096, 4096}}});
  for (std::uint32_t r = 0; r < 4; ++r) {
    CHECK(count(plan, r, slot_use::saved) == 4 - r);
    CHECK(count(plan, r, slot_use::saved_for_weights) == 0);
    CHECK(plan.ranks[r].bytes == plan.ranks[r].least_bytes);
  }
}

TEST_CASE("plan_memory: stages on one rank pass results on as local values, without messages") {
  auto const s = testing::schedule_of_rows({"0F0,1F0,1B0,0B0"});
  auto const plan = plan_memory(s, {.stages = {{0, 0, 0}}, .edges = {{8, 24}}}, {.alignment = 1});
  REQUIRE(plan.ranks[0].values.size() == 2);
  CHECK(plan.ranks[0].values[0] == slot_value{.use = slot_use::local_activation,
                                              .stage = stage_id{0},
                                              .peer = stage_id{1},
                                              .alive = {0, 2},
                                              .bytes = 8,
                                              .offset = plan.ranks[0].values[0].offset});
  CHECK(plan.ranks[0].values[1].use == slot_use::local_gradient);
  CHECK(plan.ranks[0].values[1].alive == lifetime{2, 3});
  CHECK(plan.ranks[0].bytes == 32);
}

TEST_CASE("plan_memory: with input_use::by_forward, a received activation is freed after its F") {
  auto const s = lower(one_f_one_b(2, 4));
  schedule_bytes const bytes{.edges = {{8, 8}}};
  auto const copied = plan_memory(s, bytes, {.inputs = input_use::by_forward});
  CHECK(count(copied, 1, slot_use::received_activation) <=
        count(plan_memory(s, bytes), 1, slot_use::received_activation));
  for (auto const& v : copied.ranks[1].values)
    if (v.use == slot_use::received_activation) {
      std::uint32_t cell = 0;
      each_cell(std::span(s.ranks[1]), [&](action const& a, std::span<action const>) {
        if (cell++ == v.alive.last) {
          CHECK(a.kind == action_kind::forward);
          CHECK(a.microbatch == v.microbatch);
        }
      });
    }
}

TEST_CASE("plan_memory: offloading and recomputing reduce the bytes of a rank") {
  auto const s = one_f_one_b(4, 8);
  schedule_bytes const bytes{.stages = {{1024, 0, 256}}};
  for (auto const relief : {saved_relief::offload, saved_relief::recompute}) {
    auto const less =
        lower(limit_saved_activations(s, {.bytes = bytes, .memory_limit = {3072}, .relief = {relief}}));
    auto const with_edges = schedule_bytes{bytes.stages, {{1, 1}}};
    CHECK(plan_memory(less, with_edges).ranks[0].bytes < plan_memory(lower(s), with_edges).ranks[0].bytes);
  }
}

TEST_CASE("plan_memory: rejects unknown message sizes and a rank above its limit") {
  auto const s = lower(one_f_one_b(2, 2));
  try {
    plan_memory(s, {});
    FAIL("accepted");
  } catch (unknown_bytes_error const& e) {
    CHECK(e.witness == stage_edge{stage_id{0}, stage_id{1}});
    CHECK(std::string(e.what()) ==
          "memory plan: the size in bytes is unknown for the activation from stage 0 to stage 1; set the "
          "bytes of each edge");
  }
  CHECK_THROWS_AS(plan_memory(s, {.edges = {{8, 0}}}), unknown_bytes_error);
  schedule_bytes const bytes{.stages = {{512, 0, 0}}, .edges = {{256, 256}}};
  auto const needed = plan_memory(s, bytes).ranks[0].bytes;
  CHECK_NOTHROW(plan_memory(s, bytes, {.memory_limit = {needed, ~std::uint64_t{0}}}));
  CHECK_THROWS_AS(plan_memory(s, bytes, {.memory_limit = {needed - 1, ~std::uint64_t{0}}}), slot_error);
  CHECK_THROWS_AS(plan_memory(s, bytes, {.alignment = 3}), memory_request_error);
  CHECK_THROWS_AS(plan_memory(s, {.edges = {{~std::uint64_t{0}, 1}}}), schedule_bytes_error);
  auto broken = s;
  broken.ranks[0].pop_back();
  CHECK_THROWS_AS(plan_memory(broken, bytes), schedule_error);
}
