// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/schedule/model/simulate_options.hpp"

namespace cleave::inline v0_2 {

/// Options of `mpi::measure_links` and `cuda::measure_links`.
struct link_measurement {
  std::uint32_t rounds = 21;                 ///< round trips of each size, of which the median counts
  std::size_t bytes = std::size_t{4} << 20;  ///< of a long message, at most 1 GiB
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Checks options. \throws error
inline void check_link_measurement(link_measurement const& o) {
  if (o.rounds == 0 || o.rounds > 100'000 || o.bytes == 0 || o.bytes > std::size_t{1} << 30)
    throw error("measure_links: rounds must be from 1 to 100000, and bytes from 1 to 1073741824; found " +
                std::to_string(o.rounds) + " and " + std::to_string(o.bytes));
}

/// Returns a link by the median times of round trips of short messages and of messages of `bytes`, in
/// seconds.
inline rank_link link_of_round_trips(double brief, double whole, std::size_t bytes) {
  return {brief / 2, static_cast<double>(bytes) / (std::max)((whole - brief) / 2, 1e-12)};
}

/// Measures the links between `ranks` ranks, one pair at a time. `wait_for_all()` is a barrier;
/// `trips(peer, bytes)` returns the times of round trips to a rank, which both ranks call; `largest(list)`
/// replaces each number by the largest one of all ranks.
template <class Barrier, class Trips, class Largest>
std::vector<rank_link> measure_pairs(std::size_t here, std::size_t ranks, link_measurement const& o,
                                     Barrier wait_for_all, Trips trips, Largest largest) {
  auto const median = [&](std::size_t peer, std::size_t bytes) {
    auto times = trips(peer, bytes);
    std::ranges::sort(times);
    return times[times.size() / 2];
  };
  std::vector<double> figures(2 * ranks * ranks);  // of each pair: latency, and bandwidth
  for (std::size_t a = 0; a < ranks; ++a)
    for (std::size_t b = a + 1; b < ranks; ++b) {
      wait_for_all();
      if (here != a && here != b) continue;
      auto const peer = here == a ? b : a;
      auto const brief = median(peer, 1), whole = median(peer, o.bytes);
      if (here != a) continue;  // which measured from its own beginning
      auto const link = link_of_round_trips(brief, whole, o.bytes);
      for (auto const i : {a * ranks + b, b * ranks + a})
        figures[2 * i] = link.latency, figures[2 * i + 1] = link.bandwidth;
    }
  largest(figures);
  std::vector<rank_link> links(ranks * ranks);
  for (std::size_t i = 0; i < links.size(); ++i)
    if (figures[2 * i + 1] > 0) links[i] = {figures[2 * i], figures[2 * i + 1]};
  return links;
}

}  // namespace cleave::detail
