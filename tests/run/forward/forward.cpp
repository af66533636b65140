// SPDX-License-Identifier: MIT
#include "cleave/run/forward/forward.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/comes_true.hpp"
#include "support/random_dataflow.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace std::chrono_literals;
using numbers = std::vector<std::uint64_t>;

namespace {

constexpr stage_id s0{0}, s1{1}, s2{2};

/// A stage that mixes all its inputs and throws in microbatch `fails_at`.
struct mixing_stage {
  std::uint32_t stage;
  std::size_t outputs;
  std::uint32_t fails_at = 0xffffffff;

  numbers operator()(microbatch_id mb, std::span<std::uint64_t> in) const {
    if (index(mb) == fails_at) throw std::out_of_range("told to");
    return testing::mixed(stage, index(mb), numbers(in.begin(), in.end()), outputs);
  }
};

std::vector<mixing_stage> mixing_stages(dataflow const& t) {
  std::vector<mixing_stage> stages;
  auto const of_stage = ports(t);
  for (std::uint32_t s = 0; s < t.stages; ++s) stages.push_back({s, of_stage[s].outputs});
  return stages;
}

std::vector<numbers> inputs(testing::rng& random, std::uint32_t microbatches) {
  std::vector<numbers> all;
  for (std::uint32_t m = 0; m < microbatches; ++m)
    all.push_back({random.next(), random.next(), random.next()});
  return all;
}

/// Stage i feeds i + 1; the caller feeds the first and reads from the last.
dataflow chain(std::uint32_t stages) {
  dataflow t{.stages = stages, .edges = {{the_caller, 0, s0, 0}}};
  for (std::uint32_t s = 1; s < stages; ++s) t.edges.push_back({stage_id{s - 1}, 0, stage_id{s}, 0});
  t.edges.push_back({stage_id{stages - 1}, 0, the_caller, 0});
  return t;
}

/// Independent stages.
dataflow side_by_side(std::uint32_t stages) {
  dataflow t{.stages = stages, .edges = {}};
  for (std::uint32_t s = 0; s < stages; ++s) {
    t.edges.push_back({the_caller, 0, stage_id{s}, 0});
    t.edges.push_back({stage_id{s}, 0, the_caller, s});
  }
  return t;
}

std::vector<numbers> counted(std::uint32_t microbatches) {
  std::vector<numbers> all;
  for (std::uint32_t m = 0; m < microbatches; ++m) all.push_back({m});
  return all;
}

/// A stage that passes its id to a function shared by all stages.
template <class Function>
struct told_stage {
  stage_id stage;
  Function* function;
  auto operator()(microbatch_id mb, auto in) const { return (*function)(stage, mb, in); }
};
template <class Function>
std::vector<told_stage<Function>> told_stages(std::uint32_t stages, Function& function) {
  std::vector<told_stage<Function>> all;
  for (std::uint32_t s = 0; s < stages; ++s) all.push_back({stage_id{s}, &function});
  return all;
}

std::int64_t median(std::vector<std::int64_t> list) {
  std::ranges::sort(list);
  return list[list.size() / 2];
}

/// The median length of each stage's forward bars, in nanoseconds.
std::vector<std::int64_t> forward_bars(std::vector<interval> const& timeline, std::uint32_t stages) {
  std::vector<std::vector<std::int64_t>> bars(stages);
  for (auto const& i : timeline)
    if (i.what == activity::forward) bars[index(i.stage)].push_back(i.end - i.begin);
  std::vector<std::int64_t> medians;
  for (auto& list : bars) medians.push_back(median(list));
  return medians;
}

}  // namespace

TEST_CASE("run_forward: matches sequential execution on random dataflows with skips, for any capacity") {
  testing::rng random(11);
  for (int round = 0; round < 300; ++round) {
    auto const t = testing::random_dataflow(random, static_cast<std::uint32_t>(1 + random.below(8)));
    auto const microbatches = static_cast<std::uint32_t>(random.below(9));
    auto const given = inputs(random, microbatches);
    auto stages = mixing_stages(t);
    std::size_t const capacity = 1 + random.below(3);
    CAPTURE(round);
    auto const report = run_forward(stages, t, given, {.capacity = capacity});

    REQUIRE(report.results.size() == microbatches);
    bool equal = true;
    for (std::uint32_t m = 0; m < microbatches; ++m)
      equal = equal && report.results[m] == testing::sequential(t, m, given[m]).results();
    CHECK(equal);
    CHECK(report.timeline.size() == 3 * t.stages * microbatches);
    CHECK(report.most_queued.size() == t.edges.size());
    CHECK(std::ranges::all_of(report.most_queued, [&](std::size_t n) { return n <= capacity; }));
  }
}

