// SPDX-License-Identifier: MIT
#include "cleave/schedule/lower/connect_stages.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/list/list_schedule.hpp"
#include "cleave/schedule/lower/lower.hpp"
#include "cleave/schedule/verify/verify.hpp"
#include "support/every_delivery.hpp"
#include "support/message_census.hpp"
#include "support/random_dataflow.hpp"
#include "support/run_order.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

dataflow::edge edge(std::uint32_t from, std::uint32_t output, std::uint32_t to, std::uint32_t input,
                    std::uint64_t bytes = 0) {
  return {stage_id{from}, output, stage_id{to}, input, 0, bytes};
}

/// A chain of stages 0 to 3. All other stages read the output of stage 0.
dataflow with_skips() {
  return {.stages = 4,
          .edges = {{the_caller, 0, stage_id{0}, 0},
                    edge(0, 0, 1, 0, 10),
                    edge(0, 0, 2, 1, 10),
                    edge(0, 0, 3, 1, 10),
                    edge(1, 0, 2, 0, 20),
                    edge(2, 0, 3, 0, 30),
                    {stage_id{3}, 0, the_caller, 0}}};
}

/// Runs a lowered schedule with numbers. A message holds exactly the values listed by `stage_messages`.
class number_run {
 public:
  number_run(schedule const& s, dataflow const& t) : s_(s), t_(t), at_(s.ranks.size()) {
    for (auto& m : stage_messages(t)) messages_[{m.edge.from, m.edge.to}] = std::move(m.values);
    for (auto const& e : t.edges)
      if (e.from != the_caller) outputs_[e.from] = std::max(outputs_[e.from], e.output + 1);
  }

  /// Values by stage and microbatch.
  using results = std::map<std::pair<stage_id, microbatch_id>, std::vector<std::uint64_t>>;

