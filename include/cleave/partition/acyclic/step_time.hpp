// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/dense.hpp"
#include "cleave/partition/acyclic/coarsen.hpp"
#include "cleave/partition/acyclic/state.hpp"
#include "cleave/partition/model/partition.hpp"
#include "cleave/partition/units/units.hpp"

namespace cleave::detail {

/// Asks a callable how long a step takes with some parts, each question once, and never more often than
/// allowed.
template <std::unsigned_integral Index, class StepTime>
class step_timer {
 public:
  step_timer(basic_dense<Index> const& g, unit_graph<Index> const& units, StepTime& time, std::size_t most)
      : g_(g), units_(units), time_(time), left_(most) {}

  bool may_ask() const { return left_ > 0; }
  std::size_t asked() const { return asked_; }
  /// \throws error where the answer is no number.
  double operator()(std::span<std::uint32_t const> of) {
    partition p{std::vector<part_id>(g_.nodes(), no_part), 0};
    for (std::size_t u = 0; u < of.size(); ++u) {
      for (Index const n : units_.members[u]) p.of[n] = part_id{of[u]};
      p.parts = (std::max)(p.parts, of[u] + 1);
    }
    ++asked_;
    left_ -= left_ > 0;
    double const seconds = time_(std::as_const(p));
    if (!(seconds >= 0))
      throw error("partition_acyclic: the time of a step is " + std::to_string(seconds) +
                  ": it must be a number, not negative");
    return seconds;
  }

 private:
  basic_dense<Index> const& g_;
  unit_graph<Index> const& units_;
  StepTime& time_;
  std::size_t left_, asked_ = 0;
};

/// Moves clusters to neighbouring parts as long as a step then takes less time: some large ones first,
/// smaller ones later, until no more may be asked. The parts, and the time of a step with them.
template <std::unsigned_integral Index, class Timer>
std::pair<std::vector<std::uint32_t>, double> shortened_step(acyclic_level<Index> const& finest,
                                                             acyclic_limits const& limits,
                                                             std::vector<std::uint32_t> of, double least,
                                                             Timer& timer, std::uint64_t seed) {
  for (std::size_t const enough : {8u, 64u, 512u}) {
    auto const sum_of = [](auto const& weights) {
      std::int64_t sum = 0;
      for (auto const w : weights) sum += w;
      return sum;
    };
    auto const h = coarsened<Index>(finest, {.part = of,
                                             .enough = enough * limits.parts(),
                                             .most_weight = sum_of(finest.weight[0]) / limits.parts() / 2,
                                             .seed = seed});
    auto const& level = h.levels.empty() ? finest : h.levels.back();
    std::vector<Index> cluster(finest.units());
    for (std::size_t u = 0; u < cluster.size(); ++u) {
      cluster[u] = static_cast<Index>(u);
      for (auto const& next : h.cluster) cluster[u] = next[cluster[u]];
    }
    std::vector<std::uint32_t> coarse(level.units());
    for (std::size_t u = 0; u < of.size(); ++u) coarse[cluster[u]] = of[u];
    acyclic_state<Index> state(level, limits, std::move(coarse));
    auto const fine = [&] {
      for (std::size_t u = 0; u < of.size(); ++u) of[u] = state.of()[cluster[u]];
      return std::span<std::uint32_t const>(of);
    };
    for (bool better = true; better && timer.may_ask();) {
      better = false;
      for (std::size_t u = 0; u < level.units() && timer.may_ask(); ++u) {
        auto const here = state.of()[u];
        auto const [first, last] = state.range(u);
        for (auto const to : {here + 1, here - 1}) {  // below 0 wraps around, beyond last
          if (to < first || to > last || !state.may_leave(u) || !state.fits(u, to) || !timer.may_ask())
            continue;
          state.move(u, to);
          if (double const now = timer(fine()); now < least) {
            least = now;
            better = true;
            break;
          }
          state.move(u, here);
        }
      }
    }
    fine();
  }
  return {std::move(of), least};
}

}  // namespace cleave::detail
