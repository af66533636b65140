// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cleave/core/error.hpp"
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

namespace cleave {

/// When a backward pass that sends its gradients in buckets does what; it begins at 0.
struct bucket_times {
  struct bucket {
    double ready;       ///< its gradients are complete
    double begin, end;  ///< of sending it; both the time at which it is ready where it sends nothing
  };
  std::vector<bucket> buckets;
  double computed = 0;  ///< the last gradient is complete
  double finish = 0;    ///< … and the last bucket has arrived
};

}  // namespace cleave

namespace cleave::detail {

/// A load that makes no sense. The witness: its number.
using bucket_load_error = tagged_error<struct bucket_load_tag, std::size_t>;

/// The first bucket whose time makes no sense, or at which the sum of the times is no longer finite.
inline std::optional<std::size_t> find_bad_load(std::span<bucket_load const> loads) {
  double sum = 0;
  for (std::size_t i = 0; i < loads.size(); ++i) {
    sum += loads[i].backward;
    if (!(loads[i].backward >= 0) || !is_finite(sum)) return i;
  }
  return std::nullopt;
}

}  // namespace cleave::detail

namespace cleave {

/// Two resources, each one thing at a time: buckets are computed one after another without a pause, and sent
/// in that order, each when it is complete and the one before it has arrived. O(buckets).
/// \throws error where the link makes no sense, bucket_load_error.
inline bucket_times bucket_times_of(std::span<bucket_load const> loads, link_speed const& link) {
  if (auto const fault = detail::find_link_fault(link)) throw error("bucket times: " + *fault);
  if (auto const bad = detail::find_bad_load(loads))
    throw detail::bucket_load_error("bucket times: the backward time of bucket " + std::to_string(*bad) +
                                        " is " + std::to_string(loads[*bad].backward) +
                                        ": times are finite, not negative, and so is their sum",
                                    *bad);
  bucket_times t;
  double free = 0;  // the link is
  for (auto const& load : loads) {
    t.computed += load.backward;
    if (load.bytes == 0) {
      t.buckets.push_back({t.computed, t.computed, t.computed});
      continue;
    }
    double const begin = (std::max)(t.computed, free);
    free = begin + detail::sending_time(link, load.bytes);
    t.buckets.push_back({t.computed, begin, free});
  }
  t.finish = (std::max)(t.computed, free);
  return t;
}

}  // namespace cleave