  bool run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < at_.size(); ++r)
        while (at_[r] < s_.ranks[r].size() && step(s_.ranks[r][at_[r]])) ++at_[r], moved = true;
    }
    for (std::size_t r = 0; r < at_.size(); ++r)
      if (at_[r] < s_.ranks[r].size()) return false;
    return true;
  }

  results made, gradients;

 private:
  using value = std::tuple<rank_id, stage_id, std::uint32_t, microbatch_id>;  // rank, maker, output
  using part = std::tuple<rank_id, std::size_t, microbatch_id>;               // rank, index of the edge

  rank_id rank_of(stage_id s) const { return s_.place.rank_of[index(s)]; }

  bool step(action const& a) {
    using enum action_kind;
    if (is_send(a.kind)) send(a);
    if (is_receive(a.kind)) return mail_.contains(testing::name_of_message(a)) && receive(a);
    if (a.kind == action_kind::forward) forward_pass(a);
    if (a.kind == backward || a.kind == input_gradient) backward_pass(a);
    return true;
  }

  void send(action const& a) {
    auto& held = mail_[testing::name_of_message(a)];
    if (a.kind == action_kind::send_activation)
      for (auto const i : messages_.at({a.stage, a.peer}))
        held.push_back(values_.at({rank_of(a.stage), a.stage, t_.edges[i].output, a.microbatch}));
    else
      for (auto const i : messages_.at({a.peer, a.stage}))
        held.push_back(output_gradient(rank_of(a.stage), a.peer, t_.edges[i].output, a.stage, a.microbatch));
  }

  bool receive(action const& a) {
    auto const& held = mail_.at(testing::name_of_message(a));
    std::size_t next = 0;
    if (a.kind == action_kind::receive_activation)
      for (auto const i : messages_.at({a.peer, a.stage}))
        values_[{rank_of(a.stage), a.peer, t_.edges[i].output, a.microbatch}] = held[next++];
    else
      for (auto const i : messages_.at({a.stage, a.peer}))
        received_gradients_[{rank_of(a.stage), i, a.microbatch}] = held[next++];
    return true;
  }

  void forward_pass(action const& a) {
    std::map<std::uint32_t, std::uint64_t> in;
    for (auto const& e : t_.edges)
      if (e.to == a.stage)
        in[e.input] = e.from == the_caller ? e.output + 100 * index(a.microbatch)
                                           : values_.at({rank_of(a.stage), e.from, e.output, a.microbatch});
    std::vector<std::uint64_t> list;
    for (auto const& [position, v] : in) list.push_back(v);
    made[{a.stage, a.microbatch}] =
        testing::mixed(index(a.stage), index(a.microbatch), list, outputs_[a.stage]);
    for (std::uint32_t o = 0; o < outputs_[a.stage]; ++o)
      values_[{rank_of(a.stage), a.stage, o, a.microbatch}] = made[{a.stage, a.microbatch}][o];
  }

  /// Returns the sum of the gradients of all inputs of `reader` that take the output.
  std::uint64_t output_gradient(rank_id here, stage_id maker, std::uint32_t output, stage_id reader,
                                microbatch_id m) const {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < t_.edges.size(); ++i) {
      auto const& e = t_.edges[i];
      if (e.from == maker && e.output == output && e.to == reader) sum += input_gradients_.at({here, i, m});
    }
    return sum;
  }

  /// Gives each input of a stage a multiple of the sum of all gradients of the stage's outputs.
  void backward_pass(action const& a) {
    std::uint64_t sum = 1;
    std::set<std::pair<stage_id, std::uint32_t>> counted;
    auto const here = rank_of(a.stage);
    for (std::size_t i = 0; i < t_.edges.size(); ++i) {
      auto const& e = t_.edges[i];
      if (e.from != a.stage) continue;
      if (e.to == the_caller) sum += (e.output + 1) * 7;
      if (e.to == the_caller || !counted.insert({e.to, e.output}).second) continue;
      sum += (e.output + 1) * (rank_of(e.to) == here
                                   ? output_gradient(here, a.stage, e.output, e.to, a.microbatch)
                                   : received_gradients_.at({here, first_value(e), a.microbatch}));
    }
    gradients[{a.stage, a.microbatch}] = {sum};
    for (std::size_t i = 0; i < t_.edges.size(); ++i)
      if (t_.edges[i].to == a.stage)
        input_gradients_[{here, i, a.microbatch}] = sum * (t_.edges[i].input + 3);
  }

  /// Returns the edge that stands for the value in its message.
  std::size_t first_value(dataflow::edge const& e) const {
    for (auto const i : messages_.at({e.from, e.to}))
      if (t_.edges[i].output == e.output) return i;
    return t_.edges.size();
  }

  schedule const& s_;
  dataflow const& t_;
  std::vector<std::size_t> at_;
  std::map<std::pair<stage_id, stage_id>, std::vector<std::size_t>> messages_;
  std::map<stage_id, std::uint32_t> outputs_;
  std::map<value, std::uint64_t> values_;
  std::map<part, std::uint64_t> input_gradients_, received_gradients_;
  std::map<testing::message_name, std::vector<std::uint64_t>> mail_;
};

/// Random dataflow in which each stage has inputs from the caller or from earlier stages.
dataflow random_stages(testing::rng& random) {
  return testing::random_dataflow(random, static_cast<std::uint32_t>(1 + random.below(8)));
}

stage_placement on_ranks(testing::rng& random, dataflow const& t, std::uint32_t ranks) {
  stage_placement p{ranks, {}, {}};
  for (std::uint32_t s = 0; s < t.stages; ++s)
    p.rank_of.push_back(rank_id{static_cast<std::uint32_t>(random.below(ranks))});
  for (auto const& m : stage_messages(t)) p.edges.push_back(m.edge);
  return p;
}

}  // namespace

