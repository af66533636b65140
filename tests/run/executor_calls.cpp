// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "cleave/run/executor/detail/executor.hpp"
#include "cleave/run/host/host_threads.hpp"
#include "support/queued/queued_communicator.hpp"
#include "support/queued/queued_device.hpp"

/// The calls of one rank's executor for handwritten programs.
using namespace cleave;
using namespace cleave::detail;
using namespace cleave::testing;

namespace {

using stream = host_device::stream;
using values = std::span<tensor_view const>;

constexpr stage_id s3{3};

struct heard_call {
  std::string what;
  stage_pass pass;
  std::uint32_t at;
};

struct listening_stages {
  std::vector<heard_call>* heard;
  std::uint32_t (*where)();
  std::optional<std::size_t> throws_at{};

  void note(char const* what, stage_pass const& p) {
    heard->push_back({what, p, where()});
    if (throws_at == heard->size()) throw std::out_of_range("no such row");
  }
  void forward(stream&, stage_pass const& p, values in, std::span<tensor_view> out) {
    note("F", p);
    if (in.size() == 1 && out.size() == 1)
      *static_cast<double*>(out[0].data) = 2 * *static_cast<double const*>(in[0].data);
  }
  void backward(stream&, stage_pass const& p, values, values) { note("B", p); }
  void backward_input(stream&, stage_pass const& p, values, values) { note("I", p); }
  void backward_weight(stream&, stage_pass const& p) { note("W", p); }
  void unshard(stream&, stage_id s) { note("unshard", {s, {}}); }
  void reshard(stream&, stage_id s) { note("reshard", {s, {}}); }
};

using one_executor = executor<host_device, host_communicator, host_ranks, listening_stages>;

/// Stage 3 with two microbatches on one rank: its result 0 is the caller's input 0 doubled.
struct one_rank {
  rank_program p;
  host_ranks ranks{1};
  host_group group{ranks, {rank_id{0}}};
  host_communicator with{group, 0};
  host_device d{ranks, rank_id{0}};
  std::vector<heard_call> heard;
  std::array<double, 2> numbers{5, 7};
  std::vector<tensor_view> inputs;
  std::vector<double> weights{0.25, 4};
  inline static one_executor* running = nullptr;

  one_rank() {
    p.microbatches = 2;
    p.layouts.edges = {{.type = element_type::f64, .shape = {1}}, {.type = element_type::f64, .shape = {1}}};
    p.arena_bytes = 1024;
    p.result_bytes = 128;
    for (auto& n : numbers) inputs.push_back({&n, element_type::f64, {1}});
  }

  /// Adds a pass with its own saved activations, 100 bytes after those of the pass before.
  rank_instruction& add(call_kind kind, action_kind of, std::uint32_t m) {
    auto& i = p.instructions.emplace_back();
    i.call = {.kind = kind, .of = {of, 0, s3, microbatch_id{m}}};
    i.pass = static_cast<std::uint32_t>(p.passes.size());
    program_pass pass;
    pass.forward = m;
    if (kind == call_kind::forward) {
      pass.in = {{{place_kind::input, 0}, 0, {}}};
      pass.out = {{{place_kind::result, 64 * m}, 1, {}}};
      p.results.push_back({microbatch_id{m}, 0, pass.out[0]});
    }
    pass.saved_at = 100 * i.pass;
    pass.saved_bytes = 8;
    pass.saved_for_weights_at = 100 * i.pass + 50;
    pass.saved_for_weights_bytes = 16;
    p.passes.push_back(pass);
    return i;
  }
  void add_forward_passes() {
    for (std::uint32_t m = 0; m < 2; ++m) add(call_kind::forward, action_kind::forward, m);
  }
  listening_stages stages() {
    return {&heard, [] { return running->at(); }};
  }
  step_values given() const { return {inputs, 1, weights}; }
};

std::string words_of(std::vector<heard_call> const& heard) {
  std::string words;
  for (auto const& h : heard) words += h.what + std::to_string(index(h.pass.microbatch)) + " ";
  return words;
}

/// Stages with asynchronous work; that of microbatch 1 ends when it is released.
struct held_stages {
  std::atomic<bool>* released;

  void forward(queued_stream& s, stage_pass const& p, values, std::span<tensor_view>) {
    if (p.microbatch == microbatch_id{1})
      s.call([this] {
        while (!*released) std::this_thread::sleep_for(std::chrono::microseconds(100));
      });
  }
};

}  // namespace

