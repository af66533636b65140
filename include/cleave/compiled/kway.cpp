// SPDX-License-Identifier: MIT
// Instantiates `partition_kway` and `refine_kway` for 32-bit and 64-bit indices, integer and floating
// weights.
#include "cleave/partition/kway/compiled.hpp"

namespace cleave::inline v0_2 {

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