TEST_CASE("run_forward: runs 32 stages with a skip from each to the last") {
  auto t = chain(32);
  for (std::uint32_t s = 0; s < 30; ++s) t.edges.push_back({stage_id{s}, 0, stage_id{31}, s + 1});
  testing::rng random(5);
  auto const given = inputs(random, 40);
  auto stages = mixing_stages(t);
  auto const report = run_forward(stages, t, given, {.capacity = 1});
  bool equal = true;
  for (std::uint32_t m = 0; m < given.size(); ++m)
    equal = equal && report.results[m] == testing::sequential(t, m, given[m]).results();
  CHECK(equal);
}

TEST_CASE("run_forward: accepts no microbatches, one stage, and no edges") {
  auto t = chain(3);
  auto stages = mixing_stages(t);
  auto const none = run_forward(stages, t, std::vector<numbers>{});
  CHECK(none.results.empty());
  CHECK(none.timeline.empty());

  t = chain(1);
  stages = mixing_stages(t);
  CHECK(run_forward(stages, t, counted(2)).results ==
        std::vector<numbers>{testing::mixed(0, 0, {0}, 1), testing::mixed(0, 1, {1}, 1)});

  t = {.stages = 2, .edges = {}};
  stages = mixing_stages(t);
  CHECK(run_forward(stages, t, std::vector<numbers>(3)).results == std::vector<numbers>(3));
}

TEST_CASE("run_forward: rejects inputs that do not fit together before anything runs") {
  std::atomic<bool> ran = false;
  auto const note = [&](stage_id, microbatch_id, std::span<std::uint64_t>) {
    ran = true;
    return numbers{};
  };
  auto none = told_stages(0, note), two = told_stages(2, note), three = told_stages(3, note);
  auto const t = chain(3);
  CHECK_THROWS_WITH_AS(run_forward(none, dataflow{}, counted(1)),
                       "forward run: there are no stages; give at least one", error);
  CHECK_THROWS_WITH_AS(run_forward(two, t, counted(1)),
                       "forward run: 2 stages are given, but the dataflow has 3", error);
  CHECK_THROWS_WITH_AS(run_forward(three, t, counted(1), {.capacity = 0}),
                       "forward run: capacity is 0; it must be at least 1", error);
  CHECK_THROWS_WITH_AS(run_forward(three, t, std::vector<numbers>{{1}, {}}),
                       "forward run: microbatch 1 has 0 values, but the dataflow needs 1", error);
  auto cyclic = t;
  cyclic.edges.push_back({s2, 0, s1, 1});
  CHECK_THROWS_AS(run_forward(three, cyclic, counted(1)), dataflow_error);
  CHECK_FALSE(ran);
}

TEST_CASE("run_forward: ignores inputs that no stage reads") {
  auto const t = chain(2);
  auto stages = mixing_stages(t);
  CHECK(run_forward(stages, t, std::vector<numbers>{{7, 8, 9}}).results ==
        run_forward(stages, t, std::vector<numbers>{{7}}).results);
  CHECK(find_short_microbatch(t, std::vector<numbers>{{1}, {2, 3}}) == std::nullopt);
  CHECK(find_short_microbatch(t, std::vector<numbers>{{1}, {}, {}}) == microbatch_id{1});
}

TEST_CASE("run_forward: move-only values work with one reader each and are rejected otherwise") {
  using box = std::unique_ptr<int>;
  auto const add = [](stage_id s, microbatch_id, std::span<box> in) {
    *in[0] += 1 << index(s);
    std::vector<box> out;
    out.push_back(std::move(in[0]));
    return out;
  };
  auto stages = told_stages(3, add);
  auto const boxes = [] {
    std::vector<std::vector<box>> all(5);
    for (auto& row : all) row.push_back(std::make_unique<int>(100));
    return all;
  };
  auto const report = run_forward(stages, chain(3), boxes());
  CHECK(std::ranges::all_of(report.results, [](auto const& row) { return *row[0] == 107; }));

  auto shared = chain(3);
  shared.edges.push_back({s0, 0, the_caller, 1});
  CHECK_THROWS_WITH_AS(run_forward(stages, shared, boxes()),
                       "forward run: result #0 of stage 0 has several readers, but its type is not copyable; "
                       "use a shared pointer to it",
                       error);
}

