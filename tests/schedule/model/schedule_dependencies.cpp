// SPDX-License-Identifier: MIT
#include "cleave/schedule/model/schedule_dependencies.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

#include "cleave/schedule/families/zbv.hpp"
#include "cleave/schedule/model/action.hpp"
#include "support/plain_lowering.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

std::set<std::string> requests_of(schedule_dependencies const& needs, action const& a) {
  std::set<std::string> texts;
  needs.each_dependency(a, [&](std::uint32_t event) {
    texts.insert(action_text(needs.action_of(event)));
    return true;
  });
  return texts;
}

action pass(action_kind kind, std::uint32_t s, std::uint32_t m) {
  return {.kind = kind, .stage = stage_id{s}, .microbatch = microbatch_id{m}};
}

}  // namespace

TEST_CASE("schedule_dependencies: a pass depends on passes, or on both ends of a message if any is listed") {
  using texts = std::set<std::string>;
  using enum action_kind;
  auto const s = zbv(2, 3);  // stages 0 and 3 on rank 0, 1 and 2 on rank 1
  schedule_dependencies const needs(s);
  CHECK(requests_of(needs, pass(action_kind::forward, 0, 1)) == texts{});
  CHECK(requests_of(needs, pass(action_kind::forward, 1, 1)) == texts{"0F1"});
  CHECK(requests_of(needs, pass(input_gradient, 2, 2)) == texts{"2F2", "3B2"});
  CHECK(requests_of(needs, pass(weight_gradient, 2, 2)) == texts{"2I2"});
  auto const lowered = testing::with_plain_messages(s);
  schedule_dependencies const sent(lowered);
  CHECK(requests_of(sent, pass(action_kind::forward, 1, 1)) == texts{"0SEND_F1", "1RECV_F1"});
  CHECK(requests_of(sent, pass(action_kind::forward, 2, 1)) == texts{"1F1"});
  CHECK(requests_of(sent, pass(action_kind::backward, 2, 0)) == texts{"2F0", "3SEND_B0", "2RECV_B0"});
}

TEST_CASE("schedule_dependencies: each end of a message has its own number, which gives the action back") {
  auto const s = testing::with_plain_messages(zbv(3, 5));
  schedule_dependencies const needs(s);
  std::set<std::uint32_t> seen;
  for (auto const& row : s.ranks)
    for (action const& a : row)
      if (is_send(a.kind) || is_receive(a.kind)) {
        auto const end = needs.message_end(a);
        REQUIRE(end < needs.events());
        REQUIRE(needs.action_of(end) == a);
        REQUIRE(seen.insert(end).second);
        REQUIRE(is_send(needs.action_of(needs.other_end(end)).kind) == is_receive(a.kind));
      }
  for (auto const end : seen) REQUIRE(seen.contains(needs.other_end(end)));
}
