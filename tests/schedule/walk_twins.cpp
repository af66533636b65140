// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "cleave/schedule/lower/group_messages.hpp"
#include "cleave/schedule/lower/lower.hpp"
#include "cleave/schedule/model/list_runner.hpp"
#include "cleave/schedule/simulate/simulate.hpp"
#include "cleave/schedule/simulate/step_simulation.hpp"
#include "cleave/schedule/verify/deadlock.hpp"
#include "support/cases.hpp"
#include "support/event_run.hpp"
#include "support/plain_lowering.hpp"
#include "support/queue_run.hpp"
#include "support/rng.hpp"
#include "support/some_schedule.hpp"
#include "support/step_run.hpp"
#include "support/thread_run.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

std::size_t rounds(std::size_t usual) { return testing::cases(usual / 6, 10 * usual); }

/// A random schedule, without messages or with one of several kinds of them.
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

enum class repeats : std::uint8_t { none, some };

/// Swaps, removes or repeats some actions.
void damage(testing::rng& random, schedule& s, repeats repeated) {
  for (auto& row : s.ranks)
    for (auto n = random.below(3); n > 0 && row.size() > 1; --n) {
      auto const i = random.below(row.size()), k = random.one_in(2) ? random.below(row.size()) : i + 1;
      auto const at = row.begin() + static_cast<std::ptrdiff_t>(i);
      if (random.one_in(8))
        row.erase(at);
      else if (repeated == repeats::some && random.one_in(8))
        row.insert(at, row[random.below(row.size())]);
      else if (k < row.size())
        std::swap(row[i], row[k]);
    }
}

/// Returns true if each compound has all its parts, and no part is a compound or an idle step.
bool has_whole_compounds(schedule const& s) {
  for (auto const& row : s.ranks)
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (row[i].parts >= row.size() - i) return false;
      for (std::size_t part = 1; part <= row[i].parts; ++part)
        if (row[i + part].parts > 0 || row[i + part].kind == action_kind::idle) return false;
      if (is_compound(row[i]) && row[i].parts == 0) return false;
    }
  return true;
}

/// Returns true if a compound begins with a message.
bool has_exchanges(schedule const& s) {
  for (auto const& row : s.ranks)
    for (std::size_t i = 0; i < row.size(); ++i)
      if (row[i].parts > 0 && is_message(row[i + 1].kind)) return true;
  return false;
}

/// Returns true if a compound mixes messages with other actions. Threads cannot run such a compound.
bool has_mixed_compounds(schedule const& s) {
  auto const is_end = [](action const& a) { return is_send(a.kind) || is_receive(a.kind); };
  for (auto const& row : s.ranks)
    for (std::size_t i = 0; i < row.size(); ++i)
      for (std::size_t part = 2; part <= row[i].parts; ++part)
        if (is_end(row[i + part]) != is_end(row[i + 1])) return true;
  return false;
}

schedule tried_schedule(testing::rng& random, repeats repeated = repeats::none) {
  for (;;) {
    auto s = some_program(random);
    if (!random.one_in(4)) damage(random, s, repeated);
    if (has_whole_compounds(s)) return s;
  }
}

simulate_options some_options(testing::rng& random, schedule const& s) {
  auto const part = [&] { return static_cast<double>(random.below(9)) / 4; };
  simulate_options o;
  if (random.one_in(2))
    for (std::size_t n = 0; n < s.place.stages(); ++n)
      o.costs.push_back({part(), part(), part(), part(), part(), part(), part(), part(), part()});
  o.base_latency = part();
  if (random.one_in(2)) o.links = {{part(), static_cast<double>(1 + random.below(3))}};
  if (random.one_in(2))
    for (std::size_t n = 0; n < s.place.edges.size(); ++n)
      o.bytes.push_back({random.below(4), random.below(4)});
  o.compounds = static_cast<compound_time>(random.below(3));
  o.messages = random.one_in(2) ? message_time::within : message_time::overlapped;
  if (random.one_in(3)) o.noise = 0.5;
  return o;
}

/// Returns true if the awaited action is still ahead of its rank. `at` holds the position of each rank.
bool is_to_come(schedule const& s, std::vector<std::size_t> const& at, waiting_action const& w) {
  auto const r = index(w.for_rank);
  return std::any_of(s.ranks[r].begin() + static_cast<std::ptrdiff_t>(at[r]), s.ranks[r].end(),
                     [&](action a) {
                       bool const is_half = a.kind == action_kind::input_gradient;
                       if (is_half && w.for_what.kind == action_kind::backward) a.kind = w.for_what.kind;
                       return a == w.for_what;
                     });
}

/// Returns the length of the shortest cycle of these waits, one per rank; 0 if there is none.
std::size_t shortest_circle(schedule const& s, std::vector<std::size_t> const& at,
                            std::vector<waiting_action> const& waits) {
  auto shortest = waits.size() + 1;
  for (auto const& first : waits) {
    auto w = std::ranges::find(waits, first.rank, &waiting_action::rank);
    for (std::size_t length = 1; length < shortest && is_to_come(s, at, *w); ++length) {
      if (w->for_rank == first.rank)
        shortest = length;
      else
        w = std::ranges::find(waits, w->for_rank, &waiting_action::rank);
    }
  }
  return shortest > waits.size() ? 0 : shortest;
}

