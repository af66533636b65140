// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "cleave/core/ids.hpp"
#include "cleave/core/random.hpp"
#include "cleave/schedule/model/action.hpp"

namespace cleave {

/// By which factor each time is longer or shorter by chance: it depends on the seed and on what takes the
/// time alone, not on when or in which order anything is asked.
class jitter {
 public:
  /// Precondition: `most` is a share from 0 to 1.
  jitter(double most, std::uint64_t seed) : most_(most), seed_(seed) {}

  /// For an action about `subject`, a stage, or a message along it, an edge.
  double factor(action_kind what, std::uint32_t subject, microbatch_id m) const {
    if (most_ == 0) return 1;
    splitmix place(seed_ ^ (std::uint64_t{subject} << 32 | index(m)));
    splitmix mixed(place.next() + static_cast<std::uint64_t>(what));
    double const unit = static_cast<double>(mixed.next() >> 11) * 0x1p-53;  // in [0, 1)
    return 1 + most_ * (2 * unit - 1);
  }

 private:
  double most_;
  std::uint64_t seed_;
};
}  // namespace cleave
