// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

#include "cleave/core/error.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/graph/adjacency.hpp"
#include "cleave/partition/classic/detail/integral_graph.hpp"
#include "cleave/partition/classic/growing.hpp"
#include "cleave/partition/classic/kernighan_lin.hpp"
#include "cleave/partition/classic/label_propagation.hpp"
#include "cleave/partition/classic/measured_partition.hpp"
#include "cleave/partition/classic/part_targets.hpp"
#include "cleave/partition/classic/partition_by_bisection.hpp"
#include "cleave/partition/classic/spectral.hpp"

namespace cleave::inline v0_2 {

/// A bisector: grows one side greedily, then refines it by Kernighan-Lin swaps.
struct grow_and_swap {
  detail::node_sides operator()(detail::integral_graph const& g, detail::part_targets const& two,
                                std::uint64_t seed) const {
    auto const grown = detail::part_growing(g, two, growing_rule::greedy).run(seed);
    detail::node_sides side(grown.begin(), grown.end());
    detail::kl_walk(g, two.most).run(side, kl_options{}.passes);
    return side;
  }
};

/// A partitioning method with its name and a description.
struct named_method {
  std::string_view name, what;
};

/// The methods that `classic_partition` accepts.
inline constexpr std::array<named_method, 7> classic_methods{{
    {"growing", "parts grown breadth first"},
    {"greedy-growing", "parts grown by least cut"},
    {"labels", "parts grown by least cut, then label propagation"},
    {"kl", "recursive bisection: growing, Kernighan and Lin (some ten thousand nodes)"},
    {"fm", "recursive bisection: growing, Fiduccia and Mattheyses"},
    {"spectral", "recursive bisection at the median of the Fiedler vector"},
    {"spectral-fm", "spectral bisection, then Fiduccia and Mattheyses"},
}};

/// Partitions a graph into k parts by the method with this name.
/// \throws error if the name is unknown, and the errors of the method.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
measured_partition classic_partition(std::string_view name,
                                     adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g, std::uint32_t k,
                                     bisection_options const& o = {}) {
  if (name == "growing")
    return partition_by_growing(g, k,
                                {.rule = growing_rule::breadth_first, .weights = o.weights, .seed = o.seed});
  if (name == "greedy-growing") return partition_by_growing(g, k, {.weights = o.weights, .seed = o.seed});
  if (name == "labels")
    return refine_by_labels(g, partition_by_growing(g, k, {.weights = o.weights, .seed = o.seed}),
                            {.weights = o.weights, .seed = o.seed});
  if (name == "kl") return partition_by_bisection(g, k, grow_and_swap{}, o);
  if (name == "fm") return partition_by_bisection(g, k, grow_and_move{}, o);
  if (name == "spectral") return partition_spectral(g, k, {}, o);
  if (name == "spectral-fm") return partition_spectral(g, k, {.passes = 10}, o);
  std::string known;
  for (auto const& m : classic_methods) known += (known.empty() ? "" : ", ") + std::string(m.name);
  throw error(quoted(name) + " is not the name of a classic method; known names: " + known);
}
}  // namespace cleave
