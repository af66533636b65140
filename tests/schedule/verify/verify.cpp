// SPDX-License-Identifier: MIT
#include "cleave/schedule/verify/verify.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/model/invalid_action.hpp"
#include "cleave/schedule/text/listed_schedule.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"
#include "support/plain_lowering.hpp"
#include "support/queue_run.hpp"
#include "support/rng.hpp"
#include "support/run_order.hpp"
#include "support/thread_run.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

using rows = std::vector<std::string>;

schedule of_rows(rows const& texts, row_counts const& counts = {}) {
  std::vector<std::vector<action>> lists;
  for (auto const& text : texts) lists.push_back(read_row(text));
  return listed_schedule(lists, counts);
}

rows const good = {
    "0UNSHARD,0F0,0SEND_F0,0RECV_B0,0B0,0WAIT_SEND_F0,0REDUCE_GRAD,0WAIT_REDUCE_GRAD,0RESHARD",
    "1UNSHARD,1RECV_F0,1F0,1B0,1SEND_B0,1WAIT_SEND_B0,1REDUCE_GRAD,1WAIT_REDUCE_GRAD,1RESHARD"};

/// Returns the lists with the first `from` replaced.
rows with(std::string const& from, std::string const& to, rows texts = good) {
  for (auto& text : texts)
    if (auto const at = text.find(from); at != text.npos) return text.replace(at, from.size(), to), texts;
  FAIL("the good schedule has no " << from);
  return texts;
}

std::string codes_of(schedule const& s, verify_options const& options = {}) {
  std::string codes;
  for (auto const& f : schedule_faults(s, options))
    codes += (codes.empty() ? "" : " ") + std::string(code_of(f.what));
  return codes;
}
std::string codes_of(rows const& texts, verify_options const& options = {}) {
  return codes_of(of_rows(texts), options);
}

constexpr verify_options forward_alone = {.passes = expected_passes::forward_alone};

}  // namespace

TEST_CASE("schedule_faults: a schedule that can run has none") {
  for (auto const d : {delivery::buffered, delivery::rendezvous, delivery::async, delivery::pair_stream})
    CHECK(codes_of(good, {.delivery = d}) == "");
  CHECK(codes_of(rows{"0F0,0B0", ",1F0,1B0"}) == "");
  CHECK(codes_of(rows{"0F0", ""}, forward_alone) == "");
  CHECK_NOTHROW(require_schedule(of_rows(good)));
}

TEST_CASE("schedule_faults: a missing, repeated or misplaced pass gives its code alone") {
  CHECK(codes_of(rows{"0B0"}) == "forward-missing");
  CHECK(codes_of(rows{"0F0"}) == "backward-missing");
  CHECK(codes_of(rows{"0F0,0B0,0I0,0W0"}) == "backward-and-halves");
  CHECK(codes_of(rows{"0F0,0W0"}) == "input-gradient-missing");
  CHECK(codes_of(rows{"0F0,0I0"}) == "weight-gradient-missing");
  CHECK(codes_of(with("0B0", "0B0,0B0")) == "repeated");
  CHECK(codes_of(rows{"0B0,0F0"}) == "out-of-order");
  CHECK(codes_of(rows{"0F0,0B0,0F1,0B1", "1F0,1F1,1B0,1B1"}) == "deadlock");
  CHECK(codes_of(rows{"0F0,0F1,0B0,0B1"}, {.most_kept = 1}) == "memory");
  CHECK(codes_of(rows{"0F0,0F1,0B0,0B1"}, {.most_kept = 2}) == "");
}

TEST_CASE("schedule_faults: an unknown rank, stage, microbatch or edge gives its code alone") {
  CHECK(codes_of(of_rows(good, {.ranks = 3})) == "rank-count");
  CHECK(codes_of(of_rows({"0F0,0B0,7RECOMPUTE0"}, {.stages = 1})) == "stage-unknown");
  CHECK(codes_of(of_rows({"0F0,0B0,0RECOMPUTE1"}, {.microbatches = 1})) == "microbatch-unknown");
  CHECK(codes_of(of_rows({"0F0,0B0,0RECOMPUTE"}, {.microbatches = 1})) == "microbatch-unknown");
  CHECK(codes_of(with("1B0", "1B0,0RECOMPUTE0")) == "stage-on-two-ranks");
  CHECK(codes_of(with("0B0", "0B0,0SEND_F0@0")) == "edge-unknown");
  auto s = of_rows({"0F0,0B0"});
  s.place.rank_of[0] = rank_id{3};
  CHECK(codes_of(s) == "placement");
  s = of_rows({"0F0,0B0"});
  s.microbatches = 1u << 30;
  CHECK(codes_of(s) == "too-few-actions");
  s = of_rows({"0F0,0B0"});
  s.ranks[0].push_back({.kind = action_kind::overlap});
  CHECK(codes_of(s) == "compound");
  s.ranks[0].back().parts = 9;
  CHECK(codes_of(s) == "compound");
}

