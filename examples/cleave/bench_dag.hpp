// SPDX-License-Identifier: MIT
#pragma once
#include <cleave/core/ids.hpp>
#include <cleave/partition/model/partition.hpp>
#include <cleave/partition/slices/balance.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "bench_algorithms.hpp"

namespace tool {

/// Maps parts of the snapshot to the nodes of the file.
inline std::vector<std::uint32_t> in_file_order(cleave::partition const& p,
                                                std::vector<std::size_t> const& position) {
  std::vector<std::uint32_t> part_of;
  part_of.reserve(position.size());
  for (auto const at : position) part_of.push_back(cleave::index(p.of[at]));
  return part_of;
}

inline cleave::balance_options seeded(bench_task const& task) {
  auto limits = task.dag->snapshot.options;
  limits.seed = task.seed;
  return limits;
}

/// `partition_exact`.
std::function<bench_answer()> exact_answer(bench_task const& task);

}  // namespace tool
