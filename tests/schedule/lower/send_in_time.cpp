// SPDX-License-Identifier: MIT
#include "cleave/schedule/lower/send_in_time.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "cleave/schedule/lower/lower.hpp"
#include "cleave/schedule/model/schedule_names.hpp"
#include "cleave/schedule/simulate/simulate.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"
#include "support/cases.hpp"
#include "support/every_delivery.hpp"
#include "support/message_census.hpp"
#include "support/random_schedule.hpp"
#include "support/run_order.hpp"

using namespace cleave;

using namespace cleave::detail;
using testing::rows_of;

namespace {

schedule schedule_of(std::vector<std::string_view> const& texts) {
  std::vector<std::vector<action>> rows;
  for (auto const text : texts) rows.push_back(read_row(text));
  return schedule_from_rows(std::move(rows));
}

std::vector<std::string> sent(std::vector<std::string_view> const& texts, nominal_times const& times = {}) {
  return rows_of(send_in_time(schedule_of(texts), times));
}

schedule without_messages(schedule s) {
  for (auto& row : s.ranks)
    std::erase_if(row, [](action const& a) { return is_message(a.kind) || a.kind == action_kind::idle; });
  return s;
}

/// A naive version: sorts all cells and messages by time and gives each rank its own. For passes that take
/// time and compounds that need not be split.
class plain_order {
 public:
  plain_order(schedule const& s, nominal_times const& times)
      : s_(s), spans_(simulate(s, {.costs = times.costs, .base_latency = times.base_latency}).spans) {}

  schedule made() {
    for (std::uint32_t r = 0; r < s_.ranks.size(); ++r) list_rank(r);
    for (std::size_t i = 0; i < all_.size(); ++i) all_[i].number = i;
    std::ranges::sort(all_, {},
                      [](entry const& e) { return std::tuple(e.time, e.phase, e.sender, e.number); });
    schedule made{s_.place, s_.microbatches, std::vector<std::vector<action>>(s_.ranks.size())};
    for (auto const& e : all_) made.ranks[e.rank].push_back(e.what);
    return made;
  }

 private:
  struct entry {
    double time;
    int phase;  // passes, then messages, then actions without duration
    std::uint32_t sender, rank;
    action what;
    std::size_t number = 0;  // position in the list of entries
  };

  void list_rank(std::uint32_t r) {
    double free = -1;
    for (std::size_t i = 0; i < s_.ranks[r].size();) {
      std::size_t const end = i + 1 + s_.ranks[r][i].parts;
      auto const is_pass = [](action const& a) { return is_compute(a.kind); };
      auto const cell = std::vector<action>(s_.ranks[r].begin() + static_cast<std::ptrdiff_t>(i),
                                            s_.ranks[r].begin() + static_cast<std::ptrdiff_t>(end));
      bool const passes = std::ranges::any_of(cell, is_pass);
      if (passes) free = spans_[r][end - 1].end;
      for (action const& a : cell)
        if (a.kind != action_kind::idle) all_.push_back({free, passes ? 0 : 2, r, r, a});
      for (action const& a : cell) list_messages(r, a, free);
      i = end;
    }
  }

  void list_messages(std::uint32_t r, action const& a, double time) {
    using enum action_kind;
    bool const activation = a.kind == action_kind::forward;
    if (!is_compute(a.kind) || a.kind == weight_gradient) return;
    for (auto const& [from, to] : s_.place.edges) {
      if ((activation ? from : to) != a.stage) continue;
      auto const other = activation ? to : from;
      auto const there = index(s_.place.rank_of[index(other)]);
      if (there == r) continue;
      auto const sends = activation ? send_activation : send_gradient;
      auto const receives = activation ? receive_activation : receive_gradient;
      all_.push_back({time, 1, r, r, {sends, 0, a.stage, a.microbatch, other}});
      all_.push_back({time, 1, r, there, {receives, 0, other, a.microbatch, a.stage}});
    }
  }

  schedule const& s_;
  std::vector<std::vector<time_span>> spans_;
  std::vector<entry> all_;
};

/// Checks that passes are kept, messages come once and in order, every delivery finishes, and the makespan is
/// that of the passes alone.
void check_sent(schedule const& s, nominal_times const& times = {}) {
  auto const lowered = send_in_time(s, times);
  CHECK(without_messages(lowered) == without_messages(s));
  CHECK(testing::message_defect(lowered) == "");
  CHECK(testing::stuck_with(lowered) == "");
  simulate_options const as_planned{.costs = times.costs, .base_latency = times.base_latency};
  CHECK(simulate(lowered, as_planned).makespan == simulate(s, as_planned).makespan);
}

}  // namespace

TEST_CASE("send_in_time: a send follows its pass, and its receive precedes the pass that runs then") {
  CHECK(sent({"0F0,0F1,,0B0,,0B1", ",1F0,1B0,1F1,1B1,"}) ==
        std::vector<std::string>{"0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1",
                                 "1RECV_F0,1RECV_F1,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1"});
}

TEST_CASE("send_in_time: at equal times, passes come before messages") {
  CHECK(sent({"0F0,0F1,0B0,0B1", "1F0,1B0,1F1,1B1"}, {.base_latency = 0})[1].starts_with(
      "1RECV_F0,1F0,1RECV_F1,1B0"));
}

