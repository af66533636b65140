// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/real.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/partition/buckets/bucket_times.hpp"
#include "cleave/partition/buckets/buckets.hpp"
#include "cleave/partition/model/validity.hpp"

namespace cleave::inline v0_2::detail {

/// A node in the order of the backward pass, which runs from the tail to the front of the graph.
struct backward_step {
  double time = 0;        ///< backward time of the node
  std::size_t bytes = 0;  ///< bytes of the gradients that this step completes
  /// The first step at which a bucket that begins here may end. The last step of all is always allowed.
  std::size_t first_end = 0;
  bool may_end = true;  ///< true if a bucket may end here
};

/// The buckets with the earliest finish time.
struct optimal_cut {
  std::vector<std::size_t> ends;  ///< per bucket: one past its last step
  double finish = 0;              ///< as in `bucket_times::finish`
};

/// Computes the optimal buckets for a list of steps by dynamic programming. E[j] is the earliest time at
/// which the buckets of the first j steps have arrived:
///
///     E[j] = latency + min over i of max(R[j], E[i]) + (B[j] - B[i]) / bandwidth
///
/// R[j] is the time at which step j is computed, B[j] the bytes of the first j steps, and i the start of the
/// last bucket. A bucket without bytes takes no time: E[j] = E[i]. R never decreases, so an i with E[i] <=
/// R[j] stays that way. The largest such i is the best of them. Among the others, the best minimises E[i]
/// minus B[i] / bandwidth. Used by `optimal_cut_of`.
class cut_optimizer {
 public:
  cut_optimizer(std::span<backward_step const> steps, link_speed const& link)
      : steps_(steps),
        link_(link),
        computed_(steps.size() + 1),
        bytes_(steps.size() + 1),
        arrived_(steps.size() + 1, never),
        begin_(steps.size() + 1),
        opening_(steps.size() + 1) {
    for (std::size_t i = 0; i < steps.size(); ++i) {
      computed_[i + 1] = computed_[i] + steps[i].time;
      bytes_[i + 1] = bytes_[i] + steps[i].bytes;
    }
  }

  optimal_cut find() {
    auto const last = steps_.size();
    arrived_[0] = 0;
    for (std::size_t j = 0; j <= last; ++j) {
      if (j > 0) arrive(j);
      if (j < last) opening_[(std::min)((std::max)(steps_[j].first_end, j), last - 1) + 1].push_back(j);
    }
    return trace((std::max)(computed_.back(), arrived_.back()));
  }

 private:
  static constexpr double never = std::numeric_limits<double>::infinity();

  /// Computes E[j], the arrival time of a bucket that ends at j.
  void arrive(std::size_t j) {
    if (bytes_[j] != bytes_[j - 1]) idle_ = none<std::size_t>;
    for (auto const i : opening_[j])
      if (arrived_[i] != never) {
        push(waiting_, {arrived_[i] - static_cast<double>(bytes_[i]) / link_.bandwidth, i});
        push(by_arrival_, {arrived_[i], i});
        if (bytes_[i] == bytes_[j] && (idle_ == none<std::size_t> || arrived_[i] < arrived_[idle_]))
          idle_ = i;
      }
    for (; !by_arrival_.empty() && by_arrival_.front().first <= computed_[j]; pop(by_arrival_))
      if (auto const i = by_arrival_.front().second; early_ == none<std::size_t> || i > early_) early_ = i;
    while (!waiting_.empty() && arrived_[waiting_.front().second] <= computed_[j]) pop(waiting_);
    if (j < steps_.size() && !steps_[j - 1].may_end) return;
    for (auto const i : {early_, waiting_.empty() ? none<std::size_t> : waiting_.front().second})
      if (i != none<std::size_t>)
        take(j, i, (std::max)(computed_[j], arrived_[i]) + sending_time(link_, bytes_[j] - bytes_[i]));
    if (idle_ != none<std::size_t>) take(j, idle_, arrived_[idle_]);
  }

  void take(std::size_t j, std::size_t i, double arrived) {
    if (!(arrived < arrived_[j])) return;
    arrived_[j] = arrived;
    begin_[j] = i;
  }

  /// Reconstructs the buckets from the last to the first. Merges each with its predecessors as long as the
  /// finish time does not increase.
  optimal_cut trace(double finish) const {
    optimal_cut cut;
    cut.finish = finish;
    double deadline = finish;  // latest arrival of the bucket that ends at `end`
    for (auto end = steps_.size(); end > 0;) {
      auto begin = begin_[end];
      while (begin > 0 && may_be_one(begin_[begin], end, deadline)) begin = begin_[begin];
      cut.ends.push_back(end);
      if (bytes_[begin] != bytes_[end]) deadline -= sending_time(link_, bytes_[end] - bytes_[begin]);
      end = begin;
    }
    std::reverse(cut.ends.begin(), cut.ends.end());
    return cut;
  }

  bool may_be_one(std::size_t begin, std::size_t end, double deadline) const {
    if (end < steps_.size() && steps_[begin].first_end >= end) return false;
    if (bytes_[begin] == bytes_[end]) return arrived_[begin] <= deadline;
    auto const sent = sending_time(link_, bytes_[end] - bytes_[begin]);
    return (std::max)(computed_[end], arrived_[begin]) + sent <= deadline;
  }

  using heap = std::vector<std::pair<double, std::size_t>>;  // min-heap
  static void push(heap& h, heap::value_type x) {
    h.push_back(x);
    std::push_heap(h.begin(), h.end(), std::ranges::greater());
  }
  static void pop(heap& h) {
    std::pop_heap(h.begin(), h.end(), std::ranges::greater());
    h.pop_back();
  }

