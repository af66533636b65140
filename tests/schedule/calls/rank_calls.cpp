// SPDX-License-Identifier: MIT
#include "cleave/schedule/calls/rank_calls.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/lower/lower.hpp"
#include "cleave/schedule/lower/send_at_use.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

using texts = std::vector<std::string>;

schedule of_rows(texts const& rows) {
  std::vector<std::vector<action>> lists;
  for (auto const& row : rows) lists.push_back(read_row(row));
  return schedule_from_rows(std::move(lists), row_contents::with_communication);
}

texts lines_of(schedule const& s, std::uint32_t rank, call_options const& options = {}) {
  return call_lines(rank_calls(s, rank_id{rank}, options));
}

call_fault::kind fault_of(texts const& rows, std::uint32_t rank, call_options const& options = {}) {
  auto const s = of_rows(rows);
  auto const fault = find_call_fault(s, rank_id{rank}, options);
  REQUIRE(fault);
  CHECK_THROWS_AS((void)rank_calls(s, rank_id{rank}, options), call_error);
  return fault->what;
}

/// A naive translation of the list of a rank of a chain into call texts. For lists without exchanges.
class plain_calls {
 public:
  plain_calls(schedule const& s, std::uint32_t rank, bool sharded) : s_(s), rank_(rank), sharded_(sharded) {
    each_action(s.ranks[rank], [&](action const& a) { call(a); });
  }
  texts lines;

 private:
  static std::string number(std::uint32_t n) { return std::to_string(n); }
  bool is_here(std::uint32_t stage) const { return index(s_.place.rank_of[stage]) == rank_; }

  void call(action const& a) {
    auto const s = index(a.stage), i = index(a.microbatch), last = s_.place.stages() - 1;
    auto const pass = number(s) + " " + number(i), m = number(s_.microbatches);
    std::string const name(name_of(a.kind));
    auto const first_count = [&] {
      return ++backward_[s] == s_.microbatches ? std::string(" last") : std::string();
    };
    if (is_compute(a.kind) && gathering_.erase(s) > 0) lines.push_back("wait unshard " + number(s));
    if (a.kind == action_kind::forward) {
      if (s > 0 && !is_here(s - 1))
        lines.push_back("wait recv F" + number(i) + " stage " + number(s) + "<-" + number(s - 1));
      lines.push_back("forward " + pass);
      if (s == last) lines.push_back("loss " + number(s) + "." + number(i));
      if (s < last && is_here(s + 1))
        lines.push_back("local F" + number(i) + " " + number(s) + "=>" + number(s + 1));
    } else if (name == "B" || name == "I") {
      if (s < last && !is_here(s + 1))
        lines.push_back("wait recv B" + number(i) + " stage " + number(s) + "<-" + number(s + 1));
      lines.push_back((name == "B" ? "backward " : "backward_input ") + pass + (s == last ? " loss" : "") +
                      (name == "B" ? first_count() : ""));
      if (s > 0 && is_here(s - 1))
        lines.push_back("local B" + number(i) + " " + number(s) + "=>" + number(s - 1));
    } else if (name == "W") {
      lines.push_back("backward_weight " + pass + first_count());
    } else if (is_message(a.kind)) {
      auto const letter = is_activation_message(a.kind) ? "F" : "B";
      lines.push_back((is_receive(a.kind) ? "recv "
                       : is_send(a.kind)  ? "send "
                                          : "wait send ") +
                      (letter + number(i)) + " stage " + number(s) + (is_receive(a.kind) ? "<-" : "->") +
                      number(index(a.peer)));
      if (name == "WAIT_SEND_F") lines.push_back("release " + pass);
    } else if (name == "REDUCE_GRAD") {
      reduced_.insert(s);
      lines.push_back(sharded_ ? "start_reduce " + number(s) : "reduce_grad " + number(s) + " /" + m);
    } else if (sharded_ && name == "WAIT_REDUCE_GRAD") {
      lines.push_back("wait_reduce " + number(s) + " /" + m);
    } else if (sharded_ && name == "UNSHARD") {
      gathering_.insert(s);
      lines.push_back("unshard " + number(s));
    } else if (sharded_ && name == "RESHARD" && reduced_.count(s) == 0) {
      lines.push_back("reshard " + number(s));
    }
  }

