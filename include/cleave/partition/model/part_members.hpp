// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

#include "cleave/core/ids.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/partition/model/partition.hpp"

namespace cleave {

/// Of each part its nodes, ascending; nodes without a part are in none. O(n + k).
inline detail::csr<std::size_t> part_members(partition const& p) {
  detail::csr<std::size_t> members;
  members.first.assign(p.parts + std::size_t{1}, 0);
  for (auto const part : p.of)
    if (index(part) < p.parts) ++members.first[index(part) + std::size_t{1}];
  for (std::size_t i = 0; i < p.parts; ++i) members.first[i + 1] += members.first[i];
  members.item.resize(members.first.back());
  auto next = members.first;
  for (std::size_t n = 0; n < p.of.size(); ++n)
    if (index(p.of[n]) < p.parts) members.item[next[index(p.of[n])]++] = n;
  return members;
}
}  // namespace cleave
