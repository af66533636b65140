// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "cleave/partition/classic/chain_bounds.hpp"

namespace cleave {

/// DeepSpeed's `partition_uniform`: as many layers in each part, one more in the first ones. With fewer
/// layers than parts the last parts are empty. O(k). \throws error for no parts.
inline detail::chain_bounds deepspeed_uniform(std::size_t layers, std::uint32_t k) {
  detail::check_chain({}, k);
  detail::chain_bounds bounds;
  for (std::size_t s = 0; s <= k; ++s)
    bounds.push_back(layers <= k ? (std::min)(s, layers) : s * (layers / k) + (std::min)(s, layers % k));
  return bounds;
}

}  // namespace cleave

namespace cleave::detail {

/// The table of DeepSpeed's `partition_balanced`, one row for each number of parts.
class deepspeed_table {
 public:
  deepspeed_table(std::span<double const> weights, std::uint32_t k) : layers_(weights.size()) {
    before_.assign(1, 0);
    for (double const w : weights) before_.push_back(before_.back() + w);
    last_.assign(layers_ + 1, {0, infinite});
    for (std::uint32_t s = 1; s <= k; ++s) add_part(s);
  }

  chain_bounds bounds() const {
    chain_bounds bounds(begin_.size() + 1, layers_);
    for (auto s = begin_.size(); s-- > 0;) bounds[s] = begin_[s][bounds[s + 1]];
    return bounds;
  }

 private:
  struct range {
    double most, least;  // of the sums of the parts so far
  };

  // Of equal differences the last place wins, as there.
  void add_part(std::uint32_t s) {
    std::vector<range> next(layers_ + 1);
    auto& begin = begin_.emplace_back(layers_ + 1);
    for (std::size_t end = s; end <= layers_; ++end) {
      double least_cost = infinite;
      auto const last_begin = s == 1 ? std::size_t{1} : end;
      for (std::size_t i = s - std::size_t{1}; i < last_begin; ++i) {
        double const sum = before_[end] - before_[i];
        double const most = (std::max)(last_[i].most, sum), least = (std::min)(last_[i].least, sum);
        if (most - least > least_cost) continue;
        least_cost = most - least;
        next[end] = {most, least};
        begin[end] = i;
      }
    }
    last_ = std::move(next);
  }

  static constexpr double infinite = std::numeric_limits<double>::infinity();
  std::size_t layers_;
  std::vector<double> before_;
  std::vector<range> last_;                      // of the first layers in as many parts as there are rows
  std::vector<std::vector<std::size_t>> begin_;  // where the last of these parts begins
};

}  // namespace cleave::detail

namespace cleave {

/// DeepSpeed's `partition_balanced` (since its change 4312), the method `parameters` of its pipelines: seeks
/// the least difference between the largest and the smallest sum, not the least largest sum, by a recurrence
/// that does not hold for it: the best cut of a beginning need not be part of a best cut. With no more layers
/// than parts it is `deepspeed_uniform`. The same bounds as there for equal weights of double precision.
/// O(n^2 k) time, O(n k) memory. \throws error for no parts, chain_weight_error.
inline detail::chain_bounds deepspeed_balanced(std::span<double const> weights, std::uint32_t k) {
  detail::check_chain(weights, k);
  if (weights.size() <= k) return deepspeed_uniform(weights.size(), k);
  return detail::deepspeed_table(weights, k).bounds();
}

}  // namespace cleave
