// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/run/program/rank_program.hpp"
#include "cleave/schedule/model/action.hpp"

namespace cleave::inline v0_2::detail {

/// A forward and a backward pass of one OVERLAP_F_B, as positions of their instructions. Those between the
/// two only wait for what the second pass needs.
struct overlapped_pair {
  std::uint32_t forward, backward;

  std::uint32_t first() const { return forward < backward ? forward : backward; }
  std::uint32_t last() const { return forward < backward ? backward : forward; }
  bool operator==(overlapped_pair const&) const = default;
};

/// Returns true if an instruction between the passes of a pair may be issued before both.
constexpr bool may_precede_pair(call_kind k) {
  return k == call_kind::wait_receive || k == call_kind::wait_unshard || k == call_kind::loss ||
         k == call_kind::release || k == call_kind::local_transfer;
}

/// Returns the compounds of one F and one B, in order, except for those with any other action and those that
/// stages execute by `custom`. O(instructions).
inline std::vector<overlapped_pair> overlapped_pairs(rank_program const& p) {
  std::vector<overlapped_pair> pairs;
  auto const& all = p.instructions;
  for (std::uint32_t i = 0; i < all.size();) {
    std::uint32_t forward = 0, backward = 0, others = 0;
    overlapped_pair pair{};
    auto const cell = all[i].call.cell;
    for (; i < all.size() && all[i].call.cell == cell; ++i) {
      auto const kind = all[i].call.kind;
      if (kind == call_kind::forward)
        ++forward, pair.forward = i;
      else if (kind == call_kind::backward)
        ++backward, pair.backward = i;
      else if (!may_precede_pair(kind))
        ++others;
    }
    if (forward == 1 && backward == 1 && others == 0) pairs.push_back(pair);
  }
  return pairs;
}

/// Returns `(0F3;3B1)OVERLAP_F_B`.
inline std::string overlapped_text(action const& forward, action const& backward) {
  action const head{.kind = action_kind::overlap, .parts = 2};
  return cell_text(head, std::array{forward, backward});
}

/// Returns true if the backward pass of a pair needs its forward pass. In a verified schedule no other pass
/// can be between them.
inline bool is_dependent(rank_program const& p, overlapped_pair const& pair) {
  auto const &f = p.instructions[pair.forward].call.of, &b = p.instructions[pair.backward].call.of;
  return f.stage == b.stage && f.microbatch == b.microbatch;
}

}  // namespace cleave::detail