  schedule const& s_;
  std::uint32_t rank_;
  bool sharded_;
  std::map<std::uint32_t, std::uint32_t> backward_;
  std::set<std::uint32_t> gathering_, reduced_;
};

/// Checks that each call that begins something is waited for once, later, and no other call is.
void check_waits(std::vector<rank_call> const& calls) {
  std::map<std::uint32_t, std::size_t> waits;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (!is_wait(calls[i].kind)) {
      CHECK(calls[i].begun == rank_call::none);
      continue;
    }
    REQUIRE(calls[i].begun < i);
    auto const& begun = calls[calls[i].begun];
    CHECK(begun.of.stage == calls[i].of.stage);
    CHECK(static_cast<int>(calls[i].kind) - static_cast<int>(begun.kind) ==
          (begun.kind == call_kind::send || begun.kind == call_kind::receive ? 2 : 1));
    ++waits[calls[i].begun];
  }
  for (std::uint32_t i = 0; i < calls.size(); ++i) {
    bool const begins = calls[i].kind == call_kind::send || calls[i].kind == call_kind::receive ||
                        calls[i].kind == call_kind::unshard || calls[i].kind == call_kind::start_reduce;
    CHECK(waits[i] == (begins ? 1 : 0));
  }
}

schedule_family const families[] = {schedule_family::gpipe,       schedule_family::one_f_one_b,
                                    schedule_family::looped_bfs,  schedule_family::interleaved_1f1b,
                                    schedule_family::dual_pipe_v, schedule_family::zbv,
                                    schedule_family::hanayo,      schedule_family::interleaved_zero_bubble};

schedule callable_schedule(testing::rng& random) {
  auto const family = families[random.below(std::size(families))];
  auto const ranks = static_cast<std::uint32_t>(1 + random.below(4));
  return make_schedule(
      family,
      {.ranks = ranks, .stages_per_rank = stages_per_rank_of(family).value_or(2), .microbatches = 2 * ranks});
}

}  // namespace

TEST_CASE("rank_calls: a pass waits for its receives, and an output is released after its send has ended") {
  auto const s = of_rows({"0F0,0SEND_F0,0RECV_B0,0B0,0WAIT_SEND_F0,0REDUCE_GRAD,0WAIT_REDUCE_GRAD",
                          "1RECV_F0,1F0,1B0,1SEND_B0,1WAIT_SEND_B0"});
  CHECK(lines_of(s, 0) == texts{"forward 0 0", "send F0 stage 0->1", "recv B0 stage 0<-1",
                                "wait recv B0 stage 0<-1", "backward 0 0 last", "wait send F0 stage 0->1",
                                "release 0 0", "reduce_grad 0 /1"});
  CHECK(lines_of(s, 1) == texts{"recv F0 stage 1<-0", "wait recv F0 stage 1<-0", "forward 1 0", "loss 1.0",
                                "backward 1 0 loss last", "send B0 stage 1->0", "wait send B0 stage 1->0"});
}

TEST_CASE("rank_calls: with loss_source::caller, backward passes do not start from a loss") {
  auto const s = of_rows({"0F0,0B0"});
  CHECK(lines_of(s, 0, {.loss = loss_source::caller}) == texts{"forward 0 0", "backward 0 0 last"});
}

TEST_CASE("rank_calls: stages on one rank pass results on by local transfers") {
  CHECK(lines_of(of_rows({"0F0,1F0,1I0,0B0,1W0"}), 0) ==
        texts{"forward 0 0", "local F0 0=>1", "forward 1 0", "loss 1.0", "backward_input 1 0 loss",
              "local B0 1=>0", "backward 0 0 last", "backward_weight 1 0 last"});
}

TEST_CASE(
    "rank_calls: sharded weights are awaited at first use, and the reduction replaces the last reshard") {
  auto const s = of_rows({"0UNSHARD,0F0,0RESHARD,0UNSHARD,0B0,0REDUCE_GRAD,0RESHARD,0WAIT_REDUCE_GRAD"});
  call_options options{.weights = weight_storage::sharded};
  CHECK(lines_of(s, 0, options) == texts{"unshard 0", "wait unshard 0", "forward 0 0", "loss 0.0",
                                         "reshard 0", "unshard 0", "wait unshard 0", "backward 0 0 loss last",
                                         "start_reduce 0", "wait_reduce 0 /1"});
  options.gradients = gradient_end::kept;
  CHECK(lines_of(s, 0, options).back() == "backward 0 0 loss last");
  CHECK(lines_of(s, 0) == texts{"forward 0 0", "loss 0.0", "backward 0 0 loss last", "reduce_grad 0 /1"});
  CHECK(lines_of(of_rows({"0UNSHARD,0RESHARD"}), 0, {.weights = weight_storage::sharded}) ==
        texts{"unshard 0", "wait unshard 0", "reshard 0"});
}

