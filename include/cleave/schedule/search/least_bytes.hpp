// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/schedule/list/backward_choice.hpp"
#include "cleave/schedule/list/placed_step.hpp"

namespace cleave::inline v0_2 {

/// Returns for each rank the bytes that every schedule keeps there at some time, in addition to resident
/// bytes. When the last of a rank's stages runs a microbatch, all its earlier stages still keep theirs. A
/// chain needs no more than that, as `one_at_a_time` shows. O(stages * (stages + edges)).
inline std::vector<std::uint64_t> least_bytes(detail::placed_step const& step, backward_choice form) {
  std::vector<std::uint64_t> least(step.locals.size());
  std::vector<char> is_before;
  for (auto const s : step.order) {
    auto const rank = step.stages[s].rank;
    is_before.assign(step.stages.size(), 0);
    is_before[s] = 1;
    std::uint64_t kept = 0;
    for (auto it = step.order.rbegin(); it != step.order.rend(); ++it) {
      if (!is_before[*it]) continue;
      for (auto const e : step.stages[*it].before) is_before[step.feeding(e)] = 1;
      if (*it != s && step.stages[*it].rank == rank) kept += step.stages[*it].bytes.saved;
    }
    auto const& own = step.stages[s].bytes;
    kept += form == backward_choice::split ? (std::max)(own.saved, own.saved_for_weights) : own.saved;
    least[rank] = (std::max)(least[rank], kept);
  }
  return least;
}

/// A rank whose memory limit is below its need, both in bytes.
struct byte_shortage {
  rank_id rank{};
  std::uint64_t needed = 0, memory_limit = 0;

  bool operator==(byte_shortage const&) const = default;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the rank with the largest shortage, or nothing. O(stages * (stages + edges)).
inline std::optional<byte_shortage> find_byte_shortage(placed_step const& step, backward_choice form) {
  auto const least = least_bytes(step, form);
  std::optional<byte_shortage> worst;
  for (std::uint32_t r = 0; r < least.size(); ++r) {
    auto const needed = step.resident[r] + least[r];
    if (needed > step.memory_limit[r] &&
        (!worst || needed - step.memory_limit[r] > worst->needed - worst->memory_limit))
      worst = byte_shortage{rank_id{r}, needed, step.memory_limit[r]};
  }
  return worst;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Thrown if no schedule fits within the memory limits. The witness is the rank with the largest shortage, on
/// the placement where that shortage is smallest.
class byte_cap_error : public infeasible_error {
 public:
  explicit byte_cap_error(byte_shortage s)
      : infeasible_error(
            "schedule: rank " + std::to_string(index(s.rank)) + " needs " + std::to_string(s.needed) +
            " bytes at least, but its limit is " + std::to_string(s.memory_limit) +
            " bytes; raise the limit, give the rank fewer or smaller stages, or use smaller microbatches"),
        witness(s) {}
  byte_shortage witness;
};

}  // namespace cleave
