// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "cleave/core/language.hpp"
#include "cleave/graph/adjacency.hpp"
#include "cleave/partition/kway/kway.hpp"
#include "cleave/partition/kway/options.hpp"
#include "cleave/partition/model/partition.hpp"

/// Which k-way partitions the library cleave::compiled has: of arrays with 32-bit and 64-bit indices, and of
/// either with integer and with floating weights. Whoever links with it does not compile them again.
#ifdef CLEAVE_COMPILED
namespace cleave {

extern template kway_partition<std::int64_t, std::int64_t> partition_kway(
    adjacency_view<std::uint32_t, std::int64_t>, std::uint32_t, kway_options const&);
extern template kway_partition<std::int64_t, std::int64_t> refine_kway(
    adjacency_view<std::uint32_t, std::int64_t>, partition const&, kway_options const&);
extern template kway_partition<double, double> partition_kway(adjacency_view<std::uint32_t, double>,
                                                              std::uint32_t, kway_options const&);
extern template kway_partition<double, double> refine_kway(adjacency_view<std::uint32_t, double>,
                                                           partition const&, kway_options const&);
extern template kway_partition<std::int64_t, std::int64_t> partition_kway(
    adjacency_view<std::uint64_t, std::int64_t>, std::uint32_t, kway_options const&);
extern template kway_partition<std::int64_t, std::int64_t> refine_kway(
    adjacency_view<std::uint64_t, std::int64_t>, partition const&, kway_options const&);
extern template kway_partition<double, double> partition_kway(adjacency_view<std::uint64_t, double>,
                                                              std::uint32_t, kway_options const&);
extern template kway_partition<double, double> refine_kway(adjacency_view<std::uint64_t, double>,
                                                           partition const&, kway_options const&);

}  // namespace cleave
#endif
