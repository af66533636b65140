// SPDX-License-Identifier: MIT
#include "support/queued/queued_communicator.hpp"

#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <vector>

#include "cleave/run/program/make_rank_program.hpp"
#include "cleave/run/threads/thread_pipeline.hpp"
#include "cleave/schedule/model/schedule_names.hpp"
#include "support/linear_chain.hpp"
#include "support/linear_engine.hpp"
#include "support/random_schedule.hpp"
#include "support/rank_threads.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;
using namespace std::chrono_literals;

namespace {

template <class Stages>
using queued_ranks = rank_threads<queued_device, queued_communicator, Stages>;

template <class Stages>
queued_ranks<Stages> ranks_of(step_plan const& p, std::vector<Stages> stages, delivery ends,
                              queued_options const& options, rank_threads_options const& ahead = {}) {
  return queued_ranks<Stages>(
      p, std::move(stages),
      [&](auto& to, host_ranks& ranks, rank_id r) {
        auto own = options;
        own.seed += index(r);
        to.emplace_back(ranks, r, own);
      },
      [&](auto& to, host_group& group, std::uint32_t member, queued_device&) {
        to.emplace_back(group, member, ends);
      },
      ahead);
}

template <class Engine>
std::vector<issued_stages<Engine>> issued(Engine const& engine, std::size_t ranks) {
  std::vector<issued_stages<Engine>> made;
  while (made.size() < ranks) made.emplace_back(engine);
  return made;
}

std::vector<double> numbers_of(std::optional<tensor_view> const& v) {
  REQUIRE(v);
  auto const* x = static_cast<double const*>(v->data);
  return {x, x + v->elements().count};
}

}  // namespace

TEST_CASE("queued_communicator: messages and sums of random ranks arrive under either delivery") {
  rng random(17);
  for (int round = 0; round < 12; ++round) {
    auto const ranks = static_cast<std::uint32_t>(2 + random.below(2));
    auto const ends = random.one_in(2) ? delivery::one_queue : delivery::async;
    host_ranks all(ranks);
    std::vector<rank_id> members(ranks);
    for (std::uint32_t r = 0; r < ranks; ++r) members[r] = rank_id{r};
    host_group group(all, members);
    std::deque<queued_device> devices;
    std::deque<queued_communicator> communicators;
    std::deque<queued_stream> streams;
    std::deque<queued_event> events;
    std::vector<std::vector<std::int64_t>> memory(ranks, std::vector<std::int64_t>(4 * ranks));
    for (std::uint32_t r = 0; r < ranks; ++r) {
      devices.emplace_back(all, rank_id{r}, queued_options{.longest_delay = 50us, .seed = random.next()});
      communicators.emplace_back(group, r, ends);
      streams.push_back(devices.back().make_stream(0));
      events.emplace_back();
      for (std::uint32_t p = 0; p < ranks; ++p) memory[r][p] = 100 * r + p;
    }
    for (int step = 0; step < 5; ++step) {
      for (std::uint32_t r = 0; r < ranks; ++r) {
        auto& c = communicators[r];
        auto& s = streams[r];
        auto const at = [&](std::size_t k, std::size_t n = 1) {
          return region{&memory[r][k], n, element_type::i64};
        };
        c.begin_group();
        for (std::uint32_t p = 0; p < ranks; ++p)
          if (p != r) {
            c.send(at(p), {rank_id{p}, r * ranks + p, {}}, s);
            c.receive(at(ranks + p), {rank_id{p}, p * ranks + r, {}}, s);
          }
        c.end_group(events[r], s);
        devices[r].wait(s, events[r]);
        devices[r].copy(s, &memory[r][2 * ranks], &memory[r][ranks], ranks * sizeof(std::int64_t));
        c.begin_group();
        c.all_reduce(at(2 * ranks, ranks), reduce_op::sum, 1, s);
        c.end_group(events[r], s);
        c.begin_group();
        c.end_group(events[r], s);  // of nothing
        devices[r].wait(s, events[r]);
        c.begin_group();
        c.all_reduce(at(r, 0), reduce_op::max, 2, s);
        c.end_group(events[r], s);
      }
      for (std::uint32_t r = 0; r < ranks; ++r)
        while (!devices[r].query(events[r]) && !all.failed()) std::this_thread::yield();
      REQUIRE_FALSE(all.failed());
    }
    for (std::uint32_t r = 0; r < ranks; ++r)
      for (std::uint32_t p = 0; p < ranks; ++p) {
        if (p != r) CHECK(memory[r][ranks + p] == 100 * p + r);
        std::int64_t sum = 0;
        for (std::uint32_t q = 0; q < ranks; ++q)
          if (q != p) sum += 100 * p + q;
        CHECK(memory[r][2 * ranks + p] == sum);
      }
  }
}

