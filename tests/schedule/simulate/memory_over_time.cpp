// SPDX-License-Identifier: MIT
#include "cleave/schedule/simulate/memory_over_time.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/lower/lower.hpp"
#include "cleave/schedule/simulate/simulate.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

schedule of_rows(std::vector<std::string> const& rows, row_contents contents = row_contents::compute_only) {
  std::vector<std::vector<action>> lists;
  for (auto const& row : rows) lists.push_back(read_row(row));
  return schedule_from_rows(lists, contents);
}

using steps = std::vector<memory_step>;

steps of_rank(schedule const& s, std::size_t r, schedule_bytes const& b, simulate_options const& o = {}) {
  return memory_over_time(s, simulate(s, o), b)[r];
}

constexpr schedule_family families[] = {schedule_family::looped_bfs, schedule_family::interleaved_1f1b,
                                        schedule_family::interleaved_zero_bubble, schedule_family::zbv,
                                        schedule_family::dual_pipe_v};

}  // namespace

TEST_CASE("memory_over_time: saved activations last until I ends, and a smaller part until W ends") {
  CHECK(of_rank(of_rows({"0F0,0I0,0W0"}), 0, {.stages = {{.saved = 10, .saved_for_weights = 4}}}) ==
        steps{{0, 0}, {0, 10}, {2, 4}, {3, 0}});
  CHECK(of_rank(of_rows({"0F0,0B0"}), 0, {.stages = {{.saved = 10}}}) == steps{{0, 0}, {0, 10}, {3, 0}});
}

TEST_CASE("memory_over_time: a received tensor is kept until the pass that reads it ends") {
  schedule_bytes const bytes{.stages = {{0, 0, 0}}, .edges = {{.activation = 5, .gradient = 7}}};
  // Without receives in the lists, memory is held from the send on.
  auto const alone = of_rows({"0F0,0B0", "1F0,1B0"});
  CHECK(of_rank(alone, 1, bytes, {.base_latency = 2}) == steps{{0, 0}, {1, 5}, {4, 0}});
  CHECK(of_rank(alone, 0, bytes, {.base_latency = 2}) == steps{{0, 0}, {6, 7}, {10, 0}});
  auto const sent =
      of_rows({"0F0,0SEND_F0,0RECV_B0,0B0", "1RECV_F0,1F0,1B0,1SEND_B0"}, row_contents::with_communication);
  CHECK(of_rank(sent, 1, bytes) == steps{{0, 0}, {0, 5}, {2, 0}});
  CHECK(of_rank(sent, 0, bytes) == steps{{0, 0}, {1, 7}, {6, 0}});
}

TEST_CASE("memory_over_time: offloaded activations are free from the end of the copy to the reload") {
  CHECK(of_rank(of_rows({"0F0,0OFFLOAD0,0F1,0B1,0RELOAD0,0B0"}, row_contents::with_communication), 0,
                {.stages = {{.saved = 10}}}, {.costs = {{.offload = 2, .reload = 1}}}) ==
        steps{{0, 0}, {0, 10}, {1, 20}, {3, 10}, {4, 0}, {4, 10}, {7, 0}});
}

TEST_CASE("memory_over_time: a pass that is recomputed keeps only its input until then") {
  CHECK(of_rank(of_rows({"0F0,0RECOMPUTE0,0B0"}, row_contents::with_communication), 0,
                {.stages = {{.saved = 10, .input = 3}}}) == steps{{0, 0}, {0, 10}, {1, 3}, {1, 10}, {4, 0}});
}

TEST_CASE("memory_over_time: without sizes, the peaks equal the kept passes of simulate") {
  for (auto const family : families)
    for (std::uint32_t const p : {2u, 3u, 4u}) {
      auto const s = make_schedule(family, {.ranks = p, .stages_per_rank = 2, .microbatches = 2 * p});
      for (auto const& program : {s, lower(s)}) {
        auto const times = simulate(program);
        auto const peaks = peak_bytes(memory_over_time(program, times));
        for (std::size_t r = 0; r < p; ++r) CHECK(peaks[r] == times.most_kept[r].passes);
      }
    }
}

