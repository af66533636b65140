// SPDX-License-Identifier: MIT
#include "cleave/schedule/search/search_schedule.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cleave/core/random.hpp"
#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/lower/lower.hpp"
#include "cleave/schedule/search/exact_schedule.hpp"
#include "cleave/schedule/simulate/memory_over_time.hpp"
#include "support/cases.hpp"
#include "support/random_step.hpp"
#include "support/run_order.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

search_options const quick{.effort = 200'000};

/// Returns the shortest simulated makespan of all families that fit within the memory limits.
double best_generated(search_problem const& problem) {
  double best = no_end;
  auto const p = problem.ranks;
  auto const v = static_cast<std::uint32_t>(problem.costs.size() / p);
  for (std::size_t f = 0; f < schedule_names.size(); ++f) {
    if (static_cast<schedule_family>(f) == schedule_family::forward_only) continue;
    schedule made;
    try {
      made = make_schedule(static_cast<schedule_family>(f), {p, v, problem.microbatches});
    } catch (shape_error const&) {
      continue;
    }
    auto placed = problem;
    placed.place = made.place;
    if (made.place.edges.size() + 1 != problem.costs.size()) continue;  // two copies of the model
    auto const step = place_step(placed, made.place, made.microbatches);
    auto const times = simulate(made, simulate_options_of(placed, step));
    auto peaks = peak_bytes(memory_over_time(made, times, {.stages = problem.bytes.stages, .edges = {}}));
    bool fits = true;
    for (std::size_t r = 0; r < p; ++r)
      fits = fits && (problem.memory_limit.empty() || peaks[r] + step.resident[r] <= problem.memory_limit[0]);
    if (fits) best = std::min(best, times.makespan);
  }
  return best;
}

}  // namespace

