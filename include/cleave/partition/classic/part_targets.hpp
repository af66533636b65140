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

namespace cleave {

/// How heavy parts shall be.
struct share_options {
  per_part<double> share{};           ///< of the total weight, in any unit; empty: all the same
  per_part<double> imbalance = 0.03;  ///< by which part of its share a part may be heavier
};

}  // namespace cleave

namespace cleave::detail {

/// What each part shall weigh, and what it may weigh at most.
struct part_targets {
  std::vector<std::int64_t> target, most;

  std::uint32_t parts() const { return static_cast<std::uint32_t>(target.size()); }
};

/// The whole part of `x`, which is not negative, or `most` if that is less.
inline std::int64_t whole_up_to(double x, std::int64_t most) {
  return x < static_cast<double>(most) ? static_cast<std::int64_t>(x) : most;
}

/// The shares of `total`, each rounded up, and floor((1 + imbalance) * share). O(k).
/// \throws error for no parts, and for shares and imbalances that make no sense.
inline part_targets targets_of(std::int64_t total, std::uint32_t k, share_options const& o) {
  if (k == 0) throw error("a graph into 0 parts: ask for 1");
  if (!o.share.covers(k) || !o.imbalance.covers(k))
    throw error("shares and imbalances: give one for all parts or one for each of the " + std::to_string(k));
  double sum = 0;
  for (std::uint32_t i = 0; i < k; ++i) {
    double const share = o.share.empty() ? 1 : o.share[i], slack = o.imbalance.empty() ? 0 : o.imbalance[i];
    if (!(share >= 0) || !is_finite(share) || !(slack >= 0) || !is_finite(slack))
      throw error("part " + std::to_string(i) + ": its share and its imbalance are finite, not negative");
    sum += share;
  }
  if (!(sum > 0) || !is_finite(sum)) throw error("shares of parts: their sum is above 0 and finite");
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

/// By how much parts are heavier than they may be, all together.
inline std::int64_t overload(std::span<std::int64_t const> weight, std::span<std::int64_t const> most) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < weight.size(); ++i) sum += std::max<std::int64_t>(weight[i] - most[i], 0);
  return sum;
}

/// Where to cut a row of nodes so that each part gets about its share: bound i is the place whose prefix is
/// nearest to the first i shares, and as long as there are nodes enough no part is empty. O(nodes + k).
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
