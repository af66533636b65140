// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/partition/buckets/module_buckets.hpp"
#include "cleave/partition/model/model_parameters.hpp"
#include "cleave/split/modules/split_module.hpp"

namespace cleave::inline v0_2::detail {

/// Thrown if a call is in no bucket or in two, or a bucket has a position that the graph lacks. The witness
/// is the position.
using bucket_assignment_error = tagged_error<struct bucket_assignment_tag, module_graph::position>;

/// Returns the first call that is not in exactly one bucket, or a position that the graph does not have, or
/// nothing. O(V).
inline std::optional<module_graph::position> find_misplaced_call(module_graph const& g,
                                                                 std::vector<module_bucket> const& buckets) {
  std::vector<char> times(g.list().size());
  for (auto const& b : buckets)
    for (auto const n : b.nodes) {
      if (n >= times.size() || times[n] != 0) return n;
      times[n] = 1;
    }
  for (auto const n : g.nodes())
    if (times[n] == 0) return n;
  return std::nullopt;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2::detail {

/// Returns why the calls of a bucket are a piece: `gradient bucket of 12 bytes: a_weight, a_bias and 3 more`.
inline std::string reason_of_bucket(module_bucket const& bucket) {
  auto const& held = bucket.counted;
  auto reason = "gradient bucket of " + std::to_string(bucket.bytes) + " bytes";
  for (std::size_t i = 0; i < (std::min)(held.size(), std::size_t{2}); ++i)
    reason += (i == 0 ? ": " : ", ") + held[i].name;
  return held.size() > 2 ? reason + " and " + std::to_string(held.size() - 2) + " more" : reason;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// The buckets of a module_graph and the pieces made of them. A bucket with get_attr nodes only is no piece,
/// since attributes are passed to the pieces that read them.
struct bucket_split {
  std::vector<module_bucket> buckets;  ///< from the front of the graph to its end
  std::optional<split_module_result>
      split;  ///< nothing if there are fewer than two buckets; labels are bucket numbers
};

/// Cuts `g` into `buckets`, which hold each call once. By default pieces run in program order. This order is
/// correct even with writes in place if each bucket is a range of consecutive calls, as with `fill_buckets`.
/// `order::upstream` is the order of PyTorch. Expected O(V + E).
///
/// \throws bucket_assignment_error if a call is in no bucket or in two, and the errors of split_module
inline bucket_split split_at_buckets(module_graph const& g, std::vector<module_bucket> buckets,
                                     order stages = order::program) {
  if (auto const n = detail::find_misplaced_call(g, buckets))
    throw detail::bucket_assignment_error(
        "buckets: " + (*n < g.list().size() ? "node " + quoted(g[*n].name) : "a position outside the graph") +
            " is not in exactly one bucket",
        *n);
  bucket_split result{std::move(buckets), {}};
  if (result.buckets.size() < 2) return result;
  std::vector<std::uint32_t> bucket_of(g.list().size());
  for (std::uint32_t i = 0; i < result.buckets.size(); ++i)
    for (auto const n : result.buckets[i].nodes) bucket_of[n] = i;
  std::size_t asked = 0;  // number of calls so far, in graph order
  auto const part_of = [&](module_node const&) { return std::to_string(bucket_of[g.nodes()[asked++]]); };
  result.split = split_module(g, part_of, {.stages = stages});
  result.split->outer.metadata = g.metadata;
  for (auto& piece : result.split->pieces)
    piece.reason = detail::reason_of_bucket(result.buckets[bucket_of[piece.nodes.front()]]);
  return result;
}

/// Fills buckets by `fill_buckets` and cuts `g` into them.
/// \throws the errors of `fill_buckets` and of `split_at_buckets` for given buckets
inline bucket_split split_at_buckets(module_graph const& g, model_parameters const& parameters,
                                     module_bucket_options const& options = {},
                                     order stages = order::program) {
  return split_at_buckets(g, fill_buckets(g, parameters, options), stages);
}

}  // namespace cleave
