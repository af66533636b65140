// SPDX-License-Identifier: MIT
#include "cleave/partition/slices/slicing.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "cleave/partition/units/topological_orders.hpp"
#include "cleave/partition/units/units.hpp"
#include "support/cases.hpp"
#include "support/random_graph.hpp"
#include "support/rng.hpp"

namespace {

using index_type = std::uint32_t;
using cleave::testing::rng;

/// A random order with its costs, and the cost of each slice by definition.
struct sample {
  cleave::unit_costs<index_type> costs;
  cleave::detail::slicing_task<index_type> task;

  sample(rng& r, std::size_t stages) {
    auto const g = random_graph(r, {.nodes = 1 + stages + r.below(25),
                                    .reach = r.one_in(2) ? 6u : 0u,
                                    .most_weight = r.below(20),
                                    .most_bytes = r.below(60),
                                    .states = 5});
    auto const u = cleave::detail::units_of(g);
    std::vector<double> speed;
    for (std::size_t s = 0; s < stages; ++s) speed.push_back(r.one_in(3) ? 2 : 1);
    costs = cleave::costs_of(g, u, static_cast<std::uint32_t>(stages), {.speed = speed});
    std::vector<index_type> order(u.size());
    std::iota(order.begin(), order.end(), 0u);
    r.shuffle(order);  // slices of any order have costs, topological or not
    auto const n = static_cast<index_type>(order.size());
    task.pairs = cleave::detail::pairs_of<index_type>(costs, order);
    task.speed_of = costs.speed_of;
    for (auto const& weight : costs.weight) {
      auto& before = task.before.emplace_back(1);
      for (auto const unit : order) before.push_back(before.back() + weight[unit]);
    }
    if (r.one_in(2)) {
      auto const memory = cleave::detail::memory_of(g, u);
      for (int row = 0; row < 2; ++row)
        task.fitting.push_back(cleave::detail::first_fitting<index_type>(memory, order, 20 + r.below(200)));
      for (std::size_t s = 0; s < stages; ++s)
        task.limit_of.push_back(static_cast<std::uint32_t>(r.below(2)));
    }
    task.may_be_empty = r.one_in(3);
    for (index_type s = 0; s <= stages; ++s) {
      auto const gap = task.may_be_empty ? 0 : 1u;
      task.low.push_back(s == stages ? n : s * gap);
      task.high.push_back(s == 0 ? 0 : static_cast<index_type>(n - (stages - s) * gap));
    }
    place_.resize(n);
    for (index_type i = 0; i < n; ++i) place_[order[i]] = i;
  }

  std::int64_t load(std::size_t s, index_type begin, index_type end) const {
    std::int64_t sum = task.before[task.speed_of[s]][end] - task.before[task.speed_of[s]][begin];
    for (std::size_t v = 0; v < costs.transfer.size(); ++v) {
      auto const inside = std::ranges::count_if(
          costs.touching[v], [&](auto u) { return place_[u] >= begin && place_[u] < end; });
      if (inside != 0 && inside != static_cast<std::ptrdiff_t>(costs.touching[v].size()))
        sum += costs.transfer[v];
    }
    return sum;
  }

  /// The least bottleneck, from every begin of every slice.
  std::int64_t optimum() const {
    auto const n = static_cast<index_type>(task.units());
    std::vector<std::int64_t> least(n + std::size_t{1}, cleave::detail::unreachable_load), next;
    least[0] = 0;
    for (std::size_t s = 0; s < task.parts(); ++s) {
      next.assign(least.size(), cleave::detail::unreachable_load);
      for (index_type end = task.low[s + 1]; end <= task.high[s + 1]; ++end)
        for (index_type begin = task.low[s]; begin <= end; ++begin)
          if (least[begin] != cleave::detail::unreachable_load && (begin < end || task.may_be_empty) &&
              task.fits_from(s, end) <= begin)
            next[end] = std::min(next[end], std::max(least[begin], load(s, begin, end)));
      least.swap(next);
    }
    return least[n];
  }

