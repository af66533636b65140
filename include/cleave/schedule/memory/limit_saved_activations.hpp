// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/one_or_each.hpp"
#include "cleave/schedule/memory/detail/saved_intervals.hpp"
#include "cleave/schedule/memory/share_slots.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/stage_cost.hpp"
#include "cleave/schedule/verify/verify.hpp"

namespace cleave::inline v0_2::detail {

/// A range of cells in which saved activations lie unused, so that they may leave the memory.
struct saved_gap {
  lifetime free;  ///< the first and the last of these cells
  std::uint64_t bytes = 0;

  bool operator==(saved_gap const&) const = default;
};

/// A cell in which more bytes must be kept than the limit allows.
struct saved_shortage {
  std::uint32_t cell = 0;
  std::uint64_t bytes = 0;

  bool operator==(saved_shortage const&) const = default;
};

/// The gaps that were chosen to free memory.
struct chosen_gaps {
  std::vector<std::uint32_t> gaps;         ///< indices of gaps, in the order in which they were chosen
  std::optional<saved_shortage> shortage;  ///< set if no choice suffices; `gaps` is then meaningless

  bool operator==(chosen_gaps const&) const = default;
};

/// Chooses gaps so that no cell keeps more than `most` bytes. `kept` holds the bytes of each cell if no gap
/// is used. Scans the cells in order; while a cell holds too much, the open gap that ends last is used, as in
/// Belady's rule. If all gaps have the same size, no smaller choice exists. A shortage proves that no choice
/// of gaps suffices. Precondition: gaps lie within the cells. O(cells + gaps log gaps).
inline chosen_gaps choose_gaps(std::span<std::uint64_t const> kept, std::span<saved_gap const> gaps,
                               std::uint64_t most) {
  std::vector<std::uint32_t> begins(gaps.size()), open;
  for (std::uint32_t g = 0; g < begins.size(); ++g) begins[g] = g;
  std::ranges::sort(begins, {}, [&](std::uint32_t g) { return std::pair(gaps[g].free.first, g); });
  auto const ends_sooner = [&](std::uint32_t a, std::uint32_t b) {
    auto const &one = gaps[a], &other = gaps[b];
    if (one.free.last != other.free.last) return one.free.last < other.free.last;
    return one.bytes != other.bytes ? one.bytes < other.bytes : a > b;
  };
  std::vector<std::uint64_t> comes_back(kept.size() +
                                        1);  // bytes that return to memory at the start of each cell
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
        chosen.shortage = saved_shortage{cell, kept[cell] - away};
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

namespace cleave::inline v0_2 {

/// The treatment of saved activations that exceed the memory limit, between F and B or I.
enum class saved_relief : std::uint8_t {
  none,       ///< they stay in memory
  offload,    ///< OFFLOAD after F, RELOAD before B or I
  recompute,  ///< all but the stage's input is dropped after F; RECOMPUTE before B or I
};

/// The memory limit of saved activations, and how to meet it.
struct saved_activation_limit {
  schedule_bytes bytes = {};  ///< sizes; if empty, every stage's saved activations count as one byte
  std::vector<std::uint64_t> memory_limit =
      {};  ///< bytes per rank: one for each, one for all, or empty for no limit
  std::vector<saved_relief> relief = {saved_relief::offload};  ///< one for each stage, or one for all
  std::uint32_t ahead = 0;  ///< number of cells by which RELOAD precedes the pass that needs it; the memory
                            ///< is reserved meanwhile
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// A cell in which a rank exceeds its limit whatever it offloads or recomputes.
struct saved_limit_fault {
  static constexpr char subject[] = "saved activations: ";
  rank_id rank{};
  action at = {};  ///< the action, or the first part if the cell is a compound
  std::uint64_t needed = 0, allowed = 0;

  bool operator==(saved_limit_fault const&) const = default;
};

inline std::string describe(saved_limit_fault const& f) {
  return "rank " + std::to_string(index(f.rank)) + " must keep " + std::to_string(f.needed) +
         " bytes of saved activations at '" + action_text(f.at) + "', but its limit is " +
         std::to_string(f.allowed) +
         " bytes; raise the limit, keep fewer microbatches in flight, or let more stages offload or "
         "recompute";
}

using saved_limit_error = fault_error<saved_limit_fault>;

/// Chooses the saved activations that leave the memory of one rank, and inserts the actions for it.
class saved_limiter {
 public:
  saved_limiter(schedule const& s, std::uint32_t rank, saved_activation_limit const& limit)
      : row_(s.ranks[rank]), rank_(rank), limit_(limit), stays_(saved_intervals(s, rank, limit.bytes)) {
    list_gaps();
    kept_ = saved_activation_bytes(stays_, count_cells(row_));
    chosen_ = choose_gaps(kept_, gaps_, allowed());
  }

  std::optional<saved_limit_fault> fault() const {
    if (!chosen_.shortage) return std::nullopt;
    std::uint32_t cell = 0;
    action at;
    each_cell(row_, [&](action const& head, std::span<action const> parts) {
      if (cell++ == chosen_.shortage->cell) at = parts.empty() ? head : parts.front();
    });
    return saved_limit_fault{rank_id{rank_}, at, chosen_.shortage->bytes, allowed()};
  }

  /// Returns the list with the inserted actions. Precondition: there is no fault.
  std::vector<action> take() const {
    std::vector<insertion> added;
    for (auto const g : chosen_.gaps) {
      auto const& stay = stays_[stay_of_gap_[g]];
      auto const add = [&](action_kind kind, std::uint32_t before) {
        added.push_back({before, {kind, 0, stay.stage, stay.microbatch, no_stage}});
      };
      if (relief_of(stay.stage) == saved_relief::offload) add(action_kind::offload, gaps_[g].free.first);
      add(relief_of(stay.stage) == saved_relief::offload ? action_kind::reload : action_kind::recompute,
          gaps_[g].free.last + 1);
    }
    // In one place, actions that free memory precede those that take it.
    std::ranges::sort(added, {}, [](insertion const& i) {
      return std::tuple(i.before, i.what.kind, index(i.what.stage), index(i.what.microbatch));
    });
    std::vector<action> row;
    row.reserve(row_.size() + added.size());
    std::size_t next = 0;
    std::uint32_t cell = 0;
    each_cell(row_, [&](action const& head, std::span<action const> parts) {
      for (; next < added.size() && added[next].before == cell; ++next) row.push_back(added[next].what);
      row.push_back(head);
      row.insert(row.end(), parts.begin(), parts.end());
      ++cell;
    });
    return row;
  }

 private:
  struct insertion {
    std::uint32_t before;  ///< index of a cell
    action what;
  };

  std::uint64_t allowed() const { return one_or_each(limit_.memory_limit)[rank_]; }
  saved_relief relief_of(stage_id s) const { return one_or_each(limit_.relief)[index(s)]; }

  /// Saved activations that are already offloaded or recomputed have two intervals; they get no gap.
  void list_gaps() {
    std::vector<std::uint32_t> saved_activations;
    for (std::uint32_t i = 0; i < stays_.size(); ++i)
      if (stays_[i].what == saved_kind::saved) saved_activations.push_back(i);
    auto const pair = [&](std::uint32_t i) { return std::pair(stays_[i].stage, stays_[i].microbatch); };
    std::ranges::sort(saved_activations, {}, [&](std::uint32_t i) { return std::pair(pair(i), i); });
    for (std::size_t i = 0; i < saved_activations.size(); ++i) {
      bool const again =
          (i > 0 && pair(saved_activations[i - 1]) == pair(saved_activations[i])) ||
          (i + 1 < saved_activations.size() && pair(saved_activations[i + 1]) == pair(saved_activations[i]));
      if (!again) add_gap(saved_activations[i]);
    }
  }

  void add_gap(std::uint32_t stay) {
    auto const& s = stays_[stay];
    auto const relief = relief_of(s.stage);
    auto const ahead = relief == saved_relief::offload ? limit_.ahead : 0;
    auto const input =
        relief == saved_relief::recompute ? limit_.bytes.of_stage(index(s.stage)).input : std::uint64_t{0};
    if (relief == saved_relief::none || input >= s.bytes) return;
    if (s.alive.last - s.alive.first < 2 || s.alive.last - s.alive.first - 2 < ahead) return;
    gaps_.push_back({{s.alive.first + 1, s.alive.last - 1 - ahead}, s.bytes - input});
    stay_of_gap_.push_back(stay);
  }

  std::span<action const> row_;
  std::uint32_t rank_;
  saved_activation_limit const& limit_;
  std::vector<saved_interval> stays_;
  std::vector<saved_gap> gaps_;
  std::vector<std::uint32_t> stay_of_gap_;
  std::vector<std::uint64_t> kept_;
  chosen_gaps chosen_;
};

/// Checks that a limit matches the schedule. \throws schedule_error, schedule_bytes_error
inline void require_saved_limit(schedule const& s, saved_activation_limit const& limit) {
  expects(one_or_each(limit.memory_limit).covers(s.ranks.size()),
          "memory_limit needs one entry for each rank, one for all, or none");
  expects(!limit.relief.empty() && one_or_each(limit.relief).covers(s.place.stages()),
          "relief needs one entry for each stage, or one for all");
  require_schedule(s, {.passes = passes_of(s)});
  if (auto const f = find_schedule_bytes_fault(limit.bytes, s.place, count_actions(s)))
    throw schedule_bytes_error(*f);
}

/// Returns the first cell of the lowest rank in which the limit cannot be met, or nothing. Complexity and
/// preconditions as for `limit_saved_activations`. \throws schedule_error, schedule_bytes_error
inline std::optional<saved_limit_fault> find_saved_limit_fault(schedule const& s,
                                                               saved_activation_limit const& limit) {
  require_saved_limit(s, limit);
  for (std::uint32_t r = 0; r < s.ranks.size() && !limit.memory_limit.empty(); ++r)
    if (auto f = saved_limiter(s, r, limit).fault()) return f;
  return std::nullopt;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Inserts OFFLOAD, RELOAD and RECOMPUTE so that no rank keeps more saved activations than its memory limit.
///
/// The schedule may contain only computation, or be lowered. Where a cell holds too much, the saved
/// activations that are needed last are offloaded or recomputed, as `relief` says for their stage. If all
/// saved activations have the same size, the number of moves is minimal. Existing offloads and recomputations
/// are left as they are. Precondition: `memory_limit` and `relief` hold one entry for each rank or stage, or
/// one for all. O(actions log actions).
/// \throws schedule_error if the schedule is faulty
/// \throws schedule_bytes_error if the sizes do not match it
/// \throws saved_limit_error if a limit cannot be met
inline schedule limit_saved_activations(schedule s, saved_activation_limit const& limit) {
  detail::require_saved_limit(s, limit);
  for (std::uint32_t r = 0; r < s.ranks.size() && !limit.memory_limit.empty(); ++r) {
    detail::saved_limiter const limiter(s, r, limit);
    if (auto f = limiter.fault()) throw detail::saved_limit_error(*f);
    s.ranks[r] = limiter.take();
  }
  return s;
}

}  // namespace cleave