TEST_CASE("schedule_faults: an incomplete or misplaced message gives its code alone") {
  CHECK(codes_of(with("0SEND_F0", "0SEND_F0,0SEND_F0")) == "repeated");
  CHECK(codes_of(with(",0WAIT_SEND_F0", "", with(",0SEND_F0", "", with(",1RECV_F0", "")))) ==
        "message-missing");
  CHECK(codes_of(with(",1RECV_F0", "")) == "receive-missing");
  CHECK(codes_of(with(",0WAIT_SEND_F0", "", with(",0SEND_F0", ""))) == "send-missing");
  CHECK(codes_of(rows{"0F0,0SEND_F0,0RECV_B0,0B0", "1RECV_F0,1F0,1SEND_B0"}, forward_alone) ==
        "sent-not-made");
  CHECK(codes_of(rows{"0F0,0SEND_F0,0RECV_B0", "1RECV_F0,1F0,1B0,1SEND_B0"}, forward_alone) ==
        "received-not-used");
  CHECK(codes_of(with(",0WAIT_SEND_F0", "")) == "wait-missing");
  CHECK(codes_of(with(",0WAIT_SEND_F0", ",0WAIT_SEND_F0,0WAIT_SEND_F0")) == "waited-not-sent");
  CHECK(codes_of(with("1B0,1SEND_B0", "1SEND_B0,1B0")) == "out-of-order");
  CHECK(codes_of(with("1RECV_F0,1F0", "1F0,1RECV_F0")) == "out-of-order");
  rows const swapped = {"0F0,0SEND_F0,0F1,0SEND_F1", "1RECV_F1,1RECV_F0,1F0,1F1"};
  CHECK(codes_of(swapped, forward_alone) == "channel-order");
  CHECK(codes_of(swapped,
                 {.matching = message_matching::by_name, .passes = expected_passes::forward_alone}) == "");
}

TEST_CASE("schedule_faults: a deadlock is reported only for the deliveries that block") {
  rows const crossed = {"0F0,0SEND_F0,0F1,0SEND_F1,2RECV_F0,2F0,2RECV_F1,2F1",
                        "1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1,1SEND_F1"};
  auto options = forward_alone;
  CHECK(codes_of(crossed, options) == "");
  options.delivery = delivery::rendezvous;
  CHECK(codes_of(crossed, options) == "deadlock");
  auto const found = find_schedule_fault(of_rows(crossed), options);
  REQUIRE(found);
  CHECK(describe(*found) ==
        "the ranks are stuck: rank 0 at '0SEND_F1' waits for '1RECV_F1' of rank 1; rank 1 at '1SEND_F0' "
        "waits for "
        "'2RECV_F0' of rank 0");
}

TEST_CASE("schedule_faults: a misplaced weight or gradient action gives its code alone") {
  CHECK(codes_of(with("0UNSHARD", "0UNSHARD,0UNSHARD")) == "unshard-repeated");
  CHECK(codes_of(with("0RESHARD", "0RESHARD,0RESHARD")) == "reshard-repeated");
  CHECK(codes_of(with("0UNSHARD,0F0", "0F0,0UNSHARD")) == "used-resharded");
  CHECK(codes_of(with(",0RESHARD", "")) == "reshard-missing");
  CHECK(codes_of(with("0REDUCE_GRAD", "0REDUCE_GRAD,0REDUCE_GRAD")) == "reduce-repeated");
  CHECK(codes_of(with("0B0,0WAIT_SEND_F0,0REDUCE_GRAD", "0REDUCE_GRAD,0B0,0WAIT_SEND_F0")) == "reduce-early");
  CHECK(codes_of(with(",0WAIT_REDUCE_GRAD", "")) == "reduce-wait-missing");
  CHECK(codes_of(with("0WAIT_REDUCE_GRAD", "0WAIT_REDUCE_GRAD,0WAIT_REDUCE_GRAD")) == "waited-not-reduced");
  CHECK(codes_of(rows{"0F0,0REDUCE_TIE@1,0B0,0WAIT_REDUCE_TIE@1"}) == "reduce-early");
  CHECK(codes_of(rows{"0F0,0B0,0REDUCE_TIE@1"}) == "reduce-wait-missing");
  CHECK(codes_of(rows{"0F0,0B0,0WAIT_REDUCE_TIE@1"}) == "waited-not-reduced");
  CHECK(codes_of(rows{"0F0,0B0,0REDUCE_TIE@1,0REDUCE_TIE@2,0WAIT_REDUCE_TIE@1,0WAIT_REDUCE_TIE@2"}) == "");
  CHECK(codes_of(rows{"0F0,0OFFLOAD0,0B0"}) == "offload-misuse");
  CHECK(codes_of(rows{"0F0,0RELOAD0,0B0"}) == "offload-misuse");
  CHECK(codes_of(rows{"0F0,0OFFLOAD0,0RELOAD0,0B0"}) == "");
  CHECK(codes_of(rows{"0RECOMPUTE0,0F0,0B0"}) == "out-of-order");
}

