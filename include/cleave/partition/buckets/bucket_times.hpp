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

namespace cleave::inline v0_2 {

/// A link over which buckets are sent one after another. All times are in one unit of the caller's choice.
struct link_speed {
  double bandwidth;    ///< bytes per unit of time
  double latency = 0;  ///< additional time per bucket
};

/// The work of the backward pass for one bucket.
struct bucket_load {
  double backward = 0;    ///< compute time until the bucket's gradients are complete
  std::size_t bytes = 0;  ///< bytes sent then; 0: nothing is sent

  bool operator==(bucket_load const&) const = default;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the time that a bucket of this size takes on the link.
inline double sending_time(link_speed const& link, std::size_t bytes) {
  return link.latency + static_cast<double>(bytes) / link.bandwidth;
}

/// Returns a sentence about the invalid number in `link`, if any.
inline std::optional<std::string> find_link_fault(link_speed const& link) {
  if (!(link.bandwidth > 0) || !is_finite(link.bandwidth))
    return "the bandwidth is " + std::to_string(link.bandwidth) + ": it must be finite and above 0";
  if (!(link.latency >= 0) || !is_finite(link.latency))
    return "the latency is " + std::to_string(link.latency) + ": it must be finite and not negative";
  return std::nullopt;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// The timeline of a backward pass that sends its gradients in buckets. The pass begins at time 0.
struct bucket_times {
  struct bucket {
    double ready;       ///< time at which its gradients are complete
    double begin, end;  ///< start and end of its transfer; both equal `ready` if nothing is sent
  };
  std::vector<bucket> buckets;
  double computed = 0;  ///< time at which the last gradient is complete
  double finish = 0;    ///< time at which all gradients are complete and the last bucket has arrived
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Thrown for an invalid load. The witness is the index of the load.
using bucket_load_error = tagged_error<struct bucket_load_tag, std::size_t>;

/// Returns the first load whose time is negative or not finite, or at which the sum of times overflows, if
/// any.
inline std::optional<std::size_t> find_bad_load(std::span<bucket_load const> loads) {
  double sum = 0;
  for (std::size_t i = 0; i < loads.size(); ++i) {
    sum += loads[i].backward;
    if (!(loads[i].backward >= 0) || !is_finite(sum)) return i;
  }
  return std::nullopt;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Simulates a backward pass with two resources, compute and link. Each handles one bucket at a time. Buckets
/// are computed without pauses and sent in the same order. A transfer starts when the gradients are complete
/// and the previous bucket has arrived. O(buckets).
/// \throws error if the link is invalid, bucket_load_error.
inline bucket_times bucket_times_of(std::span<bucket_load const> loads, link_speed const& link) {
  if (auto const fault = detail::find_link_fault(link)) detail::raise(error("bucket times: " + *fault));
  if (auto const bad = detail::find_bad_load(loads))
    detail::raise(detail::bucket_load_error(
        "bucket times: the backward time of bucket " + std::to_string(*bad) + " is " +
            std::to_string(loads[*bad].backward) + ": times and their sum must be finite and not negative",
        *bad));
  bucket_times t;
  double free = 0;  // time at which the link is free
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
