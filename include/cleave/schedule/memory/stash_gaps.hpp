// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cleave/schedule/memory/share_slots.hpp"

namespace cleave::detail {

/// Cells in which nothing uses a stash, so that it need not be there.
struct stash_gap {
  lifetime free;  ///< the first of these cells, and the last
  std::uint64_t bytes = 0;

  bool operator==(stash_gap const&) const = default;
};

/// What must be kept in a cell although it is more than may be.
struct stash_shortage {
  std::uint32_t cell = 0;
  std::uint64_t bytes = 0;

  bool operator==(stash_shortage const&) const = default;
};

/// Which gaps are used.
struct chosen_gaps {
  std::vector<std::uint32_t> gaps;         ///< by number, in the order in which they were chosen
  std::optional<stash_shortage> shortage;  ///< where no choice is enough; then nothing else counts

  bool operator==(chosen_gaps const&) const = default;
};

/// Chooses gaps so that no cell keeps more than `most`, where `kept` is what each keeps without any: from the
/// first cell to the last, where there is too much, the gap that goes on for the longest is used, as Belady's
/// rule has it. Where all gaps are of one size, no choice is smaller. A shortage means that there is no
/// choice at all. Precondition: gaps lie in the cells. O(cells + gaps log gaps).
inline chosen_gaps choose_gaps(std::span<std::uint64_t const> kept, std::span<stash_gap const> gaps,
                               std::uint64_t most) {
  std::vector<std::uint32_t> begins(gaps.size()), open;
  for (std::uint32_t g = 0; g < begins.size(); ++g) begins[g] = g;
  std::ranges::sort(begins, {}, [&](std::uint32_t g) { return std::pair(gaps[g].free.first, g); });
  auto const ends_sooner = [&](std::uint32_t a, std::uint32_t b) {
    auto const &one = gaps[a], &other = gaps[b];
    if (one.free.last != other.free.last) return one.free.last < other.free.last;
    return one.bytes != other.bytes ? one.bytes < other.bytes : a > b;
  };
  std::vector<std::uint64_t> comes_back(kept.size() + 1);  // after the cell before
  chosen_gaps chosen;
  std::uint64_t away = 0;
  std::size_t begun = 0;
  for (std::uint32_t cell = 0; cell < kept.size(); ++cell) {
    away -= comes_back[cell];
    for (; begun < begins.size() && gaps[begins[begun]].free.first == cell; ++begun) {
      open.push_back(begins[begun]);
      std::ranges::push_heap(open, ends_sooner);
    }
    while (kept[cell] - away > most) {
      if (open.empty() || gaps[open.front()].free.last < cell) {
        chosen.shortage = stash_shortage{cell, kept[cell] - away};
        return chosen;
      }
      std::ranges::pop_heap(open, ends_sooner);
      auto const gap = open.back();
      open.pop_back();
      away += gaps[gap].bytes;
      comes_back[gaps[gap].free.last + std::size_t{1}] += gaps[gap].bytes;
      chosen.gaps.push_back(gap);
    }
  }
  return chosen;
}

}  // namespace cleave::detail
