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

namespace cleave::detail {

/// Cells in which nothing uses a saved activations, so that it need not be there.
struct saved_gap {
  lifetime free;  ///< the first of these cells, and the last
  std::uint64_t bytes = 0;

  bool operator==(saved_gap const&) const = default;
};

/// What must be kept in a cell although it is more than may be.
struct saved_shortage {
  std::uint32_t cell = 0;
  std::uint64_t bytes = 0;

  bool operator==(saved_shortage const&) const = default;
};

/// Which gaps are used.
struct chosen_gaps {
  std::vector<std::uint32_t> gaps;         ///< by number, in the order in which they were chosen
  std::optional<saved_shortage> shortage;  ///< where no choice is enough; then nothing else counts

  bool operator==(chosen_gaps const&) const = default;
};

/// Chooses gaps so that no cell keeps more than `most`, where `kept` is what each keeps without any: from the
/// first cell to the last, where there is too much, the gap that goes on for the longest is used, as Belady's
/// rule has it. Where all gaps are of one size, no choice is smaller. A shortage means that there is no
/// choice at all. Precondition: gaps lie in the cells. O(cells + gaps log gaps).
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

namespace cleave {

/// What becomes of a saved activations that there is no room for, between its F and its B or I.
enum class saved_relief : std::uint8_t {
  none,       ///< it stays
  offload,    ///< OFFLOAD after F, RELOAD before B or I
  recompute,  ///< let go after F but for its input; RECOMPUTE before B or I
};

struct saved_activation_limit {
  schedule_bytes bytes = {};                                   ///< without any, saved activations are counted
  std::vector<std::uint64_t> memory_limit = {};                ///< of each rank; one for all; none: no limit
  std::vector<saved_relief> relief = {saved_relief::offload};  ///< of each stage, or one for all
  std::uint32_t ahead = 0;  ///< by how many cells RELOAD comes before what needs it; there is room meanwhile
};

}  // namespace cleave

namespace cleave::detail {

/// A cell in which a rank must keep more than it may, whatever is let go.
struct saved_limit_fault {
  static constexpr char subject[] = "stashes: ";
  rank_id rank{};
  action at = {};  ///< or the first part of the compound
  std::uint64_t needed = 0, allowed = 0;

  bool operator==(saved_limit_fault const&) const = default;
};

inline std::string describe(saved_limit_fault const& f) {
  return "rank " + std::to_string(index(f.rank)) + " must keep " + std::to_string(f.needed) + " bytes at '" +
         action_text(f.at) + "' and may keep " + std::to_string(f.allowed) +
         "; allow more, keep fewer microbatches, or let more stages offload or recompute";
}

using saved_limit_error = fault_error<saved_limit_fault>;

/// Finds and makes room on one rank.
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

  /// The list with what makes room. Precondition: there is no fault.
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
    // Of one place, what lets go comes before what takes.
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
    std::uint32_t before;  ///< which cell
    action what;
  };

  std::uint64_t allowed() const { return one_or_each(limit_.memory_limit)[rank_]; }
  saved_relief relief_of(stage_id s) const { return one_or_each(limit_.relief)[index(s)]; }

  /// A saved activations that has been offloaded or is recomputed already has two stays, and no gap.
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

/// A limit that goes with a schedule. \throws schedule_error, schedule_bytes_error
inline void require_saved_limit(schedule const& s, saved_activation_limit const& limit) {
  expects(one_or_each(limit.memory_limit).covers(s.ranks.size()),
          "a limit for every rank, for all at once, or none");
  expects(!limit.relief.empty() && one_or_each(limit.relief).covers(s.place.stages()),
          "a relief for every stage, or for all at once");
  require_schedule(s, {.passes = passes_of(s)});
  if (auto const f = find_schedule_bytes_fault(limit.bytes, s.place, count_actions(s)))
    throw schedule_bytes_error(*f);
}

/// Where the limit cannot be kept whatever is let go, the first such cell of the lowest rank, or nothing.
/// Cost and preconditions as of `limit_saved_activations`. \throws schedule_error, schedule_bytes_error
inline std::optional<saved_limit_fault> find_saved_limit_fault(schedule const& s,
                                                               saved_activation_limit const& limit) {
  require_saved_limit(s, limit);
  for (std::uint32_t r = 0; r < s.ranks.size() && !limit.memory_limit.empty(); ++r)
    if (auto f = saved_limiter(s, r, limit).fault()) return f;
  return std::nullopt;
}

}  // namespace cleave::detail

namespace cleave {

/// A schedule, computing only or lowered, whose ranks never keep more saved activations than they may: where
/// there would be too much, the saved activations that is needed last is offloaded, or recomputed, as its
/// stage has it. With saved activations of one size, none is moved that could stay. What is offloaded or
/// recomputed already is left so. Precondition: a number for each rank, stage, or one for all. O(actions log
/// actions).
/// \throws schedule_error, schedule_bytes_error, saved_limit_error
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
