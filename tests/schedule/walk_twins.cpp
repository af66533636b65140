// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

#include "cleave/schedule/lower/group_messages.hpp"
#include "cleave/schedule/lower/lower.hpp"
#include "cleave/schedule/simulate/simulate.hpp"
#include "cleave/schedule/simulate/step_simulation.hpp"
#include "cleave/schedule/verify/deadlock.hpp"
#include "support/every_delivery.hpp"
#include "support/plain_lowering.hpp"
#include "support/rng.hpp"
#include "support/some_schedule.hpp"
#include "support/twins/order_walk.hpp"
#include "support/twins/step_walk.hpp"
#include "support/twins/time_walk.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace twins = cleave::testing::twins;

namespace {

std::size_t rounds() { return std::getenv("CLEAVE_ALL") ? 100'000 : 2'000; }

/// A schedule that computes only, or with messages of one kind or another.
schedule some_program(testing::rng& random) {
  auto const s = testing::some_schedule(random);
  switch (random.below(5)) {
    case 0:
      return s;
    case 1:
      return testing::with_plain_messages(s);
    case 2:
      return group_messages(lower(s));
    case 3:
      return lower(s, {.receives = receive_time::deferred});
    default:
      return lower(s);
  }
}

/// Some actions of some ranks change places, are there twice, or are gone.
void damage(testing::rng& random, schedule& s) {
  for (auto& row : s.ranks)
    for (auto n = random.below(3); n > 0 && row.size() > 1; --n) {
      auto const i = random.below(row.size()), k = random.one_in(2) ? random.below(row.size()) : i + 1;
      auto const at = row.begin() + static_cast<std::ptrdiff_t>(i);
      if (random.one_in(8))
        row.erase(at);
      else if (random.one_in(8))
        row.insert(at, row[random.below(row.size())]);
      else if (k < row.size())
        std::swap(row[i], row[k]);
    }
}

/// Whether each compound has its parts, all of them passes or none, and none is part of another.
bool has_whole_compounds(schedule const& s) {
  for (auto const& row : s.ranks)
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (row[i].parts >= row.size() - i) return false;
      for (std::size_t part = 1; part <= row[i].parts; ++part)
        if (row[i + part].parts > 0 || is_compute(row[i + part].kind) != is_compute(row[i + 1].kind) ||
            row[i + part].kind == action_kind::idle)
          return false;
      if (is_compound(row[i]) && row[i].parts == 0) return false;
    }
  return true;
}

schedule tried_schedule(testing::rng& random) {
  for (;;) {
    auto s = some_program(random);
    if (!random.one_in(4)) damage(random, s);
    if (has_whole_compounds(s)) return s;
  }
}

simulate_options some_options(testing::rng& random, schedule const& s) {
  auto const part = [&] { return static_cast<double>(random.below(9)) / 4; };
  simulate_options o;
  if (random.one_in(2))
    for (std::size_t n = 0; n < s.place.stages(); ++n)
      o.costs.push_back({part(), part(), part(), part(), part(), part(), part(), part(), part()});
  o.hop = part();
  if (random.one_in(2)) o.links = {{part(), static_cast<double>(1 + random.below(3))}};
  if (random.one_in(2))
    for (std::size_t n = 0; n < s.place.edges.size(); ++n)
      o.bytes.push_back({random.below(4), random.below(4)});
  o.compounds = static_cast<compound_time>(random.below(3));
  o.messages = random.one_in(2) ? message_time::within : message_time::beside;
  if (random.one_in(3)) o.jitter = 0.5;
  return o;
}

}  // namespace

TEST_CASE("walk twins: the same schedules get stuck, with the same waits and circles, by every delivery") {
  testing::rng random(50);
  auto const deliveries = testing::every_delivery();
  std::size_t stuck = 0, circles = 0;
  for (std::size_t i = 0; i < rounds(); ++i) {
    CAPTURE(i);
    auto const s = tried_schedule(random);
    auto const& rules = deliveries[random.below(deliveries.size())];
    auto const found = find_deadlock(s, rules);
    REQUIRE(found == twins::find_deadlock(s, rules));
    stuck += found.has_value();
    circles += found && !found->circle.empty();
  }
  CHECK(stuck > rounds() / 4);
  CHECK(circles > rounds() / 8);
  CHECK(stuck < rounds() * 3 / 4);
}

TEST_CASE("walk twins: simulated schedules take the same times, or get stuck alike") {
  testing::rng random(51);
  std::size_t stuck = 0;
  for (std::size_t i = 0; i < rounds(); ++i) {
    CAPTURE(i);
    auto const s = tried_schedule(random);
    auto const o = some_options(random, s);
    auto const found = find_simulated_deadlock(s, o);
    REQUIRE(found == twins::find_simulated_deadlock(s, o));
    if (!found) REQUIRE(simulate(s, o) == twins::simulate(s, o));
    stuck += found.has_value();
  }
  CHECK(stuck > rounds() / 8);
  CHECK(stuck < rounds() * 7 / 8);
}

TEST_CASE("walk twins: schedules take the same steps, or do not progress at the same places") {
  testing::rng random(52);
  std::size_t stuck = 0;
  for (std::size_t i = 0; i < rounds(); ++i) {
    CAPTURE(i);
    auto const s = tried_schedule(random);
    twins::step_walk twin(s);
    auto const found = find_step_fault(s);
    REQUIRE(found == twins::find_fault_of(twin));
    if (!found) REQUIRE(simulate_steps(s).step_of == twin.take_steps());
    stuck += found && found->what == step_fault::kind::no_progress;
  }
  CHECK(stuck > rounds() / 8);
  CHECK(stuck < rounds() * 7 / 8);
}