TEST_CASE("queued_communicator: random delays do not change the results of any schedule family") {
  rng random(23);
  for (std::size_t f = 0; f < schedule_names.size(); ++f) {
    auto const s = family_schedule(static_cast<schedule_family>(f), 2, 4);
    linear_chain const c(s, random);
    auto const ends = f % 2 == 0 ? delivery::async : delivery::one_queue;
    CAPTURE(name_of(static_cast<schedule_family>(f)));
    program_options options;
    options.delivery.delivery = ends;
    step_plan const p(s, c.t, linear_layouts(c.t, c.rows), options);
    linear_engine const engine(c.stages, {});
    thread_pipeline<linear_engine> twin(p, {engine, engine}, {.watchdog = {.limit = 20s}});
    auto run = ranks_of(p, issued(engine, 2), ends,
                        {.ahead = 1 + random.below(100), .longest_delay = 40us, .seed = random.next()},
                        {.executor = {.run_ahead = 1 + random.below(6)}});
    for (int step = 0; step < 2; ++step) {
      twin.run_step(c.values());
      auto const failed = run.run_step(c.values());
      REQUIRE_MESSAGE(!failed, describe(failed.value_or(failure{})));
      for (std::uint32_t m = 0; m < s.microbatches; ++m)
        for (std::uint32_t k = 0; k < c.results; ++k) {
          auto const made = run.result(microbatch_id{m}, k), wanted = twin.result(microbatch_id{m}, k);
          CHECK(made.has_value() == wanted.has_value());
          if (wanted) CHECK(numbers_of(made) == numbers_of(wanted));
        }
      for (std::uint32_t i = 0; i < c.t.stages; ++i) {
        auto const r = p.rank_of(stage_id{i});
        CHECK(run.stages_of(r).here().gradient(stage_id{i}) == twin.stages_of(r).gradient(stage_id{i}));
      }
    }
  }
}

TEST_CASE("queued_communicator: random delays do not change gradients summed over replicas and ties") {
  rng random(24);
  for (int round = 0; round < 6; ++round) {
    auto const ends = random.one_in(2) ? delivery::one_queue : delivery::async;
    auto const s = family_schedule(schedule_family::interleaved_1f1b, 2, 4);
    linear_chain const c(s, random);
    program_options options;
    options.delivery.delivery = ends;
    step_plan const p(s, c.t, linear_layouts(c.t, c.rows), options);
    std::vector<tied_gradients> const ties{{{stage_id{0}, 0}, {stage_id{1}, 0}, {stage_id{3}, 0}},
                                           {{stage_id{1}, 1}, {stage_id{2}, 1}}};
    linear_engine const engine(c.stages, {});
    thread_pipeline<linear_engine> twin(
        p, {engine, engine, engine, engine},
        {.watchdog = {.limit = 20s}, .replicas = 2, .ties = ties, .bucket_bytes = 16});
    auto run = ranks_of(p, issued(engine, 4), ends, {.longest_delay = 40us, .seed = random.next()},
                        {.replicas = 2, .ties = ties, .bucket_bytes = 16});
    std::vector<step_values> const values(2, c.values());
    for (int step = 0; step < 2; ++step) {
      twin.run_step(values);
      auto const failed = run.run_step(values);
      REQUIRE_MESSAGE(!failed, describe(failed.value_or(failure{})));
      for (std::uint32_t r = 0; r < 4; ++r)
        for (std::uint32_t i = 0; i < c.t.stages; ++i)
          CHECK(run.stages_of(rank_id{r}).here().gradient(stage_id{i}) ==
                twin.stages_of(rank_id{r}).gradient(stage_id{i}));
    }
  }
}

TEST_CASE("queued_communicator: a stage that throws on its stream's thread ends the run") {
  rng random(29);
  auto const s = family_schedule(schedule_family::one_f_one_b, 3, 5);
  linear_chain const c(s, random);
  step_plan const p(s, c.t, linear_layouts(c.t, c.rows));
  auto const bad = [](stage_pass const& pass) {
    if (pass.stage == stage_id{1} && pass.microbatch == microbatch_id{2})
      throw std::runtime_error("no memory");
  };
  for (auto const ends : {delivery::async, delivery::one_queue}) {
    basic_linear_engine const engine(c.stages, bad);
    auto run = ranks_of(p, issued(engine, 3), ends, {.longest_delay = 30us, .seed = 2});
    auto const failed = run.run_step(c.values());
    REQUIRE(failed);
    CHECK(failed->detail == "no memory");
    CHECK(failed->culprit == p.rank_of(stage_id{1}));
  }
}

TEST_CASE("queued_communicator: ends that disagree fail the run, and no rank keeps waiting") {
  host_ranks all(2);
  host_group group(all, {rank_id{0}, rank_id{1}});
  double numbers[3] = {1, 2, 3};
  queued_communicator a(group, 0), b(group, 1);
  queued_device x(all, rank_id{0}), y(all, rank_id{1});
  auto s = x.make_stream(0), t = y.make_stream(0);
  queued_event e, f;
  a.begin_group();
  a.send({numbers, 1, element_type::f64}, {rank_id{1}, 7, {}}, s);
  a.end_group(e, s);
  b.begin_group();
  b.receive({numbers + 1, 2, element_type::f64}, {rank_id{0}, 7, {}}, t);
  b.end_group(f, t);
  while (!all.failed()) std::this_thread::yield();
  CHECK(a.poll()->code == failure_code::mismatch);
  x.close_streams();
  y.close_streams();
  CHECK_FALSE(x.query(e));
  CHECK_FALSE(y.query(f));
}
