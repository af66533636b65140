// SPDX-License-Identifier: MIT
#include "cleave/schedule/memory/send_into_slots.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "cleave/schedule/families/interleaved_1f1b.hpp"
#include "cleave/schedule/families/one_f_one_b.hpp"
#include "cleave/schedule/lower/send_in_time.hpp"
#include "cleave/schedule/memory/plan_memory.hpp"
#include "cleave/schedule/simulate/simulate.hpp"
#include "cleave/schedule/verify/deadlock.hpp"
#include "cleave/schedule/verify/verify.hpp"
#include "support/some_schedule.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

/// Returns the maximum number of received messages that each rank holds, in the order of its list.
receive_slots most_received(schedule const& s, input_use inputs) {
  receive_slots most;
  bool const by_forward = inputs == input_use::by_forward || passes_of(s) == expected_passes::forward_alone;
  for (auto const& row : s.ranks) {
    std::array<std::uint32_t, 2> now{}, top{};
    std::map<std::pair<stage_id, microbatch_id>, std::array<std::uint32_t, 2>> of_pass;
    each_cell(std::span(row), [&](action const& head, std::span<action const> parts) {
      for (auto const& a : parts.empty() ? std::span(&head, 1) : parts) {
        auto& here = of_pass[{a.stage, a.microbatch}];
        if (is_receive(a.kind)) {
          auto const flow = is_activation_message(a.kind) ? 0u : 1u;
          ++here[flow];
          top[flow] = std::max(top[flow], ++now[flow]);
        }
        bool const backward = a.kind == action_kind::backward || a.kind == action_kind::input_gradient;
        if (by_forward ? a.kind == action_kind::forward : backward) now[0] -= std::exchange(here[0], 0);
        if (backward) now[1] -= std::exchange(here[1], 0);
      }
    });
    most.activations.push_back(top[0]);
    most.gradients.push_back(top[1]);
  }
  return most;
}

schedule without_messages(schedule s) {
  for (auto& row : s.ranks) std::erase_if(row, [](action const& a) { return is_message(a.kind); });
  return s;
}

}  // namespace

TEST_CASE("send_into_slots: no rank exceeds its slots, and every delivery finishes") {
  testing::rng random(15);
  for (int i = 0; i < 120; ++i) {
    auto const s = testing::some_schedule(random);
    auto const part = [&] { return static_cast<double>(random.below(5)) / 4; };
    send_into_slots_options options{.times = {{{part(), part(), part(), part()}}, part()}};
    auto const inputs = random.one_in(2) ? input_use::by_forward : input_use::until_gradient;
    options.slots = fewest_receive_slots(s, inputs);
    for (auto* slots : {&options.slots.activations, &options.slots.gradients})
      for (auto& n : *slots) n += static_cast<std::uint32_t>(random.below(3));
    if (random.one_in(4)) options.slots.gradients.clear();
    auto const sent = send_into_slots(s, options);
    auto const most = most_received(sent, inputs);
    for (std::uint32_t r = 0; r < s.ranks.size(); ++r) {
      REQUIRE(most.activations[r] <= options.slots.of(edge_flow::activations, r));
      REQUIRE(most.gradients[r] <= options.slots.of(edge_flow::gradients, r));
    }
    REQUIRE(!find_schedule_fault(sent, {.passes = passes_of(s)}));
    for (auto const d : {delivery::buffered, delivery::rendezvous, delivery::async, delivery::pair_stream})
      REQUIRE(deadlock_verdict(sent, d) == "finishes");
  }
}

TEST_CASE("send_into_slots: keeps the passes and, without a limit, the makespan") {
  testing::rng random(16);
  for (int i = 0; i < 80; ++i) {
    auto s = testing::some_schedule(random);
    for (auto& row : s.ranks) std::erase_if(row, [](action const& a) { return a.kind == action_kind::idle; });
    bool const compounds = std::ranges::any_of(s.ranks, [](auto const& row) {
      return std::ranges::any_of(row, [](auto const& a) { return a.parts > 0; });
    });
    double const base_latency = static_cast<double>(random.below(5)) / 4;
    auto const sent = send_into_slots(s, {.times = {.base_latency = base_latency}});
    if (compounds) continue;  // compounds are begun later, or split
    REQUIRE(without_messages(sent) == s);
    REQUIRE(simulate(sent, {.base_latency = base_latency}).makespan ==
            simulate(s, {.base_latency = base_latency}).makespan);
  }
}

TEST_CASE("send_into_slots: without a limit, equals send_in_time for lists without compounds") {
  testing::rng random(24);
  int compared = 0;
  for (int i = 0; i < 80; ++i) {
    auto const s = testing::some_schedule(random);
    bool compounds = false;
    for (auto const& row : s.ranks)
      for (auto const& a : row) compounds |= a.parts > 0;
    if (compounds) continue;  // `send_in_time` begins their parts one by one
    nominal_times const times{.base_latency = static_cast<double>(random.below(5)) / 4};
    REQUIRE(send_into_slots(s, {.times = times}) == send_in_time(s, times));
    ++compared;
  }
  CHECK(compared > 40);
}

TEST_CASE("send_into_slots: 1F1B takes longer with p - r slots and no longer with one slot more") {
  // A transfer takes a tenth of F, and B twice as long as F. With one queue for all messages, the makespan
  // grows from 59.8 to 61.0.
  auto const s = one_f_one_b(4, 16);
  auto const makespan = [&](std::vector<std::uint32_t> slots) {
    return simulate(send_into_slots(
                        s, {.slots = {.activations = std::move(slots)}, .times = {.base_latency = 0.1}}),
                    {.base_latency = 0.1})
        .makespan;
  };
  auto const all = simulate(s, {.base_latency = 0.1}).makespan;
  CHECK(makespan({}) == all);
  CHECK(makespan({5, 4, 3, 2}) == all);
  CHECK(makespan({4, 3, 2, 1}) > all);
  CHECK(std::abs(all - 59.8) < 1e-6);
  CHECK(makespan({4, 3, 2, 1}) < 61.0);
}

TEST_CASE("send_into_slots: plan_memory needs no more receive slots than were given") {
  auto const s = interleaved_1f1b(4, 2, 8);
  auto const slots = fewest_receive_slots(s);
  auto const plan = plan_memory(send_into_slots(s, {.slots = slots}), {.edges = {{8, 8}}});
  for (std::uint32_t r = 0; r < 4; ++r) {
    CHECK(plan.ranks[r].counts[static_cast<std::size_t>(slot_use::received_activation)] <=
          slots.activations[r]);
    CHECK(plan.ranks[r].counts[static_cast<std::size_t>(slot_use::received_gradient)] <= slots.gradients[r]);
  }
}

TEST_CASE("send_into_slots: rejects too few slots, invalid costs and invalid schedules") {
  auto const s = one_f_one_b(3, 4);
  CHECK_THROWS_AS(send_into_slots(s, {.slots = {.activations = {1}}}), slot_shortage_error);
  CHECK_THROWS_AS(send_into_slots(s, {.slots = {.gradients = {0}}}), slot_shortage_error);
  CHECK_THROWS_AS(send_into_slots(s, {.times = {.base_latency = -1}}), nominal_time_error);
  CHECK_THROWS_AS(send_into_slots(s, {.times = {.costs = {{.forward = -1}}}}), nominal_time_error);
  CHECK_THROWS_AS(send_into_slots(testing::schedule_of_rows({"1F0,0F0,1B0,0B0"})), schedule_error);
}