TEST_CASE("memory_over_time: the peaks of each family are the published ones") {
  auto const peaks = [](schedule_family f, std::uint32_t p, std::uint32_t v, std::uint32_t m) {
    auto const s = make_schedule(f, {.ranks = p, .stages_per_rank = v, .microbatches = m});
    return peak_bytes(memory_over_time(s, simulate(s)));
  };
  for (std::uint32_t const p : {2u, 4u, 6u})
    for (std::uint32_t const v : {2u, 3u, 4u}) {
      std::uint32_t const m = 4 * p, g = p;
      for (std::uint32_t r = 0; r < p; ++r) {
        CAPTURE(p);
        CAPTURE(v);
        CAPTURE(r);
        CHECK(peaks(schedule_family::gpipe, p, 1, m)[r] == m);
        CHECK(peaks(schedule_family::one_f_one_b, p, 1, m)[r] == p - r);
        CHECK(peaks(schedule_family::looped_bfs, p, v, m)[r] == v * m);
        CHECK(peaks(schedule_family::interleaved_1f1b, p, v, m)[r] == (v - 1) * g + 2 * (p - 1 - r) + 1);
        CHECK(peaks(schedule_family::interleaved_zero_bubble, p, v, m)[r] == (v - 1) * g + p);
        CHECK(peaks(schedule_family::zbv, p, 2, m)[r] == 2 * p);
        CHECK(peaks(schedule_family::dual_pipe_v, p, 2, m)[r] == 2 * p + 1);
      }
    }
}

TEST_CASE("memory_over_time: at any time, the bytes are the sum of all values alive") {
  testing::rng random(70);
  for (int i = 0; i < 60; ++i) {
    auto const s =
        make_schedule(families[random.below(5)], {.ranks = 3, .stages_per_rank = 2, .microbatches = 6});
    schedule_bytes bytes;
    for (int n = 0; n < 6; ++n) bytes.stages.push_back({random.below(9), random.below(9), 0});
    auto const times = simulate(s, {.base_latency = 0.25, .noise = 0.5, .seed = random.next()});
    auto const found = memory_over_time(s, times, bytes);
    for (std::size_t r = 0; r < 3; ++r) {
      using pass = std::tuple<action_kind, stage_id, microbatch_id>;
      std::map<pass, time_span> when;
      for (std::size_t n = 0; n < s.ranks[r].size(); ++n)
        when[{s.ranks[r][n].kind, s.ranks[r][n].stage, s.ranks[r][n].microbatch}] = times.spans[r][n];
      double const time_point = random.unit() * times.makespan;
      std::uint64_t expected = 0;
      for (auto const& [key, t] : when) {
        auto const [kind, stage, m] = key;
        if (kind != action_kind::forward) continue;
        auto const b = when.find({action_kind::backward, stage, m}),
                   h = when.find({action_kind::input_gradient, stage, m});
        auto const& size = bytes.stages[index(stage)];
        auto const within = [&](double begin, double end) { return begin <= time_point && time_point < end; };
        if (within(t.begin, (b == when.end() ? h : b)->second.end)) expected += size.saved;
        if (h != when.end() && within(h->second.end, when.at({action_kind::weight_gradient, stage, m}).end))
          expected += size.saved_for_weights;
      }
      std::uint64_t got = 0;
      for (auto const& step : found[r])
        if (step.time <= time_point) got = step.bytes;
      REQUIRE(got == expected);
    }
  }
}

TEST_CASE("memory_over_time: rejects sizes that do not match the schedule") {
  auto const s = of_rows({"0F0,0B0", "1F0,1B0"});
  CHECK_THROWS_AS((void)of_rank(s, 0, {.stages = {{}, {}, {}}}), schedule_bytes_error);
  CHECK_THROWS_AS((void)of_rank(s, 0, {.stages = {{.saved = ~std::uint64_t{0}}}}), schedule_bytes_error);
}