  std::span<backward_step const> steps_;
  link_speed link_;
  std::vector<double> computed_;                   // R
  std::vector<std::size_t> bytes_;                 // B
  std::vector<double> arrived_;                    // E
  std::vector<std::size_t> begin_;                 // start of the last bucket
  std::vector<std::vector<std::size_t>> opening_;  // per end: starts that may end there or later
  heap waiting_;                                   // starts by E - B / bandwidth; may include early ones
  heap by_arrival_;                                // starts by E, except early ones
  std::size_t early_ = none<std::size_t>;          // the last start with E <= R
  std::size_t idle_ = none<std::size_t>;           // least E among starts with no bytes since
};

/// Thrown for an invalid step. The witness is the index of the step.
using backward_step_error = tagged_error<struct backward_step_tag, std::size_t>;

/// Returns the first step whose time is negative or at which a sum overflows, if any. O(steps).
inline std::optional<std::size_t> find_bad_step(std::span<backward_step const> steps,
                                                link_speed const& link) {
  double time = 0;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (!(steps[i].time >= 0) || steps[i].bytes > static_cast<std::size_t>(-1) - bytes) return i;
    bytes += steps[i].bytes;
    time += steps[i].time + link.latency;
    if (!is_finite(time + static_cast<double>(bytes) / link.bandwidth)) return i;
  }
  return std::nullopt;
}

/// Returns the buckets that minimise the time at which a backward pass is computed and sent, among all that
/// the steps allow. Exact up to rounding of sums. Ties are broken arbitrarily. O(n log n) for n steps.
/// \throws error if the link is invalid, backward_step_error.
inline optimal_cut optimal_cut_of(std::span<backward_step const> steps, link_speed const& link) {
  if (auto const fault = find_link_fault(link)) raise(error("optimal buckets: " + *fault));
  if (auto const bad = find_bad_step(steps, link))
    raise(backward_step_error("optimal buckets: step " + std::to_string(*bad) +
                                  " of the backward pass takes " + std::to_string(steps[*bad].time) +
                                  " and completes " + std::to_string(steps[*bad].bytes) +
                                  " bytes: times and all sums must be finite and not negative",
                              *bad));
  return cut_optimizer(steps, link).find();
}

/// Returns the steps of the backward pass of `s`, from the last node to the first. `times` has the backward
/// time of each node. O(V + E).
/// \throws partition_error if the bytes of a node overflow.
template <std::unsigned_integral Index>
std::vector<backward_step> backward_steps(basic_snapshot_arrays<Index> const& s,
                                          basic_bucket_counts<Index> const& counts,
                                          std::span<double const> times) {
  bucket_closing<Index> const closing(s);
  auto const nodes = s.nodes();
  std::vector<backward_step> steps(nodes);
  std::vector<std::size_t> open;  // stack of nodes before `end`; the top is read at `end` or later
  for (std::size_t end = 1; end <= nodes; ++end) {
    open.push_back(end - 1);
    while (!open.empty() && closing.last_reader[open.back()] < end) open.pop_back();
    auto& step = steps[nodes - end];
    auto const n = end - 1;
    step.first_end = open.empty() ? nodes : nodes - 1 - open.back();
    step.may_end = !closing.divides[n];
    step.time = times[n];
    for (Index const e : counts.entries[n]) {
      if (counts.bytes[e] > static_cast<std::size_t>(-1) - step.bytes)
        raise(partition_error("buckets: the bytes of the parameters do not fit 64 bits at node " + s.label(n),
                              {n}));
      step.bytes += counts.bytes[e];
    }
  }
  return steps;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the buckets of `s` that minimise the finish time of its backward pass, in which node n takes
/// `times[n]`. Buckets obey the rules of `fill_buckets`, but have no caps. O(V log V + E).
/// \throws error if `times` has the wrong size or the link is invalid; backward_step_error for invalid times;
/// partition_error if the bytes overflow.
template <std::unsigned_integral Index>
basic_bucket_partition<Index> fill_optimal_buckets(basic_snapshot_arrays<Index> const& s,
                                                   basic_bucket_counts<Index> counts,
                                                   std::vector<double> const& times, link_speed const& link) {
  expects(counts.entries.rows() == s.nodes(), "entries for each node");
  if (times.size() != s.nodes())
    detail::raise(error("optimal buckets: " + std::to_string(times.size()) +
                        " backward times are given for " + std::to_string(s.nodes()) + " nodes"));
  auto const cut = detail::optimal_cut_of(detail::backward_steps(s, counts, times), link);
  std::vector<basic_bucket<Index>> buckets;
  for (std::size_t step = 0; auto const end : cut.ends)
    for (buckets.emplace_back(); step < end; ++step)
      detail::add_to_bucket(s, counts, s.nodes() - 1 - step, buckets.back());
  if (buckets.empty()) buckets.emplace_back();
  return partition_of(s, std::move(counts), std::move(buckets));
}

/// Returns the loads of the buckets from the tail to the front of the graph, as `bucket_times_of` takes them.
/// `times` has the backward time of each node. O(V).
template <std::unsigned_integral Index>
std::vector<bucket_load> loads_of(basic_bucket_partition<Index> const& p, std::span<double const> times) {
  std::vector<bucket_load> loads;
  for (auto b = p.buckets.rbegin(); b != p.buckets.rend(); ++b) {
    loads.push_back({0, b->bytes});
    for (Index const n : b->nodes) loads.back().backward += times[n];
  }
  return loads;
}

}  // namespace cleave
