// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "cleave/core/fixed_point.hpp"
#include "cleave/partition/exact/backbone.hpp"
#include "cleave/partition/exact/backbone_cuts.hpp"
#include "cleave/partition/units/mirrored.hpp"
#include "cleave/partition/units/unit_costs.hpp"

namespace cleave::detail {

/// How closely a backbone bound looks.
struct backbone_options {
  std::size_t places = 128;              ///< of the chain; their square bounds the flows
  std::size_t most_steps = 200'000'000;  ///< about: up to a second
};

struct backbone_answer {
  std::int64_t bound;
  std::size_t steps;  ///< that it took
};

/// Looks for the least bound that parts between places of a backbone allow; `backbone_bound` is its one use.
///
/// A part costs at least the time that it has for sure. Only where parts between some places would meet a
/// bound is it asked what these pay besides: most are never asked.
template <std::unsigned_integral Index>
class backbone_search {
 public:
  backbone_search(unit_costs<Index> const& c, std::span<Index const> order, backbone const& b,
                  std::int64_t below, std::size_t most_steps)
      : weight_(c.weight[c.fastest]),
        parts_(c.speed_of.size()),
        b_(b),
        cuts_(c, weight_, b),
        places_(static_cast<std::size_t>(b.size) + 3),
        most_steps_(most_steps) {
    if (c.weight.size() == 1) all_ = std::accumulate(weight_.begin(), weight_.end(), std::int64_t{});
    from_place_.resize(places_ - 1);
    for (Index const u : order) from_place_[static_cast<std::size_t>(b.in_from[u])].push_back(u);
    note_times(below);
  }

  /// The least bound from `low` on that is allowed, at most `high`.
  backbone_answer least(std::int64_t low, std::int64_t high) {
    while (low < high) {
      auto const middle = low + (high - low) / 2;
      allows(middle) ? high = middle : low = middle + 1;
    }
    return {low, steps_};
  }

 private:
  struct part_cost {
    std::int64_t load, transfers = 0;
    bool known = false;  // else it may pay more
  };

  /// Parts from place 0 of the table (-1 of the chain) on; those that take `below` or more are left out.
  void note_times(std::int64_t below) {
    row_.push_back(0);
    for (std::size_t from = 0; from < places_; ++from) {
      std::int64_t time = 0;
      for (auto to = from; to < places_; ++to) {
        if (to > from) time += time_between(from, to);
        if (time >= below) break;
        costs_.push_back({time, 0, to == from});
      }
      row_.push_back(costs_.size());
    }
  }
  static std::int32_t chain_place(std::size_t place) { return static_cast<std::int32_t>(place) - 1; }
  template <class F>
  void each_new(std::size_t from, std::size_t to, F f) const {
    for (Index const u : from_place_[to - 1])
      if (b_.has(u, chain_place(from), chain_place(to))) f(u);
  }
  std::int64_t time_between(std::size_t from, std::size_t to) const {
    std::int64_t time = 0;
    each_new(from, to, [&](Index u) { time += weight_[u]; });
    return time;
  }

  /// Whether parts from the first place to the last can pay at most `bound` each, as far as is known of those
  /// parts that would do so best.
  bool allows(std::int64_t bound) {
    while (reach(bound)) {
      bool met_unknown = false;
      auto to = places_ - 1;
      for (auto s = parts_; s-- > 0; to = before_[s * places_ + to])
        met_unknown |= ask(before_[s * places_ + to], to);
      if (!met_unknown) return true;
    }
    return false;
  }

  /// Whether transfers are few enough for all parts; then `before_` says where each begins.
  bool reach(std::int64_t bound) {
    least_.assign(places_, unreachable_load);
    least_[0] = 0;
    before_.resize(parts_ * places_);
    for (std::size_t s = 0; s < parts_; ++s) {
      next_.assign(places_, unreachable_load);
      for (std::size_t from = 0; from < places_; ++from)
        for (auto i = row_[from]; least_[from] < unreachable_load && i < row_[from + 1]; ++i)
          if (auto const to = from + (i - row_[from]);
              costs_[i].load <= bound && least_[from] + costs_[i].transfers < next_[to]) {
            next_[to] = least_[from] + costs_[i].transfers;
            before_[s * places_ + to] = from;
          }
      least_.swap(next_);
    }
    if (least_.back() >= unreachable_load) return false;
    if (!all_) return true;
    auto const sum = *all_ + least_.back(), parts = static_cast<std::int64_t>(parts_);
    return sum / parts < bound || (sum / parts == bound && sum % parts == 0);
  }

  /// Finds out what a part pays, if that is not known and there are steps left. Whether it did.
  bool ask(std::size_t from, std::size_t to) {
    auto& cost = costs_[row_[from] + (to - from)];
    if (cost.known || steps_ > most_steps_) return false;
    core_.clear();
    for (auto place = from + 1; place <= to; ++place) {
      steps_ += from_place_[place - 1].size();
      for (Index const u : from_place_[place - 1])
        if (b_.has(u, chain_place(from), chain_place(to))) core_.push_back(u);
    }
    auto const found = cuts_.between(chain_place(from), chain_place(to), core_);
    steps_ += found.steps;
    cost = {found.load, found.transfers, true};
    return true;
  }

  std::vector<std::int64_t> const& weight_;
  std::size_t parts_;
  backbone const& b_;
  backbone_cuts<Index> cuts_;
  std::size_t places_;
  std::optional<std::int64_t> all_;             // time to do, where devices are alike
  std::vector<std::vector<Index>> from_place_;  // units by `in_from`
  std::vector<part_cost> costs_;                // of parts, by where they begin, then where they end
  std::vector<std::size_t> row_;                // where those begin that begin at a place, and one more
  std::vector<std::int64_t> least_, next_;      // of a place: transfers of parts up to there
  std::vector<std::size_t> before_;             // of a part and the place where it ends: where it begins
  std::vector<Index> core_;
  std::size_t most_steps_, steps_ = 0;
};

/// A bound for parts without edges that lead backward, on devices that all pay for transfers; at least `low`,
/// at most `below`. Each boundary lies somewhere on a chain of units; between any two places a part pays for
/// what it must have and for a minimum cut around that, and all parts together for all time and all those
/// cuts. O(places^2) flows and what they need, at most about `most_steps`.
template <std::unsigned_integral Index>
backbone_answer backbone_bound(unit_edges<Index> const& e, unit_costs<Index> const& c,
                               std::span<Index const> order, std::int64_t low, std::int64_t below,
                               backbone_options const& o = {}) {
  auto const b = backbone_of(e, c.weight[c.fastest], order, o.places);
  return backbone_search<Index>(c, order, b, below, o.most_steps).least(low, below);
}

}  // namespace cleave::detail