TEST_CASE("executor: passes get everything that the program and the step say about them") {
  one_rank x;
  x.add_forward_passes();
  x.add(call_kind::backward_input, action_kind::input_gradient, 0).call.from_loss = true;
  x.add(call_kind::backward_weight, action_kind::weight_gradient, 0);
  x.add(call_kind::backward, action_kind::backward, 1).call.last = true;
  auto stages = x.stages();
  one_executor run(x.d, x.with, x.ranks, stages, x.p);
  x.running = &run;
  CHECK(run.at() == program_done);
  run.run_step(x.given());
  CHECK(run.at() == program_done);
  CHECK(words_of(x.heard) == "F0 F1 I0 W0 B1 ");
  for (std::uint32_t i = 0; i < x.heard.size(); ++i) {
    auto const& p = x.heard[i].pass;
    CHECK(x.heard[i].at == i);
    CHECK(p.stage == s3);
    CHECK(p.weight == x.weights[index(p.microbatch)]);
    CHECK(p.from_loss == (i == 2));
    CHECK(p.last == (i == 4));
    CHECK(p.trains);
    CHECK(p.saved.bytes() == 8);
    CHECK(p.saved_for_weights.bytes() == 16);
    auto const at = [](region const& r) { return static_cast<std::byte*>(r.data); };
    CHECK(at(p.saved_for_weights) - at(p.saved) == 50);
    CHECK(at(p.saved) - at(x.heard[0].pass.saved) == 100 * static_cast<std::ptrdiff_t>(i));
  }
}

TEST_CASE("executor: forward-only passes do not train, and each counts once without weights") {
  one_rank x;
  x.add_forward_passes();
  auto stages = x.stages();
  one_executor run(x.d, x.with, x.ranks, stages, x.p);
  x.running = &run;
  run.run_step({x.inputs, 1, {}});
  for (auto const& h : x.heard) {
    CHECK_FALSE(h.pass.trains);
    CHECK(h.pass.weight == 1);
  }
}

TEST_CASE("executor: returns the last step's results, separately for each microbatch") {
  one_rank x;
  x.add_forward_passes();
  auto stages = x.stages();
  one_executor run(x.d, x.with, x.ranks, stages, x.p);
  x.running = &run;
  for (int step = 0; step < 2; ++step) {
    x.numbers = {5. + step, 7. + step};
    run.run_step(x.given());
    for (std::uint32_t m = 0; m < 2; ++m)
      CHECK(*static_cast<double const*>(run.result(microbatch_id{m}, 0)->data) == 2 * x.numbers[m]);
  }
  CHECK_FALSE(run.result(microbatch_id{0}, 1));
  CHECK_FALSE(run.result(microbatch_id{2}, 0));
}

TEST_CASE("executor: stages unshard and reshard their weights; calls without work are skipped") {
  one_rank x;
  auto const add_other = [&](call_kind kind, action_kind of) {
    x.p.instructions.emplace_back().call = {.kind = kind, .of = {of, 0, s3}};
  };
  add_other(call_kind::unshard, action_kind::unshard);
  add_other(call_kind::wait_unshard, action_kind::unshard);
  x.add_forward_passes();
  for (auto const kind : {call_kind::loss, call_kind::release, call_kind::local_transfer, call_kind::reduce,
                          call_kind::wait_reduce, call_kind::start_reduce})
    add_other(kind, action_kind::forward);
  add_other(call_kind::other, action_kind::reduce_tie);
  add_other(call_kind::reshard, action_kind::reshard);
  auto stages = x.stages();
  one_executor run(x.d, x.with, x.ranks, stages, x.p);
  x.running = &run;
  run.run_step(x.given());
  std::vector<std::string> what;
  for (auto const& h : x.heard) what.push_back(h.what);
  CHECK(what == std::vector<std::string>{"unshard", "F", "F", "reshard"});
  CHECK(x.heard[0].pass.stage == s3);
}

