// SPDX-License-Identifier: MIT
// K-way partitions of arrays, compiled once for both widths of an index and both kinds of weights.
#include "cleave/partition/kway/compiled.hpp"

namespace cleave {

template kway_partition<std::int64_t, std::int64_t> partition_kway(
    adjacency_view<std::uint32_t, std::int64_t>, std::uint32_t, kway_options const&);
template kway_partition<std::int64_t, std::int64_t> refine_kway(adjacency_view<std::uint32_t, std::int64_t>,
                                                                partition const&, kway_options const&);
template kway_partition<double, double> partition_kway(adjacency_view<std::uint32_t, double>, std::uint32_t,
                                                       kway_options const&);
template kway_partition<double, double> refine_kway(adjacency_view<std::uint32_t, double>, partition const&,
                                                    kway_options const&);
template kway_partition<std::int64_t, std::int64_t> partition_kway(
    adjacency_view<std::uint64_t, std::int64_t>, std::uint32_t, kway_options const&);
template kway_partition<std::int64_t, std::int64_t> refine_kway(adjacency_view<std::uint64_t, std::int64_t>,
                                                                partition const&, kway_options const&);
template kway_partition<double, double> partition_kway(adjacency_view<std::uint64_t, double>, std::uint32_t,
                                                       kway_options const&);
template kway_partition<double, double> refine_kway(adjacency_view<std::uint64_t, double>, partition const&,
                                                    kway_options const&);

}  // namespace cleave
