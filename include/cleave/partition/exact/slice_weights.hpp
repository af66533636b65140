// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/fixed_point.hpp"
#include "cleave/graph/adjacency.hpp"
#include "cleave/partition/model/chain_bounds.hpp"

namespace cleave::inline v0_2 {

/// Slices of a chain. Slice s contains the layers from `at[s]` up to, but not including, `at[s + 1]`.
template <weight_number Weight>
struct weight_slices {
  std::vector<std::size_t> at;
  std::conditional_t<std::floating_point<Weight>, double, std::int64_t> largest = 0;  ///< the largest sum of
                                                                                      ///< a slice
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Searches for the smallest bound on slice sums that k slices can meet. A greedy walk tests one bound. If it
/// fails, it yields the next bound at which its choices change; if it succeeds, the largest sum that it used.
/// Iqbal and Bokhari, IEEE Trans. Parallel Distributed Systems 6, 1995; Pinar and Aykanat, J. Parallel
/// Distributed Computing 64, 2004.
class slice_search {
 public:
  /// `before[i]` is the sum of the first i weights.
  slice_search(std::span<std::int64_t const> before, std::size_t slices, std::int64_t heaviest)
      : before_(before), n_(before.size() - 1), slices_(slices), at_(slices + 1) {
    auto const total = before.back(), k = static_cast<std::int64_t>(slices);
    low_ = (std::max)(heaviest, total / k + (total % k != 0 ? 1 : 0));
    high_ = heaviest < total - total / k ? total / k + heaviest : total;  // enough for every greedy walk
  }

  std::int64_t least() {
    for (std::int64_t step = 0; low_ < high_;) {
      auto const middle = low_ + (high_ - low_) / 2;
      auto const left = walk((std::min)(low_ + step, middle));
      step =
          left > 0 && left / static_cast<std::int64_t>(slices_) < middle - low_ ? step + left : high_ - low_;
    }
    return high_;
  }

  /// Returns the slices for a sufficient bound. No slice is empty if there are enough weights.
  std::vector<std::size_t> slices_within(std::int64_t bound) {
    high_ = low_ = bound;
    walk(bound);
    for (std::size_t s = 1; s < slices_ && n_ >= slices_; ++s)
      at_[s] = (std::min)(at_[s], n_ - (slices_ - s));
    return at_;
  }

 private:
  // Tests a bound, narrows [`low_`, `high_`], and returns the weight that the slices leave over.
  std::int64_t walk(std::int64_t bound) {
    auto next = before_.back();
    std::int64_t largest = 0;
    for (std::size_t s = 0; s < slices_; ++s) {
      auto const begin = at_[s];
      auto const end = at_[s + 1] =
          last_within(begin, before_[begin] + (std::min)(bound, before_.back() - before_[begin]), at_[s + 1]);
      largest = (std::max)(largest, before_[end] - before_[begin]);
      if (end < n_) next = (std::min)(next, before_[end + 1] - before_[begin]);
    }
    if (at_.back() == n_)
      high_ = (std::min)(high_, largest);
    else
      low_ = (std::max)(low_, next);
    return before_.back() - before_[at_.back()];
  }

  // Returns the last position whose prefix sum is at most `sum`, searching around `guess`. Precondition: the
  // prefix sum at `begin` is at most `sum`.
  std::size_t last_within(std::size_t begin, std::int64_t sum, std::size_t guess) const {
    guess = std::clamp(guess, begin, n_);
    std::size_t step = 1, low = begin, high = n_ + 1;
    if (before_[guess] <= sum)
      for (low = guess; low + step <= n_ && before_[low + step] <= sum; step *= 2) low += step;
    else
      for (high = guess; high > begin + step && before_[high - step] > sum; step *= 2) high -= step;
    if (before_[guess] <= sum)
      high = (std::min)(low + step, n_ + 1);
    else
      low = high > begin + step ? high - step : begin;
    return static_cast<std::size_t>(std::upper_bound(before_.begin() + static_cast<std::ptrdiff_t>(low),
                                                     before_.begin() + static_cast<std::ptrdiff_t>(high),
                                                     sum) -
                                    before_.begin()) -
           1;
  }