TEST_CASE("send_in_time: costs change the places of receives") {
  auto const fast = sent({"0F0,0F1,0F2,0B0,0B1,0B2", "1F0,1B0,1F1,1B1,1F2,1B2"},
                         {.costs = {{.forward = 0.25}, {.forward = 4}}});
  CHECK(fast[1].starts_with("1RECV_F0,1RECV_F1,1RECV_F2,1F0"));
  auto const slow = sent({"0F0,0F1,0F2,0B0,0B1,0B2", "1F0,1B0,1F1,1B1,1F2,1B2"},
                         {.costs = {{.forward = 4}, {.forward = 0.25, .backward = 0.25}}});
  CHECK(slow[1].starts_with("1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1"));
}

TEST_CASE("send_in_time: every family finishes with every delivery, in the time of its passes alone") {
  for (std::size_t f = 0; f < schedule_names.size(); ++f)
    for (std::uint32_t p = 1; p < testing::cases(3, 4); ++p) {
      auto const s = testing::family_schedule(static_cast<schedule_family>(f), 2 * p, 4 * p);
      check_sent(s);
      check_sent(s, {.base_latency = 0});
    }
}

TEST_CASE("send_in_time: random schedules with unrelated costs finish in the time of their passes alone") {
  testing::rng random(1);
  for (std::size_t round = 0; round < testing::cases(100, 300); ++round) {
    auto const s = testing::random_list_schedule(random);
    check_sent(s,
               {testing::random_costs(random, s.place.stages()), static_cast<double>(random.below(9)) / 8});
  }
}

TEST_CASE("send_in_time: each list equals the passes and messages of its rank sorted by time") {
  testing::rng random(2);
  for (std::size_t round = 0; round < testing::cases(100, 300); ++round) {
    auto s = random.one_in(2) ? testing::random_list_schedule(random)
                              : testing::family_schedule(
                                    static_cast<schedule_family>(random.below(schedule_names.size())), 4, 8);
    if (random.one_in(2)) s = reduce_gradients(unshard_stages(s, lower_options{}), reduction_wait::deferred);
    nominal_times const times{
        random.one_in(3) ? std::vector<stage_cost>{} : testing::random_costs(random, s.place.stages()),
        static_cast<double>(random.below(5)) / 8};
    CHECK(rows_of(send_in_time(s, times)) == rows_of(plain_order(s, times).made()));
  }
}

TEST_CASE("send_in_time: schedules whose passes take no time still finish") {
  testing::rng random(3);
  stage_cost const nothing{.forward = 0, .backward = 0, .input_gradient = 0, .weight_gradient = 0};
  for (std::size_t round = 0; round < testing::cases(35, 100); ++round) {
    auto const s = testing::random_list_schedule(random);
    auto const lowered = send_in_time(s, {.costs = {nothing}, .base_latency = 0});
    CHECK(without_messages(lowered) == without_messages(s));
    CHECK(testing::message_defect(lowered) == "");
    CHECK(testing::stuck_with(lowered) == "");
  }
}

TEST_CASE("send_in_time: a part of a compound may depend on an earlier part") {
  CHECK(sent({"(0F0;1F0)OVERLAP_F_B,(1B0;0B0)OVERLAP_F_B"}) ==
        std::vector<std::string>{"(0F0;1F0)OVERLAP_F_B,(1B0;0B0)OVERLAP_F_B"});
}

TEST_CASE("send_in_time: splits a compound that needs another rank's answer to its own part") {
  CHECK(sent({"(0F0;0B0)OVERLAP_F_B,0F1,0B1", "1F0,1B0,1F1,1B1"}) ==
        std::vector<std::string>{"0F0,0SEND_F0,0RECV_B0,0B0,0F1,0SEND_F1,0RECV_B1,0B1",
                                 "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1"});
}

TEST_CASE("send_in_time: the error of a deadlock names each stuck rank and its next action") {
  auto const s = schedule_of({"0F0,0B0,0F1,0B1", "1F1,1B1,1F0,1B0"});
  try {
    send_in_time(s);
    CHECK(false);
  } catch (stuck_error const& e) {
    CHECK(e.witness == std::vector<stuck_rank>{{rank_id{0}, "0B0"}, {rank_id{1}, "1F1"}});
  }
}

TEST_CASE("send_in_time: rejects W before I, B before F, and a pass whose input is never made") {
  CHECK_THROWS_AS(sent({"0F0,0W0,0I0"}), stuck_error);
  CHECK_THROWS_AS(sent({"0B0,0F0"}), stuck_error);
  CHECK_THROWS_AS(sent({"0F0,0B0", "1F0,1B0,1F1,1B1"}), stuck_error);
}

TEST_CASE("send_in_time: rejects an action on the wrong rank and invalid times") {
  auto s = gpipe(2, 2);
  CHECK_THROWS_AS(send_in_time(s, {.base_latency = -1}), nominal_time_error);
  s.ranks[0].push_back(s.ranks[1].back());
  CHECK_THROWS_AS(send_in_time(s), invalid_action_error);
}