TEST_CASE("search_schedule: the result runs within the memory limits, and no family that fits is faster") {
  splitmix rng(21);
  int families = 0, better = 0;
  auto const rounds = static_cast<int>(testing::cases(40, 150));
  for (int round = 0; round < rounds; ++round) {
    auto problem = testing::random_step(rng, {4, 3, 9});
    if (rng.below(3) > 0) problem.memory_limit = {testing::random_memory_limit(rng, problem)};
    auto const form = rng.below(2) == 0 ? backward_choice::either : backward_choice::whole;
    found_schedule found;
    try {
      found = search_schedule(problem, {.form = form, .seed = rng.next(), .effort = 100'000});
    } catch (byte_cap_error const&) {  // the limit does not allow whole backward passes
      CHECK(form != backward_choice::split);
      continue;
    }
    auto const& told = found.certificate;
    CHECK(testing::order_defect(found.order) == "");
    CHECK_FALSE(find_schedule_fault(found.order));
    CHECK(told.bound <= told.makespan + 1e-9);
    CHECK(told.makespan <= told.began_at + 1e-9);
    for (auto const bytes : told.peak_bytes)
      CHECK((problem.memory_limit.empty() || bytes <= problem.memory_limit[0]));
    if (form != backward_choice::either) continue;
    auto const best = best_generated(problem);
    CHECK(told.makespan <= best + 1e-9);
    families += best < no_end;
    better += told.makespan < best - 1e-9;
  }
  CHECK(families > rounds * 4 / 15);
  CHECK(3 * better > families);
}

TEST_CASE("search_schedule: is within 5 % of the optimum on small problems") {
  splitmix rng(22);
  int compared = 0, reached = 0;
  auto const rounds = static_cast<int>(testing::cases(20, 60));
  for (int round = 0; round < rounds; ++round) {
    auto problem = testing::random_step(rng, {3, 2, 4});
    if (problem.costs.size() * problem.microbatches > 12) continue;
    if (rng.below(2) == 0) problem.memory_limit = {testing::random_memory_limit(rng, problem)};
    auto const form = rng.below(2) == 0 ? backward_choice::whole : backward_choice::split;
    auto const best = [&]() -> std::optional<found_schedule> {
      try {
        return find_exact_schedule(problem, {.form = form, .most_states = 300'000});
      } catch (byte_cap_error const&) {
        CHECK_THROWS_AS(search_schedule(problem, {.form = form}), byte_cap_error);
        return std::nullopt;
      }
    }();
    if (!best) continue;
    auto const found = search_schedule(problem, {.form = form, .effort = 300'000});
    ++compared;
    CHECK(best->certificate.makespan <= found.certificate.makespan + 1e-9);
    CHECK(found.certificate.makespan <= 1.05 * best->certificate.makespan);
    CHECK(found.certificate.bound <= best->certificate.makespan + 1e-9);
    reached += found.certificate.makespan <= best->certificate.makespan + 1e-9;
  }
  CHECK(compared > rounds * 5 / 12);
  CHECK(10 * reached >= 9 * compared);
}

TEST_CASE("search_schedule: the same seed gives the same result, within the allowed effort") {
  splitmix rng(23);
  for (std::size_t round = 0; round < testing::cases(4, 10); ++round) {
    auto const problem = testing::random_step(rng, {4, 2, 8});
    auto const one = search_schedule(problem, quick), other = search_schedule(problem, quick);
    CHECK(one.order == other.order);
    CHECK(one.certificate == other.certificate);
    auto const none = search_schedule(problem, {.effort = 0});
    CHECK(none.certificate.makespan == doctest::Approx(none.certificate.began_at));
    CHECK(one.certificate.effort <= none.certificate.effort + quick.effort);
  }
}

TEST_CASE("search_schedule: with equal stages, the makespan equals the lower bound") {
  search_problem problem{.ranks = 4, .microbatches = 12};
  problem.costs.resize(4);
  auto const found = search_schedule(problem, {.form = backward_choice::whole, .effort = 0});
  CHECK(found.certificate.makespan == 3 * 12 + 3 * 3);
  CHECK(found.certificate.gap() == 0);
  CHECK(found.certificate.reason == "rank");
  CHECK(found.certificate.best_family != "");
}

TEST_CASE("search_schedule: rejects a memory limit that no placement meets and names the rank") {
  search_problem problem{.ranks = 2, .microbatches = 4};
  problem.costs.resize(4);
  problem.bytes.stages = {{5, 5, 0}, {7, 7, 0}, {1, 1, 0}, {2, 2, 0}};
  problem.resident = {10, 10, 10, 10};
  problem.memory_limit = {28};  // a loop needs 26 and 29, a wave 27 and 28
  CHECK(search_schedule(problem, quick).order.place == wave_placement(2));
  problem.memory_limit = {27};
  CHECK_THROWS_WITH_AS(search_schedule(problem),
                       "schedule: rank 1 needs 28 bytes at least, but its limit is 27 bytes; raise the "
                       "limit, give the rank fewer or smaller stages, or use smaller microbatches",
                       byte_cap_error);
  problem.memory_limit = {27, 28};
  CHECK(search_schedule(problem, quick).certificate.peak_bytes == std::vector<std::uint64_t>{27, 28});
}

TEST_CASE("search_schedule: with two model copies, a bidirectional placement is tried too") {
  search_problem problem{.ranks = 4, .microbatches = 8, .copies = model_copies::two};
  problem.costs.assign(4, {.forward = 1, .backward = 1});
  auto const found = search_schedule(problem, {.form = backward_choice::whole, .effort = 300'000});
  CHECK(found.order.place == bidirectional_placement(4));
  CHECK(found.certificate.makespan < 2 * 8 + 2 * 3);
  CHECK(testing::order_defect(found.order) == "");
}

TEST_CASE("search_schedule: keeps a given placement, even with skip edges") {
  search_problem problem{.ranks = 2, .microbatches = 3};
  problem.costs.resize(3);
  problem.place =
      stage_placement{2,
                      {rank_id{1}, rank_id{0}, rank_id{1}},
                      {{stage_id{0}, stage_id{1}}, {stage_id{0}, stage_id{2}}, {stage_id{1}, stage_id{2}}}};
  auto const found = search_schedule(problem, quick);
  CHECK(found.order.place == *problem.place);
  CHECK(testing::order_defect(found.order) == "");
  CHECK(found.certificate.makespan >= found.certificate.bound);
}

TEST_CASE("search_schedule: the result can be lowered without faults") {
  splitmix rng(24);
  for (std::size_t round = 0; round < testing::cases(4, 10); ++round) {
    auto const found = search_schedule(testing::random_step(rng), quick);
    CHECK_FALSE(find_schedule_fault(lower(found.order)));
  }
}

TEST_CASE("search_schedule: a rank of speed s takes a stage's cost / s, on any placement") {
  splitmix rng(71);
  for (std::size_t round = 0; round < testing::cases(8, 20); ++round) {
    CAPTURE(round);
    search_problem fast{.ranks = 2, .microbatches = 3, .speed = {static_cast<double>(1 + rng.below(4)), 0.5}};
    fast.place = stage_placement{2, {}, chain_edges(4)};
    for (int s = 0; s < 4; ++s) {
      auto const cost = static_cast<double>(1 + rng.below(9));
      fast.costs.push_back(
          {.forward = cost, .backward = 2 * cost, .input_gradient = cost, .weight_gradient = cost});
      fast.place->rank_of.push_back(rank_id{static_cast<std::uint32_t>(rng.below(2))});
    }
    fast.place->rank_of[0] = rank_id{0};
    fast.place->rank_of[1] = rank_id{1};
    auto plain = fast;
    plain.speed = {};
    for (std::size_t s = 0; s < 4; ++s)
      plain.costs[s] = detail::at_speed(plain.costs[s], fast.speed[index(fast.place->rank_of[s])]);
    auto const a = search_schedule(fast, {.effort = 20'000}), b = search_schedule(plain, {.effort = 20'000});
    CHECK(a.order == b.order);
    CHECK(a.certificate.makespan == b.certificate.makespan);
    CHECK(simulate(a.order, simulate_options_of(fast)).makespan == doctest::Approx(a.certificate.makespan));
  }
  search_problem const one{.ranks = 1, .microbatches = 1, .costs = {{}}};
  for (auto const& speed : {std::vector<double>{0}, {-1}, {1e101}, {1, 1}}) {
    auto wrong = one;
    wrong.speed = speed;
    CHECK_THROWS_AS(search_schedule(wrong), detail::search_error);
  }
  auto slow = one;
  slow.costs = {{.forward = 1e90}};
  slow.speed = {1e-20};
  CHECK_THROWS_AS(search_schedule(slow), detail::search_error);
}
