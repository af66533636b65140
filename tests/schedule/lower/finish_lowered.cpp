// SPDX-License-Identifier: MIT
#include "cleave/schedule/lower/finish_lowered.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <string_view>
#include <vector>

#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

schedule read_lowered(std::string_view text) {
  return read_schedule_csv(text, row_contents::with_communication);
}

}  // namespace

TEST_CASE("finish_lowered: leaves a lowered schedule unchanged after it is written and read") {
  for (std::size_t f = 0; f < schedule_names.size(); ++f) {
    auto const family = static_cast<schedule_family>(f);
    if (family == schedule_family::dual_pipe || family == schedule_family::chimera) continue;
    auto const lowered = lower(make_schedule(family, {2, stages_per_rank_of(family).value_or(2), 4}));
    CHECK(finish_lowered(read_lowered(schedule_csv(lowered))) == lowered);
  }
}

TEST_CASE("finish_lowered: applies the limit of outstanding sends and rejects a look-ahead") {
  auto const lowered = lower(gpipe(2, 4));
  auto const limited = finish_lowered(lowered, {.max_outstanding_sends = 1});
  CHECK(limited == limit_sends(lowered, 1));
  CHECK(limited != lowered);
  CHECK_THROWS_AS(finish_lowered(lowered, {.lookahead = {unshard_ahead::policy::automatic}}),
                  lower_option_error);
  CHECK_THROWS_AS(finish_lowered(lowered, {.max_outstanding_sends = -1}), lower_option_error);
}

TEST_CASE("finish_lowered: rejects lists without messages, without waits for sends or without a receive") {
  CHECK_THROWS_AS(finish_lowered(read_lowered("0F0,0B0\n1F0,1B0\n")), unsent_edge_error);
  CHECK(find_unsent_edge(gpipe(2, 1)) == stage_edge{stage_id{0}, stage_id{1}});
  CHECK(!find_unsent_edge(gpipe(1, 1)));
  CHECK_THROWS_AS(finish_lowered(read_lowered("0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n")),
                  send_wait_error);
  auto s = lower(gpipe(2, 2));
  std::erase_if(s.ranks[1], [](action const& a) { return a.kind == action_kind::receive_activation; });
  CHECK_THROWS_AS(finish_lowered(s), schedule_error);
}