TEST_CASE("run_forward: a stage runs ahead of its reader by the edge's capacity plus two values") {
  for (std::size_t const capacity : {1u, 3u}) {
    std::atomic<bool> go = false;
    std::atomic<std::size_t> made = 0;
    auto const work = [&](stage_id s, microbatch_id, std::span<std::uint64_t> in) {
      if (s == s0)
        ++made;
      else
        testing::comes_true(go);
      return numbers{in[0]};
    };
    auto stages = told_stages(2, work);
    auto run = start_forward(stages, chain(2), counted(20), {.capacity = capacity});
    // The reader has one value, `capacity` values wait, and one has no room yet.
    while (made < capacity + 2 && !run.poll()) std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(30ms);
    CHECK(made == capacity + 2);
    go = true;
    CHECK(run.wait().most_queued[1] == capacity);
  }
}

TEST_CASE("run_forward: a failure names its stage and microbatch and nests the exception") {
  testing::rng random(3);
  for (int round = 0; round < 8; ++round) {
    auto const t = testing::random_dataflow(random, 5);
    for (std::uint32_t s = 0; s < t.stages; ++s)
      for (std::uint32_t m = 0; m < 6; ++m) {
        auto stages = mixing_stages(t);
        stages[s].fails_at = m;
        CAPTURE(s);
        CAPTURE(m);
        try {
          run_forward(stages, t, inputs(random, 6));
          FAIL("no failure was reported");
        } catch (stage_error const& e) {
          CHECK(e.stage == stage_id{s});
          CHECK(e.microbatch == microbatch_id{m});
          CHECK(std::string(e.what()) ==
                "stage " + std::to_string(s) + ", microbatch " + std::to_string(m) + ": told to");
          CHECK_THROWS_AS(e.rethrow_nested(), std::out_of_range);
        }
      }
  }
}

TEST_CASE("run_forward: reports one consistent failure if several stages fail") {
  auto const t = side_by_side(6);
  for (int round = 0; round < 50; ++round) {
    auto stages = mixing_stages(t);
    for (auto& s : stages) s.fails_at = s.stage % 3;
    try {
      run_forward(stages, t, counted(4));
      FAIL("no failure was reported");
    } catch (stage_error const& e) {
      CHECK(index(e.microbatch) == index(e.stage) % 3);
    }
  }
}

TEST_CASE("run_forward: reports an exception of any type") {
  auto const throw_number = [](stage_id, microbatch_id mb, std::span<std::uint64_t> in) -> numbers {
    if (index(mb) == 1) throw 42;
    return {in[0]};
  };
  auto stages = told_stages(2, throw_number);
  try {
    run_forward(stages, chain(2), counted(3));
    FAIL("no failure was reported");
  } catch (stage_error const& e) {
    CHECK(e.stage == s0);
    CHECK_THROWS_AS(e.rethrow_nested(), int);
  }
}

TEST_CASE("run_forward: a wrong number of results is a failure of the stage that returns them") {
  auto const two = [](stage_id s, microbatch_id, std::span<std::uint64_t>) {
    return numbers(s == s1 ? 2 : 1);
  };
  auto stages = told_stages(3, two);
  CHECK_THROWS_WITH_AS(run_forward(stages, chain(3), counted(2)),
                       "stage 1, microbatch 0: returned 2 results, but the dataflow has 1", stage_error);
}

