// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/partition/classic/chain_bounds.hpp"

namespace cleave {

/// The rule comes to no answer: it goes round in circles, or its parts overlap.
class torchgpipe_error : public error {
 public:
  using error::error;
};

}  // namespace cleave

namespace cleave::detail {

/// Moves the ends of parts as torchgpipe's `blockpartition.solve` does; `torchgpipe_blocks` is its one use.
class torchgpipe_walk {
 public:
  torchgpipe_walk(std::span<double const> weights, std::uint32_t k) : parts_(k) {
    auto const [least, most] = std::ranges::minmax(weights);
    for (double const w : weights) normal_.push_back(most - least == 0 ? 0 : (w - least) / (most - least));
    auto const layers = static_cast<std::int64_t>(weights.size());
    for (std::int64_t s = 1; s <= k; ++s) ends_.push_back(s < k ? layers / k * s : layers);
    for (std::size_t s = 0; s < k; ++s) sums_.push_back(sum_of(s));
  }

  chain_bounds run() {
    auto seen = ends_;  // a state that comes again comes for ever: Brent, BIT 20, 1980
    for (std::uint64_t step = 0, power = 1;; ++step) {
      auto const heaviest = heaviest_part();
      for (auto lightest = lightest_part();; lightest = lightest_part()) {
        if (sums_[heaviest] <= sums_[lightest] + 1) return bounds();
        if (move_towards(lightest, heaviest)) break;
      }
      if (ends_ == seen)
        throw torchgpipe_error("torchgpipe's rule moves the same layers to and fro for ever");
      if (step == power) {
        seen = ends_;
        power *= 2;
      }
    }
  }

 private:
  std::int64_t begin(std::size_t s) const { return s > 0 ? ends_[s - 1] : 0; }

  double sum_of(std::size_t s) const {
    double sum = 0;  // one after the other, as Python up to 3.11 adds
    for (auto i = begin(s); i < ends_[s]; ++i) sum += normal_[static_cast<std::size_t>(i)];
    return sum;
  }

  std::size_t heaviest_part() const {
    std::size_t found = 0;
    for (std::size_t s = 1; s < parts_; ++s)
      if (sums_[s] >= sums_[found]) found = s;
    return found;
  }

  std::size_t lightest_part() const {
    std::size_t found = 0;
    for (std::size_t s = 1; s < parts_; ++s)
      if (sums_[s] < sums_[found]) found = s;
    return found;
  }

  // Gives the lightest part a layer of its neighbour; whether that is the heaviest.
  bool move_towards(std::size_t lightest, std::size_t heaviest) {
    bool const left = heaviest < lightest;
    auto const neighbour = left ? lightest - 1 : lightest + 1;
    auto& end = ends_[left ? neighbour : lightest];
    end += left ? -1 : 1;
    if (end < 0 || end > static_cast<std::int64_t>(normal_.size()))
      throw torchgpipe_error("torchgpipe's rule moves the end of a part beyond the chain");
    sums_[lightest] = sum_of(lightest);
    sums_[neighbour] = sum_of(neighbour);
    return neighbour == heaviest;
  }

  chain_bounds bounds() const {
    if (!std::ranges::is_sorted(ends_))
      throw torchgpipe_error("torchgpipe's rule ends with layers that are in two parts");
    chain_bounds found{0};
    for (auto const end : ends_) found.push_back(static_cast<std::size_t>(end));
    return found;
  }

  std::uint32_t parts_;
  std::vector<double> normal_;      // weights, brought into [0, 1]
  std::vector<std::int64_t> ends_;  // of the parts
  std::vector<double> sums_;
};

}  // namespace cleave::detail

namespace cleave {

/// What torchgpipe's `balance_by_size` and `balance_by_time` make of sizes and times, and FairScale's: after
/// Bárány and Grinberg, Block partitions of sequences, arXiv 1308.2452. It subtracts the smallest weight from
/// all, so that many layers of it weigh nothing, and stops once the largest sum exceeds the smallest by no
/// more than the largest weight. Parts may be empty. Of equally light parts it takes the first, not, as the
/// paper asks, the nearest; so it may go on for ever or give a layer to two parts, which is an error here.
/// O(k n^3) in theory, near O(k n) steps of O(k + n / k) as a rule.
/// \throws error for no parts or fewer layers than parts, chain_weight_error, torchgpipe_error.
inline detail::chain_bounds torchgpipe_blocks(std::span<double const> weights, std::uint32_t k) {
  detail::check_chain(weights, k);
  if (weights.size() < k)
    throw error(std::to_string(weights.size()) + " layers are fewer than " + std::to_string(k) + " parts");
  return detail::torchgpipe_walk(weights, k).run();
}

}  // namespace cleave
