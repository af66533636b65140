// SPDX-License-Identifier: MIT
#pragma once
#include <vector>

#include "cleave/graph/module_graph.hpp"
#include "cleave/partition/buckets/bucket_load.hpp"
#include "cleave/partition/buckets/module_buckets.hpp"
#include "cleave/partition/buckets/optimal_buckets.hpp"
#include "cleave/partition/buckets/parameter_counting.hpp"
#include "cleave/partition/model/model_parameters.hpp"

namespace cleave {

/// The buckets of `g` with which its backward pass finishes first; `time(n)` is what the node at position `n`
/// takes in it. Expected O(V log V + E + parameters).
/// \throws what fill_optimal_buckets throws on a snapshot; parameter_error, higher_order_error.
template <class Time>
std::vector<module_bucket> fill_optimal_buckets(module_graph const& g, model_parameters const& parameters,
                                                Time time, link_speed const& link,
                                                parameter_counting rule = parameter_counting::each_once) {
  auto const c = detail::count_parameters(g, parameters, rule);
  std::vector<double> times;
  for (auto const n : c.nodes.node.handles()) times.push_back(time(n));
  return detail::named_buckets(c, fill_optimal_buckets(c.nodes, c.counts, times, link));
}

/// What a backward pass does between two sends, from the tail to the front of the graph: for
/// `bucket_times_of`. O(V).
template <class Time>
std::vector<bucket_load> loads_of(std::vector<module_bucket> const& buckets, Time time) {
  std::vector<bucket_load> loads;
  for (auto b = buckets.rbegin(); b != buckets.rend(); ++b) {
    loads.push_back({0, b->bytes});
    for (auto const n : b->nodes) loads.back().backward += time(n);
  }
  return loads;
}
}  // namespace cleave
