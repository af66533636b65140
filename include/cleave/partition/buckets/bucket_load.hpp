// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <optional>
#include <string>

#include "cleave/core/real.hpp"

namespace cleave {

/// A link over which one bucket after another is sent. Times are in any one unit.
struct link_speed {
  double bandwidth;    ///< bytes in a unit of time
  double latency = 0;  ///< what each bucket takes besides
};

/// What the backward pass does between two sends.
struct bucket_load {
  double backward = 0;    ///< how long it computes until the bucket's gradients are complete
  std::size_t bytes = 0;  ///< what it then sends; 0: nothing

  bool operator==(bucket_load const&) const = default;
};

}  // namespace cleave

namespace cleave::detail {

/// How long a bucket of that size is on its way.
inline double sending_time(link_speed const& link, std::size_t bytes) {
  return link.latency + static_cast<double>(bytes) / link.bandwidth;
}

/// What makes no sense in `link`, as a sentence, or nothing.
inline std::optional<std::string> find_link_fault(link_speed const& link) {
  if (!(link.bandwidth > 0) || !is_finite(link.bandwidth))
    return "the bandwidth is " + std::to_string(link.bandwidth) + ": it must be finite and above 0";
  if (!(link.latency >= 0) || !is_finite(link.latency))
    return "the latency is " + std::to_string(link.latency) + ": it must be finite, not negative";
  return std::nullopt;
}

}  // namespace cleave::detail