TEST_CASE("schedule_faults: reports all faults, up to most_faults") {
  auto const s = of_rows({"0F0,0F0,0I0", "0B1"}, {.ranks = 2, .stages = 2, .microbatches = 2});
  CHECK(schedule_faults(s).size() > 4);
  CHECK(schedule_faults(s, {.most_faults = 2}).size() == 2);
  CHECK(find_schedule_fault(s) == schedule_faults(s).front());
  CHECK_THROWS_WITH_AS(require_schedule(of_rows({"0B0,0F0"})),
                       "schedule: rank 0, action #0: '0B0' comes before '0F0', which it needs",
                       schedule_error);
}

TEST_CASE("schedule_fault: each kind has its own code and a description") {
  std::set<std::string_view> codes;
  auto const last = static_cast<int>(schedule_fault::kind::deadlock);
  for (int k = 0; k <= last; ++k) {
    schedule_fault f{.what = static_cast<schedule_fault::kind>(k)};
    f.stuck = deadlock{};
    codes.insert(code_of(f.what));
    CHECK(describe(f).size() > 20);
    CHECK(!describe(f).ends_with("' "));
  }
  CHECK(codes.size() == static_cast<std::size_t>(last) + 1);
}

namespace {

/// A schedule with a single fault, and the code of that fault.
struct mutant {
  char const* code;
  schedule altered;
  verify_options options = {};
};

schedule misplaced(schedule s) {
  s.place.rank_of[0] = rank_id{3};
  return s;
}
schedule far_too_many(schedule s) {
  s.microbatches = 1u << 30;
  return s;
}
schedule with_empty_compound(schedule s) {
  s.ranks[0].push_back({.kind = action_kind::overlap});
  return s;
}

std::vector<mutant> all_mutants() {
  auto const one = of_rows({"0F0,0B0"});
  auto const without = [](std::string const& what, rows texts = good) { return with(what, "", texts); };
  return {
      {"rank-count", of_rows(good, {.ranks = 3})},
      {"placement", misplaced(one)},
      {"too-few-actions", far_too_many(one)},
      {"compound", with_empty_compound(one)},
      {"stage-unknown", of_rows({"0F0,0B0,7RECOMPUTE0"}, {.stages = 1})},
      {"microbatch-unknown", of_rows({"0F0,0B0,0RECOMPUTE1"}, {.microbatches = 1})},
      {"stage-on-two-ranks", of_rows(with("1B0", "1B0,0RECOMPUTE0"))},
      {"edge-unknown", of_rows(with("0B0", "0B0,0SEND_F0@0"))},
      {"repeated", of_rows(with("0B0", "0B0,0B0"))},
      {"forward-missing", of_rows({"0B0"})},
      {"backward-missing", of_rows({"0F0"})},
      {"backward-and-halves", of_rows({"0F0,0B0,0I0,0W0"})},
      {"input-gradient-missing", of_rows({"0F0,0W0"})},
      {"weight-gradient-missing", of_rows({"0F0,0I0"})},
      {"out-of-order", of_rows(with("1RECV_F0,1F0", "1F0,1RECV_F0"))},
      {"message-missing", of_rows(without(",0WAIT_SEND_F0", without(",0SEND_F0", without(",1RECV_F0"))))},
      {"receive-missing", of_rows(without(",1RECV_F0"))},
      {"send-missing", of_rows(without(",0WAIT_SEND_F0", without(",0SEND_F0")))},
      {"sent-not-made", of_rows({"0F0,0SEND_F0,0RECV_B0,0B0", "1RECV_F0,1F0,1SEND_B0"}), forward_alone},
      {"received-not-used", of_rows({"0F0,0SEND_F0,0RECV_B0", "1RECV_F0,1F0,1B0,1SEND_B0"}), forward_alone},
      {"wait-missing", of_rows(without(",0WAIT_SEND_F0"))},
      {"waited-not-sent", of_rows(with(",0WAIT_SEND_F0", ",0WAIT_SEND_F0,0WAIT_SEND_F0"))},
      {"channel-order", of_rows({"0F0,0SEND_F0,0F1,0SEND_F1", "1RECV_F1,1RECV_F0,1F0,1F1"}), forward_alone},
      {"unshard-repeated", of_rows(with("0UNSHARD", "0UNSHARD,0UNSHARD"))},
      {"reshard-repeated", of_rows(with("0RESHARD", "0RESHARD,0RESHARD"))},
      {"used-resharded", of_rows(with("0UNSHARD,0F0", "0F0,0UNSHARD"))},
      {"reshard-missing", of_rows(without(",0RESHARD"))},
      {"reduce-repeated", of_rows(with("0REDUCE_GRAD", "0REDUCE_GRAD,0REDUCE_GRAD"))},
      {"reduce-early", of_rows(with("0B0,0WAIT_SEND_F0,0REDUCE_GRAD", "0REDUCE_GRAD,0B0,0WAIT_SEND_F0"))},
      {"reduce-wait-missing", of_rows(without(",0WAIT_REDUCE_GRAD"))},
      {"waited-not-reduced", of_rows(with("0WAIT_REDUCE_GRAD", "0WAIT_REDUCE_GRAD,0WAIT_REDUCE_GRAD"))},
      {"offload-misuse", of_rows({"0F0,0OFFLOAD0,0B0"})},
      {"memory", of_rows({"0F0,0F1,0B0,0B1"}), {.most_kept = 1}},
      {"deadlock", of_rows({"0F0,0B0,0F1,0B1", "1F0,1F1,1B0,1B1"})},
  };
}

}  // namespace

