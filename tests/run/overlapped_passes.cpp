// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "cleave/run/executor/measured_times.hpp"
#include "cleave/run/program/make_rank_program.hpp"
#include "cleave/schedule/families/dual_pipe.hpp"
#include "cleave/schedule/families/one_f_one_b.hpp"
#include "support/linear_chain.hpp"
#include "support/linear_step.hpp"
#include "support/race_device.hpp"
#include "support/rank_threads.hpp"
#include "support/rng.hpp"

/// A forward and a backward pass that stages run as one (`overlapped`).
using namespace cleave;
using namespace cleave::detail;
using namespace cleave::testing;

namespace {

using stream = host_device::stream;

/// Notes each call as text, such as `0F1` or `(0F1;3B0)`. Runs the backward pass of a pair first.
struct overlapping : linear_engine {
  using linear_engine::linear_engine;

  std::vector<std::string> calls{};
  bool throws = false;
  bool is_inside = false;  // of `overlapped`

  void forward(stream& s, stage_pass const& p, std::span<tensor_view const> in, std::span<tensor_view> out) {
    note(action_kind::forward, p);
    linear_engine::forward(s, p, in, out);
  }
  void backward(stream& s, stage_pass const& p, std::span<tensor_view const> gradients,
                std::span<tensor_view const> in) {
    note(action_kind::backward, p);
    linear_engine::backward(s, p, gradients, in);
  }
  void overlapped(stream& s, custom_part const& f, custom_part const& b) {
    if (throws) throw std::out_of_range("no such row");
    CHECK(f.pass.stage == f.what.stage);
    CHECK(b.pass.microbatch == b.what.microbatch);
    calls.push_back("(" + action_text(f.what) + ";" + action_text(b.what) + ")");
    is_inside = true;
    backward(s, b.pass, b.in, b.out);
    forward(s, f.pass, f.in, f.out);
    is_inside = false;
  }

 private:
  void note(action_kind k, stage_pass const& p) {
    if (!is_inside) calls.push_back(action_text({.kind = k, .stage = p.stage, .microbatch = p.microbatch}));
  }
};
static_assert(overlapped_stage<overlapping, host_device>);
static_assert(!overlapped_stage<linear_engine, host_device>);

/// Also carries out what `call_options::custom` lists.
struct custom_and_overlapping : overlapping {
  using overlapping::overlapping;

  std::size_t asked = 0;
  void custom(stream& s, action const&, std::span<custom_part const> parts) {
    ++asked;
    for (auto const& p : parts)
      if (p.what.kind == action_kind::forward)
        forward(s, p.pass, p.in, p.out);
      else
        backward(s, p.pass, p.in, p.out);
  }
};

/// Returns F, B and pairs in the order of the list of a rank.
std::vector<std::string> listed(schedule const& s, rank_id r) {
  std::vector<std::string> all;
  each_cell(s.ranks[index(r)], [&](action const& head, std::span<action const> parts) {
    if (parts.size() == 2)
      all.push_back("(" + action_text(parts[0]) + ";" + action_text(parts[1]) + ")");
    else if (head.kind == action_kind::forward || head.kind == action_kind::backward)
      all.push_back(action_text(head));
  });
  return all;
}

action pass(action_kind k, std::uint32_t stage, std::uint32_t microbatch) {
  return {k, 0, stage_id{stage}, microbatch_id{microbatch}, no_stage};
}
constexpr action overlap_of(std::uint16_t parts) {
  return {action_kind::overlap, parts, no_stage, no_microbatch, no_stage};
}

/// One stage on one rank: F0, then F1 with B0, then B1.
schedule small_order() {
  using enum action_kind;
  return {loop_placement(1),
          2,
          {{pass(action_kind::forward, 0, 0), overlap_of(2), pass(action_kind::forward, 0, 1),
            pass(backward, 0, 0), pass(backward, 0, 1)}}};
}

}  // namespace

TEST_CASE("overlapped: pairs of DualPipe and DualPipeV run as one, in their order, with the same results") {
  auto const check = [](schedule const& order, dataflow const& t) {
    auto const own = run_linear_step<overlapping>(order, t);
    CHECK(own.numbers == run_linear_step<linear_engine>(order, t).numbers);
    std::ptrdiff_t pairs = 0;
    for (std::uint32_t r = 0; r < order.place.ranks; ++r) {
      CHECK(own.stages[r].calls == listed(order, rank_id{r}));
      pairs += std::ranges::count(own.stages[r].calls, '(', [](auto const& call) { return call[0]; });
    }
    CHECK(pairs > 4);
  };
  for (auto const& order : {dual_pipe_v(2, 6), dual_pipe_v(3, 8), dual_pipe(2, 8), dual_pipe(4, 16)})
    check(order, dataflow_of_chain(order));
  check(dual_pipe_v(2, 6), with_skips(4));
}

TEST_CASE("overlapped: the backward pass may be listed first") {
  auto order = one_f_one_b(2, 5);
  for (auto& row : order.ranks)
    for (std::size_t i = 0; i + 1 < row.size(); ++i)
      if (row[i].kind == action_kind::backward && row[i + 1].kind == action_kind::forward) {
        row.insert(row.begin() + static_cast<std::ptrdiff_t>(i), overlap_of(2));
        i += 2;
      }
  auto const t = dataflow_of_chain(order);
  auto const own = run_linear_step<overlapping>(order, t);
  CHECK(own.numbers == run_linear_step<linear_engine>(one_f_one_b(2, 5), t).numbers);
  CHECK(std::ranges::count(own.stages[0].calls, "(0F2;0B0)") == 1);
  CHECK(std::ranges::count(own.stages[1].calls, "(1F1;1B0)") == 1);
}

