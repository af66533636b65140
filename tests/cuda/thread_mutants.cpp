// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cleave/cuda/threads.hpp"
#include "cleave/schedule/model/schedule_names.hpp"
#include "support/cuda/fake_cuda.hpp"
#include "support/cuda/linear_runs.hpp"
#include "support/linear_chain.hpp"
#include "support/random_schedule.hpp"
#include "support/rng.hpp"

/// Runs on GPUs with one deliberate error must be detected, so that undetected runs can be trusted.
using namespace cleave;
using namespace cleave::testing;

namespace {

using namespace std::chrono_literals;
using sentences = std::vector<std::string>;

/// A plan in which the program of a rank is changed.
template <class Change>
struct changed_plan {
  step_plan const& p;
  Change change;

  schedule const& order() const { return p.order(); }
  friend rank_program make_rank_program(changed_plan const& c, rank_id r) {
    auto made = make_rank_program(c.p, r);
    c.change(made);
    return made;
  }
};

struct mutant_case {
  schedule s;
  linear_chain c;
  step_plan p;

  explicit mutant_case(rng& random)
      : s(family_schedule(schedule_family::interleaved_1f1b, 2, 4)),
        c(s, random),
        p(s, c.t, linear_layouts(c.t, c.rows)) {
    for (auto& x : c.numbers)  // so that no two messages are equal
      for (auto& n : x) n = static_cast<double>(random.below(1000));
    for (auto& w : c.weights) w = static_cast<double>(random.below(1000));
  }
};

/// The errors detected in a run; none if it is correct.
template <class Plan>
sentences found_in(Plan const& plan, mutant_case const& m, fake_cuda& fake) {
  sentences found;
  {
    cleave::cuda::device d;
    cuda_step const step(d, m.c.values());
    cuda_linear_run run(plan, linear_engines(m.c), {.watchdog = {.limit = 20s}},
                        {.of_each = {.drain_within = 500ms}});
    try {
      run.run_step(step.values());
      run.run_step(step.values());
      fake.threads_met();
      if (outcome_of(run, m.p, m.c) != outcome_on_host(m.p, m.c, 2)) found.push_back("other results");
    } catch (run_error const& e) {
      found.push_back(e.what());
    }
  }
  for (auto const& r : fake.reports()) found.push_back(r);
  return found;
}

std::vector<std::size_t> receives_of(rank_program const& p) {
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < p.instructions.size(); ++i)
    if (p.instructions[i].call.kind == call_kind::receive) all.push_back(i);
  return all;
}

}  // namespace

TEST_CASE("cuda::thread_pipeline: leaving out all or half of the waits of a stream is detected") {
  rng random(5);
  mutant_case const m(random);
  std::map<std::size_t, std::size_t> waits;  // by stream
  {
    fake_cuda fake;
    std::mutex one;
    fake.ignore_waits([&](fake_wait const& w) {
      std::lock_guard lock(one);
      ++waits[w.stream];
      return false;
    });
    CHECK(found_in(m.p, m, fake) == sentences());
  }
  CHECK(waits.size() >= 6);  // two for each rank, and one in each direction between them
  for (auto const& [stream, count] : waits)
    for (std::size_t left : {0u, 1u, 2u}) {
      if (count < 4) continue;
      CAPTURE(stream);
      CAPTURE(left);
      fake_cuda fake;
      fake.ignore_waits([&](fake_wait const& w) { return w.stream == stream && w.in_stream % 2 != left; });
      auto const found = found_in(m.p, m, fake);
      CHECK_FALSE(fake.missed().empty());
      CHECK_FALSE(found.empty());
    }
}

TEST_CASE("cuda::thread_pipeline: two messages swapped by one rank are reported as a mismatch") {
  rng random(6);
  mutant_case const m(random);
  auto const receives = receives_of(make_rank_program(m.p, rank_id{1}));
  REQUIRE(receives.size() > 4);
  for (std::size_t n = 0; n + 1 < receives.size(); ++n) {
    auto const swap = [&](rank_program& p) {
      if (p.rank != rank_id{1}) return;
      auto &a = p.instructions[receives[n]], &b = p.instructions[receives[n + 1]];
      std::swap(a.number, b.number);
      std::swap(a.at, b.at);
      std::swap(a.bytes, b.bytes);
    };
    fake_cuda fake;
    auto const found = found_in(changed_plan<decltype(swap)>{m.p, swap}, m, fake);
    CAPTURE(n);
    REQUIRE_FALSE(found.empty());
    CHECK(found.front().find("operation mismatch: rank 0 sends message ") != std::string::npos);
    CHECK(found.front().find(", but rank 1 receives message ") != std::string::npos);
    CHECK(fake.leaks() == sentences());
  }
}

TEST_CASE("cuda::thread_pipeline: a message received into another message's place is detected") {
  rng random(7);
  mutant_case const m(random);
  auto const receives = receives_of(make_rank_program(m.p, rank_id{1}));
  for (std::size_t n = 0; n + 1 < receives.size(); ++n) {
    auto const move = [&](rank_program& p) {
      if (p.rank == rank_id{1}) p.instructions[receives[n]].at = p.instructions[receives[n + 1]].at;
    };
    auto const original = make_rank_program(m.p, rank_id{1});
    if (original.instructions[receives[n]].at == original.instructions[receives[n + 1]].at) continue;
    fake_cuda fake({.seed = n, .longest_delay = 50us});
    CAPTURE(n);
    CHECK_FALSE(found_in(changed_plan<decltype(move)>{m.p, move}, m, fake).empty());
  }
}