TEST_CASE("executor: passes have increasing times since the start of the step") {
  one_rank x;
  x.add_forward_passes();
  x.add(call_kind::backward, action_kind::backward, 0);
  x.p.instructions.emplace_back().call.kind = call_kind::release;
  auto stages = x.stages();
  one_executor run(x.d, x.with, x.ranks, stages, x.p);
  x.running = &run;
  for (int step = 0; step < 2; ++step) {
    run.run_step(x.given());
    auto const times = run.times();
    REQUIRE(times.size() == 4);
    std::int64_t end = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(times[i].begin >= end);
      CHECK(times[i].end >= times[i].begin);
      end = times[i].end;
    }
    CHECK(end > 0);
    CHECK(times[3] == instruction_time{});
  }
}

TEST_CASE("executor: publishes a stage's exception with its place; invalid step values are not a failure") {
  one_rank x;
  x.add_forward_passes();
  auto stages = x.stages();
  stages.throws_at = 2;
  one_executor run(x.d, x.with, x.ranks, stages, x.p);
  x.running = &run;
  CHECK_THROWS_AS(run.run_step({x.inputs, 2, {}}), step_value_error);
  CHECK_FALSE(x.ranks.failed());
  CHECK(x.heard.empty());
  CHECK_THROWS_WITH_AS(run.run_step(x.given()), "rank 0, forward, stage 3, microbatch 1: no such row",
                       stage_error);
  REQUIRE(x.ranks.poll());
  CHECK(x.ranks.poll()->at == stage_call{s3, microbatch_id{1}});
  CHECK(x.ranks.poll()->culprit == rank_id{0});
  CHECK_THROWS_AS(run.run_step(x.given()), stage_error);
  CHECK(x.heard.size() == 2);
}

TEST_CASE("executor: a step ends only after all its messages, waited for or not") {
  one_rank x;
  x.add_forward_passes();
  auto& sent = x.p.instructions.emplace_back();
  sent.call = {.kind = call_kind::send,
               .of = {action_kind::send_activation, 0, s3, microbatch_id{0}, stage_id{4}}};
  sent.peer = rank_id{0};
  sent.bytes = 8;
  auto stages = x.stages();
  one_executor run(x.d, x.with, x.ranks, stages, x.p);
  x.running = &run;
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    x.ranks.publish({.code = failure_code::cancelled, .detail = "nobody receives"});
  });
  CHECK_THROWS_WITH_AS(run.run_step(x.given()), "nobody receives", run_error);
  other.join();
}

TEST_CASE("executor: the parts of an exchange begin and end together") {
  one_rank x;
  x.add_forward_passes();
  x.p.instructions.emplace_back().call = {.kind = call_kind::exchange, .parts = 2};
  for (std::uint32_t n = 0; n < 2; ++n) {
    auto& m = x.p.instructions.emplace_back();
    m.call = {.kind = n == 0 ? call_kind::send : call_kind::receive,
              .of = {action_kind::send_activation, 0, s3, microbatch_id{0}, s3}};
    m.peer = rank_id{0};
    m.at = 64 * n;
    m.bytes = 8;
    m.after = 1;
  }
  x.p.instructions.emplace_back().call = {.kind = call_kind::wait_receive, .begun = 4};
  auto stages = x.stages();
  one_executor run(x.d, x.with, x.ranks, stages, x.p);
  x.running = &run;
  for (int step = 0; step < 2; ++step) run.run_step(x.given());
  auto const times = run.times();
  CHECK(times[3].begin >= times[1].end);
  CHECK(times[3].begin == times[4].begin);
  CHECK(times[3].end >= times[3].begin);
  CHECK(times[3].end == times[4].end);
}

TEST_CASE("executor: names the pass that exceeds the limit, also with asynchronous work") {
  for (std::size_t const run_ahead : {64u, 1u}) {
    one_rank x;
    for (std::uint32_t m = 0; m < 2; ++m) x.add_forward_passes();
    queued_device d(x.ranks, rank_id{0});
    queued_communicator with(x.group, 0);
    std::atomic<bool> released = false;
    held_stages stages{&released};
    executor<queued_device, queued_communicator, host_ranks, held_stages> run(
        d, with, x.ranks, stages, x.p, {.run_ahead = run_ahead, .limit = std::chrono::milliseconds(300)});
    CHECK_THROWS_WITH_AS(
        run.run_step(x.given()),
        "rank 0, forward 3 1, stage 3, microbatch 1: timed out: the step did not finish within 300 ms",
        run_error);
    REQUIRE(x.ranks.poll());
    CHECK(x.ranks.poll()->code == failure_code::timeout);
    released = true;
  }
}