/// Returns true if each action waits for one that is still ahead of the next rank.
bool is_circle(schedule const& s, std::vector<std::size_t> const& at, std::vector<waiting_action> const& c) {
  for (std::size_t i = 0; i < c.size(); ++i)
    if (c[i].for_rank != c[(i + 1) % c.size()].rank || !is_to_come(s, at, c[i])) return false;
  return true;
}

/// Returns the position of each rank.
std::vector<std::size_t> positions(schedule const& s, std::vector<waiting_action> const& waits) {
  auto at = lengths_of(s.ranks);
  for (auto const& w : waits) at[index(w.rank)] = w.position;
  return at;
}

}  // namespace

TEST_CASE("find_deadlock: verdicts match runs on threads, for random schedules and deliveries") {
  testing::rng random(50);
  std::size_t stuck = 0, tried = 0;
  for (std::size_t i = 0; i < rounds(200); ++i) {
    CAPTURE(i);
    auto const& rules = testing::all_deliveries[random.below(std::size(testing::all_deliveries))];
    // Streams of threads cannot distinguish repeated messages.
    auto const s =
        tried_schedule(random, rules.delivery == delivery::pair_stream ? repeats::none : repeats::some);
    if (has_mixed_compounds(s)) continue;
    CAPTURE(static_cast<int>(rules.delivery));
    CAPTURE(rules.buffers);
    auto const verdict = deadlock_verdict(s, rules);
    REQUIRE(verdict == testing::thread_run(s, rules).verdict());
    stuck += verdict != "finishes";
    ++tried;
  }
  CHECK(stuck > tried / 4);
  CHECK(stuck < tried * 3 / 4);
}

TEST_CASE("find_deadlock: with repeated messages, verdicts match naive queues, and cycles are valid") {
  testing::rng random(53);
  std::size_t stuck = 0, circles = 0, tried = 0;
  for (std::size_t i = 0; i < rounds(2'000); ++i) {
    CAPTURE(i);
    auto const s = tried_schedule(random, repeats::some);
    auto const d = static_cast<delivery>(random.below(4));
    CAPTURE(static_cast<int>(d));
    bool const has_messages = schedule_dependencies(s).messages();
    if (!has_messages || has_exchanges(s)) continue;
    auto const verdict = deadlock_verdict(s, d);
    REQUIRE(verdict == testing::queue_run(s, d).verdict());
    if (auto const found = find_deadlock(s, d); found && d != delivery::pair_stream) {
      // A rank may have more waits than the one listed, so that the cycle may be shorter.
      auto const at = positions(s, found->waiting);
      auto const most = shortest_circle(s, at, found->waiting);
      REQUIRE(is_circle(s, at, found->cycle));
      if (most > 0) REQUIRE(found->cycle.size() <= most);
      if (most > 0) REQUIRE_FALSE(found->cycle.empty());
      circles += most > 0;
    }
    stuck += verdict != "finishes";
    ++tried;
  }
  CHECK(stuck > tried / 4);
  CHECK(circles > tried / 8);
  CHECK(stuck < tried * 3 / 4);
}

TEST_CASE("simulate: times and deadlocks match a naive event simulation, for damaged schedules") {
  testing::rng random(51);
  std::size_t stuck = 0, circles = 0;
  for (std::size_t i = 0; i < rounds(2'000); ++i) {
    CAPTURE(i);
    auto const s = tried_schedule(random);
    auto o = some_options(random, s);
    // With sizes, messages leave in the order in which their ends meet; `simulate` assumes the order of
    // sends.
    if (o.messages == message_time::overlapped) o.bytes.clear();
    testing::event_run const plain(s, o);
    auto const found = find_simulated_deadlock(s, o);
    REQUIRE(found.has_value() == plain.stuck);
    if (found) {
      std::vector<std::pair<rank_id, std::size_t>> waits;
      for (auto const& w : found->waiting) waits.push_back({w.rank, w.position});
      REQUIRE(waits == plain.waits());
      REQUIRE(is_circle(s, plain.positions(), found->cycle));
      REQUIRE(found->cycle.size() == shortest_circle(s, plain.positions(), found->waiting));
      ++stuck;
      circles += !found->cycle.empty();
    } else {
      testing::check_same_times(simulate(s, o), plain);
    }
  }
  CHECK(stuck > rounds(2'000) / 8);
  CHECK(circles > rounds(2'000) / 16);
  CHECK(stuck < rounds(2'000) * 7 / 8);
}

TEST_CASE("simulate_steps: rows and faults match a naive step simulation, for damaged schedules") {
  testing::rng random(52);
  std::size_t stuck = 0, repeated = 0;
  for (std::size_t i = 0; i < rounds(2'000); ++i) {
    CAPTURE(i);
    auto const s = tried_schedule(random, repeats::some);
    auto const found = find_step_fault(s);
    testing::step_run plain(s);
    if (auto const again = plain.repeated()) {
      REQUIRE(found == step_fault{step_fault::kind::repeated, {*again}});
      ++repeated;
    } else if (auto const waits = plain.run(); !waits.empty()) {
      REQUIRE(found == step_fault{step_fault::kind::no_progress, waits});
      ++stuck;
    } else {
      REQUIRE_FALSE(found);
      auto const rows = step_rows(s, simulate_steps(s));
      for (std::size_t r = 0; r < rows.size(); ++r) REQUIRE(row_text(rows[r]) == plain.rows()[r]);
    }
  }
  CHECK(stuck > rounds(2'000) / 8);
  CHECK(repeated > rounds(2'000) / 20);
  CHECK(stuck + repeated < rounds(2'000) * 7 / 8);
}