 private:
  std::vector<index_type> place_;
};

}  // namespace

TEST_CASE("slicer: load() equals the cost of a slice by definition") {
  rng r(1);
  for (int i = 0; i < 60; ++i) {
    sample const x(r, 2);
    cleave::detail::slicer<index_type> const s(x.task);
    auto const n = static_cast<index_type>(x.task.units());
    for (index_type begin = 0; begin < n; ++begin)
      for (index_type end = begin + 1; end <= n; ++end)
        REQUIRE(s.load(1, begin, end) == x.load(1, begin, end));
  }
}

TEST_CASE("slicer: slices_within() succeeds exactly from the optimum on, and below it gives a valid bound") {
  rng r(2);
  int refused = 0;
  auto const rounds = static_cast<int>(cleave::testing::cases(140, 400));
  for (int i = 0; i < rounds; ++i) {
    sample const x(r, 1 + r.below(6));
    auto const optimum = x.optimum();
    cleave::detail::slicer<index_type> s(x.task);
    auto const most =
        std::min<std::int64_t>(optimum == cleave::detail::unreachable_load ? 300 : optimum, 2000);
    for (std::int64_t bound = 0; bound <= most + 5; bound += 1 + most / 40) {
      auto const found = s.slices_within(bound);
      REQUIRE(found.at.has_value() == (bound >= optimum));
      if (found.at) {
        for (std::size_t stage = 0; stage < x.task.parts(); ++stage)
          REQUIRE(x.load(stage, (*found.at)[stage], (*found.at)[stage + 1]) <= bound);
      } else {
        REQUIRE(found.none_below > bound);
        REQUIRE(found.none_below <= optimum);
        ++refused;
      }
    }
  }
  CHECK(refused > rounds * 5 / 2);
}

TEST_CASE("best_slices: finds the optimum, and nothing if asked for less") {
  rng r(3);
  int infeasible = 0;
  auto const rounds = static_cast<int>(cleave::testing::cases(270, 800));
  for (int i = 0; i < rounds; ++i) {
    sample const x(r, 1 + r.below(6));
    auto const optimum = x.optimum();
    auto const best = cleave::detail::best_slices(x.task, 0);
    infeasible += !best;
    REQUIRE((best ? best->load : cleave::detail::unreachable_load) == optimum);
    if (!best) continue;
    std::int64_t most = 0;
    for (std::size_t s = 0; s < x.task.parts(); ++s) {
      REQUIRE(x.task.fits_from(s, best->at[s + 1]) <= best->at[s]);
      most = std::max(most, x.load(s, best->at[s], best->at[s + 1]));
    }
    REQUIRE(most == optimum);
    REQUIRE(!cleave::detail::best_slices(x.task, 0, optimum));
    REQUIRE(cleave::detail::best_slices(x.task, 0, optimum + 1)->load == optimum);
  }
  CHECK(infeasible > rounds / 80);
  CHECK(infeasible < rounds / 2);
}

TEST_CASE("slicer: improved() never worsens slices and keeps them legal") {
  rng r(4);
  for (std::size_t i = 0; i < cleave::testing::cases(70, 200); ++i) {
    sample const x(r, 2 + r.below(4));
    cleave::detail::slicer<index_type> s(x.task);
    auto const any = s.slices_within(cleave::detail::unreachable_load - 1);
    if (!any.at) continue;
    std::int64_t before = 0;
    for (std::size_t stage = 0; stage < x.task.parts(); ++stage)
      before = std::max(before, x.load(stage, (*any.at)[stage], (*any.at)[stage + 1]));
    auto const better = s.improved(*any.at);
    REQUIRE(better.load <= before);
    REQUIRE(better.load >= x.optimum());
    for (std::size_t stage = 0; stage < x.task.parts(); ++stage) {
      REQUIRE(x.load(stage, better.at[stage], better.at[stage + 1]) <= better.load);
      REQUIRE(x.task.fits_from(stage, better.at[stage + 1]) <= better.at[stage]);
    }
  }
}