TEST_CASE("run_forward: a value that throws on copying fails the stage that sends it") {
  struct brittle {
    int n = 0;
    brittle() = default;
    explicit brittle(int k) : n(k) {}
    brittle(brittle&&) = default;
    brittle& operator=(brittle&&) = default;
    brittle(brittle const& other) : n(other.n) {
      if (n == 2) throw std::runtime_error("broke");
    }
    brittle& operator=(brittle const& other) { return *this = brittle(other); }
  };
  auto const count = [](stage_id, microbatch_id mb, std::span<brittle>) {
    std::vector<brittle> out;
    out.emplace_back(static_cast<int>(index(mb)));
    return out;
  };
  auto stages = told_stages(2, count);
  auto t = chain(2);
  t.edges.push_back({s0, 0, the_caller, 1});
  CHECK_THROWS_WITH_AS(run_forward(stages, t, std::vector<std::vector<brittle>>(4, std::vector<brittle>(1))),
                       "stage 0, microbatch 2: broke", stage_error);
}

TEST_CASE("run_forward: reports a failure within 100 ms while another stage computes, then ends all stages") {
  // The least of three rounds, so that other work on the machine does not fail the test.
  auto reported = 10s * 1.0, joined = 10s * 1.0;
  for (int round = 0; round < 3; ++round) {
    using clock = std::chrono::steady_clock;
    std::atomic<bool> busy = false, release = false, released = false;
    std::atomic<int> calls = 0;
    clock::time_point thrown, returned;
    auto const work = [&](stage_id s, microbatch_id, std::span<std::uint64_t> in) {
      ++calls;
      if (s == s0) {
        busy = true;
        released = testing::comes_true(release);
        returned = clock::now();
      } else if (s == s1) {
        testing::comes_true(busy);
        thrown = clock::now();
        throw std::runtime_error("out of memory");
      }
      return numbers{in[0]};
    };
    auto stages = told_stages(3, work);
    {
      auto run = start_forward(stages, side_by_side(3), counted(3));
      CHECK_THROWS_WITH_AS(run.wait(), "stage 1, microbatch 0: out of memory", stage_error);
      reported = std::min<std::chrono::duration<double>>(reported, clock::now() - thrown);
      REQUIRE(run.poll());
      CHECK(run.poll()->at == stage_call{s1, microbatch_id{0}});
      CHECK(run.wait_for(0ms));
      CHECK_THROWS_AS(run.wait(), stage_error);
      release = true;
    }
    joined = std::min<std::chrono::duration<double>>(joined, clock::now() - returned);
    CHECK(released);
    CHECK(calls <= 5);  // one of the long stage, one of the failing stage, three of the third stage
  }
  CHECK(reported < 100ms);
  CHECK(joined < 100ms);
}

TEST_CASE("run_forward: a failure stops stages that wait for values or for room") {
  // Stage 1 fails while stage 0 waits for room and stages 2 and 3 for values.
  std::atomic<int> made = 0;
  auto const work = [&](stage_id s, microbatch_id, std::span<std::uint64_t> in) {
    if (s == s0) ++made;
    if (s == s1) {
      while (made < 3) std::this_thread::sleep_for(1ms);
      std::this_thread::sleep_for(10ms);
      throw std::runtime_error("full");
    }
    return numbers{in[0]};
  };
  auto stages = told_stages(4, work);
  CHECK_THROWS_WITH_AS(run_forward(stages, chain(4), counted(50), {.capacity = 1}),
                       "stage 1, microbatch 0: full", stage_error);
  CHECK(made == 3);
}