TEST_CASE("stage_messages: a value with several readers is in a message to each") {
  auto const messages = stage_messages(with_skips());
  REQUIRE(messages.size() == 5);
  CHECK(messages[1] == stage_message{{stage_id{0}, stage_id{2}}, {2}, 10});
  CHECK(messages[2] == stage_message{{stage_id{0}, stage_id{3}}, {3}, 10});
}

TEST_CASE("stage_messages: one stage sends another a single message, which holds each value once") {
  dataflow const t{.stages = 2, .edges = {edge(0, 1, 1, 0, 5), edge(0, 0, 1, 1, 7), edge(0, 1, 1, 2, 5)}};
  CHECK(stage_messages(t) == std::vector<stage_message>{{{stage_id{0}, stage_id{1}}, {1, 0}, 12}});
}

TEST_CASE("stage_messages: a byte count that overflows becomes the largest number") {
  dataflow const t{.stages = 2, .edges = {edge(0, 0, 1, 0, ~std::uint64_t{0}), edge(0, 1, 1, 1, 1)}};
  CHECK(stage_messages(t)[0].bytes == ~std::uint64_t{0});
}

TEST_CASE("connect_stages: a skip edge becomes a direct message, with a gradient sent back") {
  auto const lowered = lower(connect_stages(gpipe(4, 1), with_skips()));
  CHECK(testing::rows_of(lowered)[0] ==
        "0UNSHARD,0F0,0SEND_F0,0SEND_F0@2,0SEND_F0@3,0RECV_B0@3,0RECV_B0@2,0RECV_B0,0B0,0WAIT_SEND_F0,"
        "0WAIT_SEND_F0@2,0WAIT_SEND_F0@3,0REDUCE_GRAD,0WAIT_REDUCE_GRAD,0RESHARD");
}

TEST_CASE("connect_stages: with skip edges, every family that is one chain has no fault and no deadlock") {
  for (std::size_t f = 0; f < schedule_names.size(); ++f) {
    auto const family = static_cast<schedule_family>(f);
    auto const s = make_schedule(family, {4, stages_per_rank_of(family).value_or(2), 8});
    auto const stages = s.place.stages();
    if (s.place.edges != chain_edges(stages)) continue;
    dataflow t{.stages = stages, .edges = {}};
    std::vector<std::uint32_t> inputs(stages);
    for (std::uint32_t from = 0; from < stages; ++from)
      for (auto const distance : {1u, 2u, 3u})
        if (from + distance < stages)
          t.edges.push_back(edge(from, 0, from + distance, inputs[from + distance]++));
    auto const connected = connect_stages(s, t);
    CHECK(!find_schedule_fault(connected, {.passes = passes_of(s)}));
    auto const lowered = lower(connected);
    CHECK(testing::message_defect(lowered) == "");
    CHECK(testing::stuck_with(lowered) == "");
  }
}

TEST_CASE("connect_stages: with random dataflow, several ranks compute the same values as one rank") {
  testing::rng random(1);
  for (int round = 0; round < 200; ++round) {
    auto const t = random_stages(random);
    auto const m = static_cast<std::uint32_t>(1 + random.below(3));
    auto const many = on_ranks(random, t, static_cast<std::uint32_t>(1 + random.below(4)));
    auto const apart = lower(list_schedule(many, m));
    auto const alone = lower(list_schedule(on_ranks(random, t, 1), m));
    number_run here(alone, t), there(apart, t);
    REQUIRE(here.run());
    REQUIRE(there.run());
    CHECK(there.made == here.made);
    CHECK(there.gradients == here.gradients);
  }
}

TEST_CASE("connect_stages: rejects invalid dataflow and dataflow of another number of stages") {
  auto t = with_skips();
  CHECK_THROWS_AS(connect_stages(one_f_one_b(3, 4), t), stage_count_error);
  t.edges[1].to = stage_id{4};
  CHECK_THROWS_AS(connect_stages(one_f_one_b(4, 4), t), dataflow_error);
}