TEST_CASE("rank_calls: gradients are divided by the microbatches only with gradient_scale::by_microbatches") {
  auto const s = of_rows({"0F0,0F1,0B0,0B1,0REDUCE_GRAD,0WAIT_REDUCE_GRAD"});
  CHECK(lines_of(s, 0).back() == "reduce_grad 0 /1");
  CHECK(lines_of(s, 0, {.scale = gradient_scale::by_microbatches}).back() == "reduce_grad 0 /2");
}

TEST_CASE("rank_calls: messages begun together are awaited together, before any output is released") {
  auto const s = of_rows({"0F0,(0SEND_F0;0RECV_B0)EXCHANGE,0WAIT_SEND_F0,0B0", "1RECV_F0,1F0,1B0"});
  CHECK(lines_of(s, 0) == texts{"forward 0 0", "batch[send F0 stage 0->1; recv B0 stage 0<-1]",
                                "wait send F0 stage 0->1", "wait recv B0 stage 0<-1", "release 0 0",
                                "backward 0 0 last"});
}

TEST_CASE("rank_calls: release_rule::all releases unsent outputs before the next backward pass") {
  auto const s = of_rows({"0F0,0F1,0B0,0B1"});
  CHECK(lines_of(s, 0, {.releases = release_rule::all}) ==
        texts{"forward 0 0", "loss 0.0", "forward 0 1", "loss 0.1", "release 0 0", "release 0 1",
              "backward 0 0 loss", "backward 0 1 loss last"});
}

TEST_CASE("rank_calls: an output sent to several ranks is released after its last wait") {
  schedule s{
      loop_placement(3), 1, {read_row("0F0,0SEND_F0,0SEND_F0@2,0WAIT_SEND_F0,0WAIT_SEND_F0@2"), {}, {}}};
  s.place.edges = {{stage_id{0}, stage_id{1}}, {stage_id{0}, stage_id{2}}};
  CHECK(lines_of(s, 0) == texts{"forward 0 0", "send F0 stage 0->1", "send F0 stage 0->2",
                                "wait send F0 stage 0->1", "wait send F0 stage 0->2", "release 0 0"});
}

TEST_CASE("rank_calls: a custom action replaces all calls that belong to the action") {
  auto const s = of_rows({"0UNSHARD,0F0,1F0,(0F1;1B0)OVERLAP_F_B,0B0,0OFFLOAD1"});
  CHECK(lines_of(s, 0, {.custom = {action_kind::overlap, action_kind::forward, action_kind::unshard}}) ==
        texts{"custom 0UNSHARD", "custom 0F0", "custom 1F0", "custom (0F1;1B0)OVERLAP_F_B", "backward 0 0",
              "0OFFLOAD1"});
  CHECK(lines_of(s, 0, {.custom = {action_kind::forward}})[2] == "forward 0 1");
  CHECK(lines_of(of_rows({"0UNSHARD,0F0,0RESHARD,0REDUCE_GRAD,0WAIT_REDUCE_GRAD"}), 0,
                 {.weights = weight_storage::sharded,
                  .custom = {action_kind::unshard, action_kind::reshard, action_kind::reduce_gradient}}) ==
        texts{"custom 0UNSHARD", "forward 0 0", "loss 0.0", "custom 0RESHARD", "custom 0REDUCE_GRAD",
              "wait_reduce 0 /1"});
}

