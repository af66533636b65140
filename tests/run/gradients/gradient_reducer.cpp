// SPDX-License-Identifier: MIT
#include "cleave/run/gradients/gradient_reducer.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "cleave/run/host/host_threads.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;

namespace {

using reducer = gradient_reducer<host_device, host_communicator>;

stage_id nth(std::uint32_t s) { return stage_id{s}; }

/// Several replicas of six stages on three ranks. Gradients 0 and 1 of a stage have one element, 2 and 3
/// have two.
struct replicated_ranks {
  static constexpr std::uint32_t ranks_in_each = 3, stages = 6, gradients = 4;

  std::uint32_t replicas;
  std::vector<tied_gradients> ties;
  std::vector<tie_set> sets;
  host_ranks ranks;
  std::deque<host_group> groups;
  std::deque<host_communicator> communicators;
  std::deque<host_device> devices;
  std::vector<std::vector<std::vector<double>>> numbers;  // by replica, stage * gradients + number
  std::vector<std::vector<std::vector<double>>> sums;
  std::deque<reducer> reducers;

  static std::uint32_t rank_of(std::uint32_t s) { return s / 2; }

  replicated_ranks(std::uint32_t count, std::vector<tied_gradients> tied, std::size_t bucket_bytes,
                   std::vector<gradient_bucket> const& buckets = {})
      : replicas(count), ties(std::move(tied)), sets(tie_sets_of(ties)), ranks(count * ranks_in_each) {
    numbers.resize(replicas);
    for (auto& of_replica : numbers)
      for (std::uint32_t g = 0; g < stages * gradients; ++g) of_replica.emplace_back(g % gradients / 2 + 1);
    std::vector<rank_id> place;
    for (std::uint32_t s = 0; s < stages; ++s) place.push_back(rank_id{rank_of(s)});
    std::vector<host_communicator*> with(ranks.count());
    for (std::uint32_t r = 0; r < ranks_in_each && replicas > 1; ++r) {
      std::vector<rank_id> members;
      for (std::uint32_t d = 0; d < replicas; ++d) members.push_back(rank_id{d * ranks_in_each + r});
      connect(members, with);
    }
    std::vector<std::vector<host_communicator*>> tied_with(sets.size(), with);
    for (std::size_t i = 0; i < sets.size(); ++i) {
      tied_with[i].assign(ranks.count(), nullptr);
      auto members = ranks_of(sets[i], place);
      if (members.size() < 2) continue;
      for (std::uint32_t d = 0; d < replicas; ++d) {
        auto here = members;
        for (auto& m : here) m = rank_id{d * ranks_in_each + index(m)};
        connect(here, tied_with[i]);
      }
    }
    for (std::uint32_t r = 0; r < ranks.count(); ++r) {
      std::vector<host_communicator*> mine;
      for (auto const& t : tied_with) mine.push_back(t[r]);
      reducers.emplace_back(devices.emplace_back(ranks, rank_id{r}), own_gradients(r), with[r], sets, mine,
                            bucket_rules{buckets, bucket_bytes});
    }
  }

  void connect(std::vector<rank_id> const& members, std::vector<host_communicator*>& with) {
    auto& group = groups.emplace_back(ranks, members);
    for (std::uint32_t m = 0; m < members.size(); ++m)
      with[index(members[m])] = &communicators.emplace_back(group, m);
  }

  std::vector<gradients_of_stage> own_gradients(std::uint32_t r) {
    std::vector<gradients_of_stage> own;
    for (std::uint32_t s = 0; s < stages; ++s) {
      if (rank_of(s) != r % ranks_in_each) continue;
      auto& of_stage = own.emplace_back(gradients_of_stage{nth(s), {}});
      for (std::uint32_t n = 0; n < gradients; ++n) {
        auto& g = numbers[r / ranks_in_each][s * gradients + n];
        of_stage.regions.push_back({g.data(), g.size(), element_type::f64});
      }
    }
    return own;
  }