TEST_CASE("start_forward: the caller can stop a run or abandon it") {
  std::atomic<bool> busy = false;
  std::atomic<int> calls = 0;
  auto const slow = [&](stage_id, microbatch_id, std::span<std::uint64_t> in) {
    ++calls;
    busy = true;
    std::this_thread::sleep_for(2ms);
    return numbers{in[0]};
  };
  auto stages = told_stages(2, slow);
  {
    auto run = start_forward(stages, chain(2), counted(100'000));
    testing::comes_true(busy);
    CHECK_FALSE(run.wait_for(1ms));
    run.stop();
    CHECK_THROWS_WITH_AS(run.wait(), "stopped by the caller", run_error);
  }
  {
    auto left = start_forward(stages, chain(2), counted(100'000));
  }
  int const ended = calls;
  std::this_thread::sleep_for(10ms);
  CHECK(calls == ended);
  CHECK(calls < 100'000);
}

TEST_CASE("start_forward: stopping a finished run changes nothing") {
  auto const t = chain(2);
  auto stages = mixing_stages(t);
  auto run = start_forward(stages, t, counted(3));
  while (!run.wait_for(10ms)) {
  }
  run.stop();
  CHECK(run.progress().done == 6);
  CHECK(run.wait().results.size() == 3);
}

TEST_CASE("run_forward: reports progress on the calling thread, growing to the total") {
  auto const caller_thread = std::this_thread::get_id();
  auto const slow = [](stage_id, microbatch_id, std::span<std::uint64_t> in) {
    std::this_thread::sleep_for(30ms);
    return numbers{in[0]};
  };
  auto stages = told_stages(3, slow);
  std::vector<forward_progress> seen;
  bool here = true;
  run_forward(stages, chain(3), counted(8), {}, [&](forward_progress const& p) {
    here = here && std::this_thread::get_id() == caller_thread;
    seen.push_back(p);
  });
  CHECK(here);
  CHECK(seen.size() >= 2);
  CHECK(std::ranges::is_sorted(seen, {}, &forward_progress::done));
  CHECK(seen.back().done == 24);
  CHECK(seen.back().total == 24);
  CHECK_FALSE(seen.back().failed);
}

TEST_CASE("run_forward: an observer learns of a failure while another stage still computes") {
  std::atomic<bool> heard = false, busy = false, heard_in_time = false;
  auto const work = [&](stage_id s, microbatch_id, std::span<std::uint64_t> in) {
    if (s == s0) {
      busy = true;
      heard_in_time = testing::comes_true(heard);
    } else {
      testing::comes_true(busy);
      throw std::runtime_error("early");
    }
    return numbers{in[0]};
  };
  auto stages = told_stages(2, work);
  auto const observe = [&](forward_progress const& p) { heard = heard || p.failed.has_value(); };
  CHECK_THROWS_AS(run_forward(stages, side_by_side(2), counted(1), {}, observe), stage_error);
  CHECK(heard_in_time);
}

TEST_CASE("run_forward: 50 ms more in stage 2 lengthen only its bars in the timeline") {
  std::atomic<bool> slowed = false;
  auto const work = [&](stage_id s, microbatch_id, std::span<std::uint64_t> in) {
    std::this_thread::sleep_for(s == s2 && slowed ? 52ms : 2ms);
    return numbers{in[0]};
  };
  auto stages = told_stages(4, work);
  auto const before = forward_bars(run_forward(stages, chain(4), counted(9)).timeline, 4);
  slowed = true;
  auto const after = forward_bars(run_forward(stages, chain(4), counted(9)).timeline, 4);
  constexpr std::int64_t ms = 1'000'000;
  for (std::size_t s = 0; s < 4; ++s) {
    CAPTURE(s);
    std::int64_t const longer = after[s] - before[s];
    CHECK(longer > (s == 2 ? 30 * ms : -20 * ms));
    CHECK(longer < (s == 2 ? 70 * ms : 20 * ms));
  }
}

TEST_CASE("run_forward: the timeline is ordered, has no holes, and fits into the run's duration") {
  auto const t = chain(3);
  auto stages = mixing_stages(t);
  auto const began = std::chrono::steady_clock::now();
  auto const timeline = run_forward(stages, t, counted(5)).timeline;
  std::chrono::nanoseconds const took = std::chrono::steady_clock::now() - began;
  REQUIRE(timeline.size() == 3 * 3 * 5);
  auto const bar = [&](std::size_t s, std::size_t m, activity a) {
    return timeline[(s * 5 + m) * 3 + static_cast<std::size_t>(a)];
  };
  bool ordered = true, sound = true;
  for (std::size_t s = 0; s < 3; ++s)
    for (std::size_t m = 0; m < 5; ++m) {
      auto const receive = bar(s, m, activity::receive), forward = bar(s, m, activity::forward),
                 send = bar(s, m, activity::send);
      ordered =
          ordered && index(send.stage) == s && index(send.microbatch) == m && send.what == activity::send;
      sound = sound && 0 <= receive.begin && receive.begin <= receive.end && receive.end == forward.begin &&
              forward.begin <= forward.end && forward.end == send.begin && send.begin <= send.end &&
              send.end <= took.count();
      if (s > 0) sound = sound && bar(s - 1, m, activity::forward).end <= forward.begin;
      if (m > 0) sound = sound && bar(s, m - 1, activity::send).end <= receive.begin;
    }
  CHECK(ordered);
  CHECK(sound);
}
