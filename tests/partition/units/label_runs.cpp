// SPDX-License-Identifier: MIT
#include "cleave/partition/units/part_cycles.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "support/cases.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

struct labelled_table {
  csr<std::uint32_t> predecessors;
  std::vector<std::uint32_t> label;
};

/// Rows in no particular order: row i of a random acyclic table is `place[i]` of the result.
labelled_table random_table(testing::rng& random, std::size_t rows, std::uint32_t labels, std::size_t most) {
  std::vector<std::uint32_t> place(rows);
  for (std::uint32_t i = 0; i < rows; ++i) place[i] = i;
  random.shuffle(place);
  std::vector<std::vector<std::uint32_t>> predecessors(rows);
  for (std::size_t i = 1; i < rows; ++i)
    for (auto count = random.below(most + 1); count-- > 0;)
      predecessors[place[i]].push_back(place[random.below(i)]);
  labelled_table t;
  for (auto& list : predecessors) {
    std::ranges::sort(list);
    list.erase(std::unique(list.begin(), list.end()), list.end());
    for (auto const m : list) t.predecessors.add(m);
    t.predecessors.close();
    t.label.push_back(static_cast<std::uint32_t>(random.below(labels)));
  }
  return t;
}

/// The fewest runs over all orders, by the set of finished rows and the last label.
std::size_t brute_force(labelled_table const& t, std::uint32_t labels) {
  auto const rows = t.label.size();
  std::size_t const never = rows + 1;
  std::vector<std::vector<std::size_t>> least(std::size_t{1} << rows, std::vector(labels, never));
  std::size_t best = rows == 0 ? 0 : never;
  for (std::size_t done = 0; done < least.size(); ++done)
    for (std::uint32_t last = 0; last < labels; ++last) {
      auto const runs = done == 0 ? 0 : least[done][last];
      if (runs == never) continue;
      if (done + 1 == least.size()) best = std::min(best, runs);
      for (std::size_t n = 0; n < rows; ++n) {
        bool ready = (done >> n & 1) == 0;
        for (auto const m : t.predecessors[n]) ready = ready && (done >> m & 1) != 0;
        auto& to = least[done | std::size_t{1} << n][t.label[n]];
        if (ready) to = std::min(to, runs + (done == 0 || t.label[n] != last ? 1 : 0));
      }
    }
  return best;
}

void check_order(labelled_table const& t, label_runs<std::uint32_t> const& r) {
  std::vector<std::size_t> place(t.label.size(), t.label.size());
  for (std::size_t i = 0; i < r.rows.item.size(); ++i) place[r.rows.item[i]] = i;
  REQUIRE(r.rows.item.size() == t.label.size());
  REQUIRE(r.rows.rows() == r.label.size());
  for (std::size_t n = 0; n < place.size(); ++n) {
    REQUIRE(place[n] < place.size());
    for (auto const m : t.predecessors[n]) REQUIRE(place[m] < place[n]);
  }
  for (std::size_t i = 0; i < r.label.size(); ++i) {
    REQUIRE(!r.rows[i].empty());
    for (auto const n : r.rows[i]) REQUIRE(t.label[n] == r.label[i]);
    if (i > 0) REQUIRE(r.label[i - 1] != r.label[i]);
  }
  CHECK(r.least <= r.label.size());
}

}  // namespace

TEST_CASE("fewest_label_runs: equals the brute force over all orders and proves it") {
  testing::rng random(21);
  auto const rounds = testing::cases(1000, 3000);
  for (std::size_t round = 0; round < rounds; ++round) {
    auto const labels = static_cast<std::uint32_t>(1 + random.below(4));
    auto const t = random_table(random, random.below(11), labels, 1 + random.below(3));
    auto const r = fewest_label_runs(t.predecessors, t.label, labels);
    check_order(t, r);
    CHECK(r.label.size() == brute_force(t, labels));
    CHECK(r.least == r.label.size());
  }
}

TEST_CASE(
    "fewest_label_runs: without a search the result is not below the optimum, and the bound not above") {
  testing::rng random(22);
  std::size_t fewest = 0, proven = 0;
  auto const rounds = testing::cases(700, 2000);
  for (std::size_t round = 0; round < rounds; ++round) {
    auto const labels = static_cast<std::uint32_t>(2 + random.below(3));
    auto const t = random_table(random, 10, labels, 1 + random.below(3));
    auto const r = fewest_label_runs(t.predecessors, t.label, labels, {.steps = 0});
    check_order(t, r);
    auto const best = brute_force(t, labels);
    CHECK(r.label.size() >= best);
    CHECK(r.least <= best);
    fewest += r.label.size() == best;
    proven += r.least == r.label.size();
  }
  CHECK(fewest > rounds / 10 * 8);
  CHECK(proven > rounds / 2);
}

TEST_CASE("fewest_label_runs: gives legal orders of long tables and the exact runs of a chain") {
  testing::rng random(23);
  for (std::size_t round = 0; round < testing::cases(7, 20); ++round) {
    auto const t = random_table(random, 300, 5, 2);
    check_order(t, fewest_label_runs(t.predecessors, t.label, std::uint32_t{5}));
  }
  labelled_table chain;
  auto const rows = testing::cases(50'000, 100'000);
  for (std::uint32_t n = 0; n < rows; ++n) {
    if (n > 0) chain.predecessors.add(n - 1);
    chain.predecessors.close();
    chain.label.push_back(n / 3 % 7);
  }
  auto const r = fewest_label_runs(chain.predecessors, chain.label, std::uint32_t{7});
  check_order(chain, r);
  CHECK(r.label.size() == (rows + 2) / 3);
  CHECK(r.least == r.label.size());
}
