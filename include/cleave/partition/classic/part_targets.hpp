// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/real.hpp"
#include "cleave/partition/model/partition.hpp"

namespace cleave::inline v0_2 {

/// Target weights of parts and the tolerance above them.
struct share_options {
  per_part<double> share{};  ///< relative share of the total weight, in any unit; empty: equal shares
  per_part<double> imbalance = 0.03;  ///< tolerance relative to a part's share: 0.03 is 3 %
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The target weight and the maximum weight of each part.
struct part_targets {
  std::vector<std::int64_t> target, most;

  std::uint32_t parts() const { return static_cast<std::uint32_t>(target.size()); }
};

/// Returns `x`, which must not be negative, rounded down to an integer and capped at `most`.
inline std::int64_t whole_up_to(double x, std::int64_t most) {
  return x < static_cast<double>(most) ? static_cast<std::int64_t>(x) : most;
}

/// Returns the targets, which are the shares of `total` rounded up, and the limits floor((1 + imbalance) *
/// target). O(k).
/// \throws error if `k` is 0, or if shares or imbalances are invalid.
inline part_targets targets_of(std::int64_t total, std::uint32_t k, share_options const& o) {
  if (k == 0) throw error("cannot partition a graph into 0 parts; pass at least 1");
  if (!o.share.covers(k) || !o.imbalance.covers(k))
    throw error("shares and imbalances: give one for all parts or one for each of the " + std::to_string(k) +
                " parts");
  double sum = 0;
  for (std::uint32_t i = 0; i < k; ++i) {
    double const share = o.share.empty() ? 1 : o.share[i], slack = o.imbalance.empty() ? 0 : o.imbalance[i];
    if (!(share >= 0) || !is_finite(share) || !(slack >= 0) || !is_finite(slack))
      throw error("part " + std::to_string(i) +
                  ": its share and its imbalance must be finite and not negative");
    sum += share;
  }
  if (!(sum > 0) || !is_finite(sum)) throw error("shares of parts: their sum must be finite and above 0");
  part_targets t;
  for (std::uint32_t i = 0; i < k; ++i) {
    double const exact = o.share.empty() ? 0 : static_cast<double>(total) * (o.share[i] / sum);
    auto const whole = whole_up_to(exact, total);
    auto const own = whole + (exact > static_cast<double>(whole) && whole < total ? 1 : 0);
    t.target.push_back(o.share.same() ? total / k + (total % k != 0 ? 1 : 0) : own);
    double const slack = static_cast<double>(t.target[i]) * (o.imbalance.empty() ? 0 : o.imbalance[i]);
    t.most.push_back(t.target[i] + whole_up_to(slack, total - t.target[i]));
  }
  return t;
}

/// Returns the total weight by which parts exceed their limits.
inline std::int64_t overload(std::span<std::int64_t const> weight, std::span<std::int64_t const> most) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < weight.size(); ++i) sum += std::max<std::int64_t>(weight[i] - most[i], 0);
  return sum;
}

/// Returns the bounds that cut a sequence of nodes so that each part gets about its share. Bound i is the
/// position whose prefix weight is closest to the sum of the first i shares. No part is empty if there are
/// enough nodes. O(nodes + k).
inline std::vector<std::size_t> bounds_at_shares(std::span<std::uint32_t const> row,
                                                 std::span<std::int64_t const> node_weight,
                                                 std::span<std::int64_t const> target) {
  double shares = 0, total = 0;
  for (auto const t : target) shares += static_cast<double>(t);
  for (auto const n : row) total += static_cast<double>(node_weight[n]);
  auto const k = target.size();
  std::vector<std::size_t> bounds{0};
  std::size_t at = 0;
  for (double before = 0, wanted = 0; bounds.size() < k;) {
    wanted += shares > 0 ? static_cast<double>(target[bounds.size() - 1]) / shares * total : 0;
    auto const left = k - bounds.size();
    auto const least = (std::min)(bounds.back() + 1, row.size());
    auto const most = (std::max)(least, row.size() > left ? row.size() - left : std::size_t{0});
    while (at < most) {
      auto const own = static_cast<double>(node_weight[row[at]]);
      if (at >= least && before + own / 2 > wanted) break;
      before += own;
      ++at;
    }
    bounds.push_back(at);
  }
  bounds.push_back(row.size());
  return bounds;
}

}  // namespace cleave::detail