TEST_CASE(
    "rank_calls: with custom_inputs::called, a custom pass gets the waits and flags of a built-in pass") {
  auto const s =
      of_rows({"0F0,0SEND_F0,0RECV_B0,0B0,0WAIT_SEND_F0", "1RECV_F0,1F0,1B0,1SEND_B0,1WAIT_SEND_B0"});
  call_options const options{.custom = {action_kind::forward, action_kind::backward},
                             .needs = custom_inputs::called};
  CHECK(lines_of(s, 1, options) == texts{"recv F0 stage 1<-0", "wait recv F0 stage 1<-0", "custom 1F0",
                                         "custom 1B0", "send B0 stage 1->0", "wait send B0 stage 1->0"});
  auto const calls = rank_calls(s, rank_id{1}, options);
  CHECK((!calls[2].from_loss && !calls[2].last));
  CHECK((calls[3].from_loss && calls[3].last));
  CHECK(fault_of({"0F0", "1F0"}, 1, options) == call_fault::kind::not_received);
  CHECK(fault_of({"0UNSHARD,0F0,0RESHARD,0B0"}, 0,
                 {.weights = weight_storage::sharded,
                  .custom = {action_kind::backward},
                  .needs = custom_inputs::called}) == call_fault::kind::not_unsharded);
  CHECK(fault_of({"(0F0;0SEND_F0)OVERLAP_F_B,0WAIT_SEND_F0", "1RECV_F0,1F0"}, 0,
                 {.custom = {action_kind::overlap}}) == call_fault::kind::not_replaceable);
}

TEST_CASE("rank_calls: rejects a list that cannot be called and names the place") {
  using enum call_fault::kind;
  call_options const sharded{.weights = weight_storage::sharded};
  CHECK(fault_of({"0F0", "1F0"}, 1) == not_received);
  CHECK(fault_of({"0F0,0B0,0RECV_B0", "1F0"}, 0) == not_received);
  CHECK(fault_of({"0F0", "1RECV_F0,1RECV_F0,1F0"}, 1) == received_twice);
  CHECK(fault_of({"0F0"}, 0, sharded) == not_unsharded);
  CHECK(fault_of({"0UNSHARD,0F0,0RESHARD,0B0"}, 0, sharded) == not_unsharded);
  CHECK(fault_of({"0RESHARD"}, 0, sharded) == not_unsharded);
  CHECK(fault_of({"0UNSHARD,0UNSHARD"}, 0, sharded) == unsharded_twice);
  CHECK(fault_of({"0F0,0B0,0WAIT_REDUCE_GRAD"}, 0) == reduced_too_soon);
  CHECK(fault_of({"0F0"}, 0, {.custom = {action_kind::send_gradient}}) == not_replaceable);
  auto const fault = find_call_fault(of_rows({"0F0", "1F0"}), rank_id{1});
  CHECK(describe(*fault) ==
        "rank 1, action #0: '1F0' needs a value from another rank; put '1RECV_F0' before it");
  CHECK_THROWS_AS((void)rank_calls(of_rows({"0F0,0SEND_F0", "1F0"}), rank_id{0}), send_wait_error);
  auto s = of_rows({"0F0", "1F0"});
  s.place.edges[0].to = stage_id{7};
  CHECK_THROWS_AS((void)rank_calls(s, rank_id{0}), stage_placement_error);
  s.ranks.pop_back();
  CHECK_THROWS_AS((void)rank_calls(s, rank_id{0}), invalid_action_error);
}

TEST_CASE("rank_calls: random lowered schedules match a naive translation, and all that begins ends once") {
  testing::rng random(77);
  for (int i = 0; i < 150; ++i) {
    auto const s =
        lower(callable_schedule(random),
              {.max_active_stages = static_cast<std::int64_t>(2 + random.below(3)),
               .reductions = random.one_in(2) ? reduction_wait::deferred : reduction_wait::at_once});
    for (std::uint32_t r = 0; r < s.ranks.size(); ++r)
      for (bool const sharded : {false, true}) {
        auto const calls = rank_calls(s, rank_id{r},
                                      {.weights = sharded ? weight_storage::sharded : weight_storage::whole,
                                       .scale = gradient_scale::by_microbatches});
        CHECK(call_lines(calls) == plain_calls(s, r, sharded).lines);
        check_waits(calls);
      }
  }
}

TEST_CASE("rank_calls: every message of an exchange is waited for once, with both values of exchange_issue") {
  for (std::uint32_t p = 1; p < 6; ++p) {
    auto const s = send_at_use(one_f_one_b(p, p + 3), send_pairing::with_next_receive);
    for (std::uint32_t r = 0; r < p; ++r)
      for (auto const issue : {exchange_issue::together, exchange_issue::by_rank_pair})
        check_waits(rank_calls(s, rank_id{r}, {.exchanges = issue, .releases = release_rule::all}));
  }
}