  /// Sets new numbers everywhere, and their expected sums.
  void fill(rng& random) {
    std::vector<std::vector<double>> total(stages * gradients);
    for (auto& of_replica : numbers)
      for (std::size_t g = 0; g < of_replica.size(); ++g) {
        total[g].resize(of_replica[g].size());
        for (std::size_t i = 0; i < total[g].size(); ++i)
          total[g][i] += of_replica[g][i] = static_cast<double>(random.below(100));
      }
    for (auto const& t : ties) {
      std::vector<double> all(total[number_of(t[0])].size());
      for (auto const& g : t)
        for (std::size_t i = 0; i < all.size(); ++i) all[i] += total[number_of(g)][i];
      for (auto const& g : t) total[number_of(g)] = all;
    }
    sums.assign(replicas, total);
  }
  static std::size_t number_of(stage_gradient const& g) { return index(g.stage) * gradients + g.number; }

  /// Each rank calls `before_the_end` on its own thread and then ends the step.
  template <class F>
  void step(F before_the_end) {
    std::vector<std::thread> threads;
    for (std::uint32_t r = 0; r < ranks.count(); ++r)
      threads.emplace_back([&, r] {
        host_device::stream s;
        before_the_end(r, reducers[r], s);
        reducers[r].end_all(s);
      });
    for (auto& t : threads) t.join();
  }
};

/// Two sets contain the pair 0 -> 3; one is on a single rank; in one a stage has two copies.
std::vector<tied_gradients> many_ties() {
  return {{{nth(0), 0}, {nth(3), 0}},
          {{nth(0), 1}, {nth(3), 1}, {nth(5), 1}},
          {{nth(4), 2}, {nth(5), 2}},
          {{nth(1), 3}, {nth(2), 2}, {nth(2), 3}},
          {{nth(0), 2}, {nth(3), 2}}};
}

struct tie_call {
  stage_id from, to;
};

/// All tie calls of a rank, as in a schedule: set after set, each in the order of its stages.
std::vector<tie_call> tie_calls(replicated_ranks const& x, std::uint32_t r,
                                std::vector<std::size_t> const& order) {
  std::vector<tie_call> calls;
  for (auto const i : order) {
    auto const& stages = x.sets[i].stages;
    for (std::size_t k = 0; k < stages.size(); ++k)
      if (x.rank_of(index(stages[k])) == r % x.ranks_in_each)
        calls.push_back({stages[k], stages[(k + 1) % stages.size()]});
  }
  return calls;
}

}  // namespace

TEST_CASE("gradient_reducer: sums everything not yet begun at the end of each step") {
  rng random(61);
  for (std::uint32_t const replicas : {1u, 2u, 3u})
    for (std::size_t const bucket_bytes : {0u, 40u, 1000u}) {
      CAPTURE(replicas);
      CAPTURE(bucket_bytes);
      replicated_ranks x(replicas, many_ties(), bucket_bytes);
      for (int step = 0; step < 3; ++step) {
        x.fill(random);
        x.step([](std::uint32_t, reducer&, host_device::stream&) {});
        CHECK(x.numbers == x.sums);
      }
    }
}

TEST_CASE("gradient_reducer: gives the same sums however stages and ties are begun and ended") {
  rng random(62);
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    auto ties = many_ties();
    random.shuffle(ties);
    replicated_ranks x(static_cast<std::uint32_t>(1 + random.below(2)), ties, 8 * random.below(8));
    for (int step = 0; step < 2; ++step) {
      x.fill(random);
      std::vector<std::size_t> order(x.sets.size());
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
      random.shuffle(order);
      bool const any_order = random.one_in(2), ends = random.one_in(2);
      auto const seed = random.next();
      x.step([&](std::uint32_t r, reducer& mine, host_device::stream& s) {
        rng own(seed + r % x.ranks_in_each);  // replicas run the same program
        auto calls = tie_calls(x, r, order);
        if (any_order) own.shuffle(calls);
        std::vector<std::uint32_t> begun;
        for (std::uint32_t n = 0; n < x.stages; ++n)
          if (x.rank_of(n) == r % x.ranks_in_each && own.one_in(2)) begun.push_back(n);
        for (auto const n : begun) mine.begin_replicas(nth(n), s);
        for (auto const& c : calls) mine.begin_tie(c.from, c.to, s);
        if (!ends) return;
        for (auto const n : begun) mine.end_replicas(nth(n), s);
        for (auto const& c : calls) mine.end_tie(c.from, c.to, s);
      });
      CHECK(x.numbers == x.sums);
    }
  }
}

