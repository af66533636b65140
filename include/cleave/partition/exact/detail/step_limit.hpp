// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <ctime>

#include "cleave/core/language.hpp"

namespace cleave::inline v0_2::detail {

/// The budget of a search: steps, which are machine-independent, and seconds, which are not.
class step_limit {
 public:
  step_limit(std::size_t steps, double seconds) : left_(steps), seconds_(seconds), begin_(now()) {}

  /// Spends steps; returns false once none are left. A second has about 100 million steps.
  bool spend(std::size_t steps) {
    if (steps > left_) return left_ = 0, false;
    left_ -= steps;
    spent_ += steps;
    unseen_ += steps;
    if (unseen_ < 1'000'000) return true;
    unseen_ = 0;
    if (now() - begin_ > seconds_) left_ = 0;
    return left_ > 0;
  }
  std::size_t left() const { return left_; }
  std::size_t spent() const { return spent_; }
  bool out() const { return left_ == 0; }

 private:
  static double now() {
    std::timespec t{};
    std::timespec_get(&t, TIME_UTC);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  }

  std::size_t left_, spent_ = 0, unseen_ = 0;
  double seconds_, begin_;
};

}  // namespace cleave::detail
