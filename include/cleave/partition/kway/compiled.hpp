// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "cleave/core/language.hpp"
#include "cleave/graph/adjacency.hpp"
#include "cleave/partition/kway/kway.hpp"
#include "cleave/partition/kway/options.hpp"
#include "cleave/partition/model/partition.hpp"

/// Declares the instantiations that the library cleave::compiled contains, if `CLEAVE_COMPILED` is defined.
/// Files that link with it then do not compile them again.
#ifdef CLEAVE_COMPILED
namespace cleave::inline v0_2 {

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