TEST_CASE("gradient_reducer: begins a tie set once all its stages on the rank are named, in any order") {
  rng random(63);
  // Stages 0 and 1 are on rank 0, which has the whole set; stage 0 has two copies.
  replicated_ranks x(1, {{{nth(0), 0}, {nth(0), 1}, {nth(1), 0}}}, 1000);
  host_device::stream s;
  auto& mine = x.reducers[0];
  for (std::uint32_t const first : {0u, 1u, 0u}) {
    x.fill(random);
    x.numbers[0][0][0] += 1;  // so that it cannot equal its sum by chance
    for (auto const& g : x.ties[0]) x.sums[0][x.number_of(g)][0] += 1;
    auto const before = x.numbers;
    mine.begin_tie(nth(first), nth(1 - first), s);
    mine.end_tie(nth(first), nth(1 - first), s);
    CHECK(x.numbers == before);
    mine.begin_tie(nth(1 - first), nth(first), s);
    mine.end_tie(nth(1 - first), nth(first), s);
    CHECK(x.numbers == x.sums);
    for (auto& r : x.reducers) r.end_all(s);
    CHECK(x.numbers == x.sums);
  }
}

TEST_CASE("gradient_reducer: a sum begins only once, and its result appears only when it ends") {
  rng random(64);
  replicated_ranks x(2, {}, 1000);
  x.fill(random);
  host_device::stream s;
  auto const before = x.numbers;
  for (auto& r : x.reducers) {
    r.begin_replicas(nth(0), s);
    r.begin_replicas(nth(0), s);
  }
  CHECK(x.numbers == before);
  for (auto& r : x.reducers) {
    r.end_replicas(nth(0), s);
    r.end_replicas(nth(0), s);
    r.begin_replicas(nth(0), s);
    r.end_replicas(nth(1), s);  // never begun
  }
  for (std::uint32_t g = 0; g < x.stages * x.gradients; ++g)
    for (std::uint32_t d = 0; d < 2; ++d)
      CHECK(x.numbers[d][g] == (g < x.gradients ? x.sums[d][g] : before[d][g]));
  x.step([](std::uint32_t, reducer&, host_device::stream&) {});
  CHECK(x.numbers == x.sums);
}

TEST_CASE("gradient_reducer: sums ties after the replicas of their stages, and begins those sums itself") {
  rng random(65);
  replicated_ranks x(2, {{{nth(2), 1}, {nth(3), 1}}}, 1000);
  x.fill(random);
  std::vector<std::thread> threads;
  for (std::uint32_t const r : {1u, 4u})
    threads.emplace_back([&, r] {
      host_device::stream s;
      x.reducers[r].begin_tie(nth(2), nth(3), s);
      x.reducers[r].begin_tie(nth(3), nth(2), s);
      x.reducers[r].end_tie(nth(2), nth(3), s);
    });
  for (auto& t : threads) t.join();
  for (std::uint32_t d = 0; d < 2; ++d)
    for (std::uint32_t g = 2 * x.gradients; g < 4 * x.gradients; ++g) CHECK(x.numbers[d][g] == x.sums[d][g]);
}

TEST_CASE("gradient_reducer: rejects a tie of a gradient that its stage does not have") {
  std::vector<tied_gradients> const ties{{{nth(0), 0}, {nth(3), 4}}};
  CHECK_THROWS_WITH_AS(replicated_ranks(1, ties, 0),
                       "ties: stage 3 has 4 gradients, but a tie names gradient #4; number them from 0",
                       tie_gradient_error);
  CHECK(find_missing_tied_gradient(tie_sets_of(ties)[0], nth(3), 4) == stage_gradient{nth(3), 4});
}

namespace {

/// A communicator of one rank that lists the sums that begin, and by how many elements.
struct listing_communicator {
  std::vector<std::pair<std::uint32_t, std::size_t>>* begun;