TEST_CASE("schedule_faults: each code has a mutant that gives it alone, and threads agree on deadlocks") {
  std::set<std::string> told;
  for (auto const& m : all_mutants()) {
    CAPTURE(m.code);
    CHECK(codes_of(m.altered, m.options) == m.code);
    told.insert(m.code);
    // Threads can run the remaining ones. They finish unless an action waits for one that is late or missing.
    if (find_stage_placement_fault(m.altered.place) || !schedule_dependencies::fits(m.altered) ||
        find_invalid_action(m.altered))
      continue;
    auto const verdict = testing::thread_run(m.altered, {}).verdict();
    CHECK(verdict == deadlock_verdict(m.altered, delivery_rules{}));
    if (std::string(m.code) == "deadlock" || std::string(m.code) == "send-missing")
      CHECK(verdict != "finishes");
  }
  std::set<std::string> codes;
  for (int k = 0; k <= static_cast<int>(schedule_fault::kind::deadlock); ++k)
    codes.insert(std::string(code_of(static_cast<schedule_fault::kind>(k))));
  CHECK(told == codes);
}

TEST_CASE("schedule_faults: altered schedules have faults exactly if a naive check rejects them") {
  testing::rng random(30);
  std::size_t refused = 0, accepted = 0;
  for (int i = 0; i < 800; ++i) {
    auto s = make_schedule(random.one_in(2) ? schedule_family::zbv : schedule_family::looped_bfs,
                           {.ranks = static_cast<std::uint32_t>(1 + random.below(3)),
                            .stages_per_rank = 2,
                            .microbatches = static_cast<std::uint32_t>(1 + random.below(4))});
    for (std::size_t n = random.below(3); n > 0; --n) {
      auto& row = s.ranks[random.below(s.ranks.size())];
      auto& a = row[random.below(row.size())];
      if (a.kind == action_kind::idle) continue;
      if (random.one_in(3)) std::swap(a, row[random.below(row.size())]);
      if (random.one_in(5)) a.microbatch = microbatch_id{static_cast<std::uint32_t>(random.below(4))};
      if (random.one_in(5)) a = {};
    }
    bool const right = testing::order_defect(s).empty();
    REQUIRE(schedule_faults(s).empty() == right);
    REQUIRE(find_schedule_fault(s).has_value() == !right);
    ++(right ? accepted : refused);
  }
  CHECK(refused > 100);
  CHECK(accepted > 100);
}

TEST_CASE("schedule_faults: a schedule with messages deadlocks exactly if real queues get stuck") {
  testing::rng random(31);
  std::size_t stuck = 0;
  for (int i = 0; i < 300; ++i) {
    auto const ranks = static_cast<std::uint32_t>(1 + random.below(4));
    auto s = testing::with_plain_messages(
        make_schedule(schedule_family::zbv, {.ranks = ranks, .stages_per_rank = 2, .microbatches = 3}));
    REQUIRE(codes_of(s, {.matching = message_matching::by_name}) == "");
    auto& row = s.ranks[random.below(ranks)];
    std::swap(row[random.below(row.size())], row[random.below(row.size())]);
    for (auto const d : {delivery::buffered, delivery::rendezvous, delivery::async, delivery::pair_stream}) {
      auto const codes = codes_of(s, {.delivery = d, .matching = message_matching::by_name});
      bool const finishes = testing::queue_run(s, d).verdict() == "finishes";
      stuck += finishes ? 0 : 1;
      // An action that precedes its dependency on the same rank is a fault even if nothing waits for it.
      if (codes.find("out-of-order") == codes.npos) REQUIRE(codes == (finishes ? "" : "deadlock"));
    }
  }
  CHECK(stuck > 100);
}