  std::span<std::int64_t const> before_;
  std::size_t n_, slices_;
  std::vector<std::size_t> at_;
  std::int64_t low_, high_;  // the smallest bound is between them; `high_` suffices
};

/// Prefix sums of a chain as integers.
struct chain_sums {
  fixed_point unit{};
  std::vector<std::int64_t> before;  ///< sums of the first i weights; one more entry than weights
  std::int64_t heaviest = 0;         ///< largest weight
};

/// Checks the weights and their sum. \throws chain_weight_error for the first invalid weight.
template <weight_number Weight>
void check_weights(std::span<Weight const> weights) {
  weight_sum<Weight> sum;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    sum.add(weights[i]);
    if (!sum.is_weight(weights[i]) || sum.overflows())
      throw chain_weight_error({i, static_cast<double>(weights[i])});
  }
}

/// Returns the prefix sums of integer weights. O(weights). \throws chain_weight_error.
template <std::integral Weight>
chain_sums sums_of(std::span<Weight const> weights) {
  chain_sums c{{}, std::vector<std::int64_t>(weights.size() + 1)};
  weight_sum<Weight> sum;
  bool bad = false;
  std::int64_t reached = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    sum.add(weights[i]);
    bad |= !sum.is_weight(weights[i]) || sum.overflows();
    auto const own = bad ? 0 : static_cast<std::int64_t>(weights[i]);
    c.before[i + 1] = reached += own;
    c.heaviest = (std::max)(c.heaviest, own);
  }
  if (bad) check_weights(weights);
  return c;
}

/// Returns the prefix sums of floating-point weights, in fixed-point units chosen for their total.
/// O(weights). \throws chain_weight_error.
template <std::floating_point Weight>
chain_sums sums_of(std::span<Weight const> weights) {
  auto const n = weights.size();
  double sum[4]{}, most[4]{};  // four interleaved sums, so that no addition waits for the previous one
  std::uint64_t signs = 0;
  auto const note = [&](std::size_t i) {
    auto const w = static_cast<double>(weights[i]);
    sum[i % 4] += w;
    most[i % 4] = w > most[i % 4] ? w : most[i % 4];
    signs |= std::bit_cast<std::uint64_t>(w);
  };
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (std::size_t j = 0; j < 4; ++j) note(i + j);
  for (; i < n; ++i) note(i);
  double const total = sum[0] + sum[1] + (sum[2] + sum[3]);
  if (signs >> 63 != 0 || !is_finite(total)) check_weights(weights);
  // If only the order of summation made the total infinite, the largest number is close enough.
  auto const unit = fixed_point::for_total((std::min)(total, (std::numeric_limits<double>::max)()));
  chain_sums c{unit, std::vector<std::int64_t>(n + 1), unit.of((std::ranges::max)(most))};
  double const halves = power_of_two(unit.exponent + 1);
  std::int64_t reached = 0;
  for (std::size_t j = 0; j < n; ++j) {
    auto const twice = static_cast<std::int64_t>(static_cast<double>(weights[j]) * halves);
    c.before[j + 1] = reached += (twice + 1) >> 1;  // equals `unit.of(weights[j])`, in fewer steps
  }
  return c;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Cuts a chain into k slices so that the largest sum is minimal.
///
/// The result is exact; for floating-point weights, up to 2^-60 of the total. No slice is empty if there are
/// at least k weights. Complexity: one pass over the n weights, then about ten walks of O(k log n).
///
/// \param weights  the weights of the chain's layers; finite and not negative
/// \param k        the number of slices, at least 1
/// \throws error if `k` is 0.
/// \throws chain_weight_error for the first invalid weight.
template <weight_number Weight>
weight_slices<Weight> slice_weights(std::span<Weight const> weights, std::uint32_t k) {
  if (k == 0)
    throw error("slice_weights: cannot cut a chain of " + std::to_string(weights.size()) +
                " layers into 0 parts: request at least 1");
  auto const sums = detail::sums_of(weights);
  detail::slice_search search(sums.before, k, sums.heaviest);
  auto const least = search.least();
  weight_slices<Weight> found{search.slices_within(least)};
  if constexpr (std::floating_point<Weight>)
    found.largest = sums.unit.value(least);
  else
    found.largest = least;
  return found;
}

}  // namespace cleave