TEST_CASE("overlapped: other compounds run part by part, and custom actions have precedence") {
  using enum action_kind;
  auto const t = dataflow_of_chain(small_order());
  auto three = small_order();
  three.ranks[0][1].parts = 3;
  CHECK(run_linear_step<overlapping>(three, t).stages[0].calls ==
        std::vector<std::string>{"0F0", "0F1", "0B0", "0B1"});
  auto halves = small_order();
  halves.ranks[0][3].kind = input_gradient;
  halves.ranks[0].push_back(pass(weight_gradient, 0, 0));
  auto const made = run_linear_step<overlapping>(halves, t);
  CHECK(made.stages[0].calls == std::vector<std::string>{"0F0", "0F1", "0B1"});
  CHECK(made.numbers == run_linear_step<overlapping>(small_order(), t).numbers);
  auto const both = run_linear_step<custom_and_overlapping>(small_order(), t, {overlap});
  CHECK(both.stages[0].asked == 1);
  CHECK(both.stages[0].calls == std::vector<std::string>{"0F0", "0F1", "0B0", "0B1"});
  CHECK(run_linear_step<custom_and_overlapping>(small_order(), t).stages[0].asked == 0);
}

TEST_CASE("overlapped: rejects a pair in which one pass needs the other, before anything runs") {
  using enum action_kind;
  schedule const order{
      loop_placement(1), 1, {{overlap_of(2), pass(action_kind::forward, 0, 0), pass(backward, 0, 0)}}};
  auto const t = dataflow_of_chain(order);
  CHECK_NOTHROW(run_linear_step<linear_engine>(order, t));
  CHECK_THROWS_WITH_AS(run_linear_step<overlapping>(order, t),
                       "program: rank 0, (0F0;0B0)OVERLAP_F_B is for overlapped(stream, forward, backward), "
                       "but one pass needs the other; put them into separate cells",
                       program_need_error);
}

TEST_CASE(
    "overlapped: an exception is reported with both passes, and the stage and microbatch of the first") {
  auto const order = dual_pipe_v(2, 6);
  CHECK_THROWS_WITH_AS(
      run_linear_step<overlapping>(order, dataflow_of_chain(order), {},
                                   [](rank_id r, overlapping& s) { s.throws = r == rank_id{1}; }),
      "rank 1, (2F2;1B0)OVERLAP_F_B, stage 2, microbatch 2: no such row", stage_error);
}

TEST_CASE("overlapped: both passes have the time of the pair, which counts once") {
  auto const order = small_order();
  auto const t = dataflow_of_chain(order);
  step_plan const plan(order, t, linear_layouts(t, {1, 1}));
  auto const program = make_rank_program(plan, rank_id{0});
  CHECK(overlapped_pairs(program).size() == 1);
  std::vector<instruction_time> times(program.instructions.size());
  for (std::size_t i = 0; i < times.size(); ++i) {
    auto const& of = program.instructions[i].call.of;
    bool const first = of.kind == action_kind::forward && of.microbatch == microbatch_id{0};
    bool const last = of.kind == action_kind::backward && of.microbatch == microbatch_id{1};
    times[i] = first ? instruction_time{0, 10} : last ? instruction_time{45, 60} : instruction_time{12, 40};
  }
  std::vector<measured_rank> const ranks{{program, times}};
  CHECK(measured_times(order, ranks).busy == std::vector<double>{10 + 28 + 15});
}

namespace {

/// Reports the accesses of both passes of a pair as those of plain passes, the backward pass first.
struct overlapped_race : race_stages<linear_engine> {
  using race_stages<linear_engine>::race_stages;

  std::size_t pairs = 0;
  void overlapped(race_device::stream& s, custom_part const& f, custom_part const& b) {
    ++pairs;
    backward(s, b.pass, b.in, b.out);
    forward(s, f.pass, f.in, f.out);
  }
};

}  // namespace

TEST_CASE("overlapped: no pair touches memory that another stream may still use") {
  rng random(53);
  for (auto const& order : {dual_pipe_v(3, 8), dual_pipe(4, 16)})
    for (auto const grouping : {message_grouping::none, message_grouping::adjacent}) {
      linear_chain const c(order, random);
      step_plan const p(order, c.t, linear_layouts(c.t, c.rows),
                        {.lowering = {.grouping = grouping}, .saved_activations = {{24, 40, 16}}});
      race_log log;
      rank_threads<race_device, race_communicator, overlapped_race> run(
          p,
          std::vector<overlapped_race>(p.order().ranks.size(), overlapped_race(linear_engine(c.stages, {}))),
          [&](auto& to, host_ranks& ranks, rank_id r) { to.emplace_back(log, ranks, r); },
          [](auto& to, host_group& group, std::uint32_t member, race_device& d) {
            to.emplace_back(group, member, d);
          },
          rank_threads_options{});
      for (int step = 0; step < 2; ++step) CHECK_FALSE(run.run_step(c.values()));
      for (auto const& line : log.reports()) CHECK(line == "");
    }
}
