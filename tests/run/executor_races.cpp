// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cleave/run/executor/detail/executor.hpp"
#include "cleave/schedule/lower/reduce_ties.hpp"
#include "cleave/schedule/model/schedule_names.hpp"
#include "support/cases.hpp"
#include "support/linear_chain.hpp"
#include "support/linear_engine.hpp"
#include "support/race_device.hpp"
#include "support/random_schedule.hpp"
#include "support/rank_threads.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;

namespace {

using racing = race_stages<linear_engine>;
using race_ranks = rank_threads<race_device, race_communicator, racing>;

race_ranks ranks_of(step_plan const& p, linear_chain const& c, race_log& log,
                    rank_threads_options const& options = {}) {
  std::vector<racing> stages(p.order().ranks.size() * options.replicas, racing(linear_engine(c.stages, {})));
  return race_ranks(
      p, std::move(stages), [&](auto& to, host_ranks& ranks, rank_id r) { to.emplace_back(log, ranks, r); },
      [](auto& to, host_group& group, std::uint32_t member, race_device& d) {
        to.emplace_back(group, member, d);
      },
      options);
}

void read_results(race_ranks& run, step_plan const& p, linear_chain const& c) {
  for (std::uint32_t r = 0; r < p.order().ranks.size(); ++r)
    for (std::uint32_t m = 0; m < c.rows.size(); ++m)
      for (std::uint32_t k = 0; k < c.results; ++k)
        if (auto const v = run.result_of(rank_id{r}, microbatch_id{m}, k))
          run.device_of(rank_id{r}).read_here(v->elements(), "the caller");
}

std::string all_of(std::vector<std::string> const& lines) {
  std::string text;
  for (auto const& l : lines) text += l + "\n";
  return text;
}

lower_options random_lowering(rng& random) {
  return {.messages = random.one_in(2) ? message_order::timed : message_order::rounds,
          .receives = random.one_in(2) ? receive_time::at_once : receive_time::deferred,
          .grouping = random.one_in(2) ? message_grouping::none : message_grouping::adjacent};
}

}  // namespace

TEST_CASE("executor: no schedule family touches memory that another stream may still use") {
  rng random(41);
  for (std::size_t f = 0; f < schedule_names.size(); ++f) {
    auto const family = static_cast<schedule_family>(f);
    auto const ranks = static_cast<std::uint32_t>(cases(2, 4));
    auto const s = family_schedule(family, ranks, 2 * ranks);
    linear_chain const c(s, random);
    CAPTURE(name_of(family));
    program_options const options{.lowering = random_lowering(random), .saved_activations = {{24, 40, 16}}};
    step_plan const p(s, c.t, linear_layouts(c.t, c.rows), options);
    race_log log;
    auto run = ranks_of(p, c, log);
    for (int step = 0; step < 2; ++step) {
      CHECK_FALSE(run.run_step(c.values()));
      read_results(run, p, c);
    }
    CHECK(all_of(log.reports()) == "");
  }
}

TEST_CASE("executor: a left-out wait is reported, except for sends of memory that is never rewritten") {
  rng random(43);
  std::size_t reported = 0;
  for (auto const family :
       {schedule_family::one_f_one_b, schedule_family::interleaved_1f1b, schedule_family::zbv}) {
    CAPTURE(name_of(family));
    auto const s = family_schedule(family, 2, 4);
    linear_chain const c(s, random);
    step_plan const p(s, c.t, linear_layouts(c.t, c.rows), {.lowering = random_lowering(random)});
    std::vector<std::size_t> waits;
    auto const run_without = [&](std::uint32_t r, std::set<std::size_t> which) {
      race_log log;
      auto run = ranks_of(p, c, log);
      run.device_of(rank_id{r}).ignore_waits(std::move(which));
      for (int step = 0; step < 2; ++step) {
        CHECK_FALSE(run.run_step(c.values()));
        read_results(run, p, c);
      }
      waits.push_back(run.device_of(rank_id{r}).waits() / 2);
      auto const missed = run.device_of(rank_id{r}).missed();
      bool const only_sent =
          std::ranges::all_of(missed, [](std::string const& m) { return m.ends_with(", sent"); });
      CHECK((only_sent || !log.reports().empty()));
      if (missed.empty()) CHECK(all_of(log.reports()) == "");
      return !log.reports().empty();
    };
    for (std::uint32_t r = 0; r < 2; ++r) {
      CHECK_FALSE(run_without(r, {}));
      for (std::size_t w = 0, all = waits.back(); w < all; w += cases(12, 1)) reported += run_without(r, {w});
    }
  }
  CHECK(reported > cases(4, 50));
}

TEST_CASE("executor: replica and tie sums wait for passes, and passes wait for the sums") {
  rng random(47);
  constexpr auto none = static_cast<std::size_t>(-1);
  std::size_t reported = 0;
  for (int round = 0; round < 6; ++round) {
    auto const s =
        family_schedule(round % 2 == 0 ? schedule_family::interleaved_1f1b : schedule_family::zbv, 2, 4);
    linear_chain const c(s, random);
    std::vector<tied_gradients> const ties{{{stage_id{0}, 0}, {stage_id{1}, 0}, {stage_id{3}, 0}},
                                           {{stage_id{1}, 1}, {stage_id{2}, 1}}};
    std::vector<tied_stages> const tied{{{stage_id{0}, stage_id{1}, stage_id{3}}},
                                        {{stage_id{1}, stage_id{2}}}};
    auto const lowered = lower(s, random_lowering(random));
    step_plan const p(round < 2 ? lowered : reduce_ties(lowered, tied), c.t, linear_layouts(c.t, c.rows));
    auto const replicas = static_cast<std::uint32_t>(1 + random.below(2));
    std::size_t waits = 0;
    auto const bucket_bytes = 8 * random.below(4);
    std::vector<gradient_bucket> const buckets{{stage_id{2}, {1}}, {stage_id{0}, {1, 0}}};
    auto const find_race_without = [&](std::size_t wait) {
      race_log log;
      auto run = ranks_of(
          p, c, log, {.replicas = replicas, .ties = ties, .buckets = buckets, .bucket_bytes = bucket_bytes});
      run.device_of(rank_id{0}).ignore_waits({wait});
      for (int step = 0; step < 2; ++step)
        CHECK_FALSE(run.run_step(std::vector<step_values>(replicas, c.values())));
      waits = run.device_of(rank_id{0}).waits() / 2;
      for (auto const& m : run.device_of(rank_id{0}).missed())
        if (m.starts_with("reduction")) CHECK(!log.reports().empty());
      return all_of(log.reports());
    };
    CHECK(find_race_without(none) == "");
    for (std::size_t w = 0, all = round < 2 ? waits : 0; w < all; w += cases(12, 1))
      reported += !find_race_without(w).empty();
  }
  CHECK(reported > cases(2, 30));
}