  rank_id rank() const { return rank_id{0}; }
  std::uint32_t size() const { return 2; }
  void begin_group() {}
  void send(region, message const&, host_device::stream&) {}
  void receive(region, message const&, host_device::stream&) {}
  void all_reduce(region r, reduce_op, std::uint32_t number, host_device::stream&) {
    begun->emplace_back(number, r.count);
  }
  void end_group(host_device::event&, host_device::stream&) {}
  std::optional<failure> poll() const { return {}; }
  void abort(failure const&) noexcept {}
};

}  // namespace

TEST_CASE("gradient_reducer: a bucket begins with the report of its last gradient, after those before it") {
  rng random(66);
  for (int round = 0; round < 100; ++round) {
    CAPTURE(round);
    host_ranks ranks(1);
    host_device d(ranks, rank_id{0});
    host_device::stream s;
    std::vector<std::pair<std::uint32_t, std::size_t>> begun;
    listing_communicator with{&begun};

    auto const gradients = static_cast<std::uint32_t>(1 + random.below(8));
    std::deque<std::vector<double>> memory;
    gradients_of_stage own{nth(0), {}};
    for (std::uint32_t n = 0; n < gradients; ++n) {
      auto& m = memory.emplace_back(2 * (1 + random.below(3)));
      own.regions.push_back({m.data(), m.size(), element_type::f64});
    }
    std::vector<std::uint32_t> order(gradients);
    for (std::uint32_t n = 0; n < gradients; ++n) order[n] = n;
    random.shuffle(order);
    std::vector<gradient_bucket> plan{{nth(0), {}}};
    for (auto const n : order) {
      if (random.one_in(2)) plan.push_back({nth(0), {}});
      plan.back().gradients.push_back(n);
    }
    std::erase_if(plan, [](auto const& b) { return b.gradients.empty(); });
    gradient_reducer<host_device, listing_communicator> mine(d, std::span(&own, 1), &with, {}, {},
                                                             bucket_rules{plan, 1});
    for (int step = 0; step < 2; ++step) {
      begun.clear();
      random.shuffle(order);
      std::vector<char> reported(gradients);
      for (auto const n : std::span(order).first(random.below(gradients + 1))) {
        reported[n] = 1;
        mine.report(nth(0), n, s);
        if (random.one_in(4)) mine.report(nth(0), n, s);  // again
        std::size_t complete = 0;
        while (complete < plan.size() &&
               std::ranges::all_of(plan[complete].gradients, [&](auto k) { return reported[k] != 0; }))
          ++complete;
        CHECK(begun.size() == complete);
      }
      mine.report(nth(5), 0, s);  // of another rank
      mine.begin_replicas(nth(0), s);
      REQUIRE(begun.size() == plan.size());
      for (std::uint32_t b = 0; b < begun.size(); ++b) {
        CHECK(begun[b].first == b);
        std::size_t count = 0;
        for (auto const n : plan[b].gradients) count += memory[n].size();
        CHECK(begun[b].second == count);
      }
      mine.end_all(s);
      CHECK(begun.size() == plan.size());
    }
    CHECK_THROWS_WITH_AS(mine.report(nth(0), gradients, s), doctest::Contains("number them from 0"), error);
  }
}

TEST_CASE("gradient_reducer: gives the same sums however replicas report their gradients") {
  rng random(67);
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    std::vector<gradient_bucket> buckets;
    for (std::uint32_t const s : {1u, 0u, 4u})
      if (random.one_in(2)) buckets.push_back({nth(s), {2, static_cast<std::uint32_t>(random.below(2))}});
    replicated_ranks x(static_cast<std::uint32_t>(1 + random.below(3)), many_ties(), 8 * random.below(8),
                       buckets);
    for (int step = 0; step < 2; ++step) {
      x.fill(random);
      auto const seed = random.next();
      x.step([&](std::uint32_t r, reducer& mine, host_device::stream& s) {
        rng own(seed + r);  // replicas report in different orders
        for (std::uint32_t n = 0; n < x.stages; ++n) {
          if (x.rank_of(n) != r % x.ranks_in_each) continue;
          for (auto left = own.below(6); left > 0; --left)
            mine.report(nth(n), static_cast<std::uint32_t>(own.below(x.gradients)), s);
          mine.begin_replicas(nth(n), s);
        }
      });
      CHECK(x.numbers == x.sums);
    }
  }
}
