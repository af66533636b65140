// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/schedule/lower/rank_stages.hpp"
#include "cleave/schedule/memory/share_slots.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/stage_cost.hpp"

namespace cleave::inline v0_2::detail {

/// The kind of data that a pass saves for a later one.
enum class saved_kind : std::uint8_t {
  saved,  ///< saved by F for B or I
  input,  ///< the part kept from F to B or I if RECOMPUTE makes the rest again; `saved` is then that rest
  saved_for_weights,  ///< saved by I for W
};

/// An unbroken range of cells during which saved activations are in the memory of their rank.
struct saved_interval {
  saved_kind what;
  stage_id stage;
  microbatch_id microbatch;
  lifetime alive;
  std::uint64_t bytes;

  bool operator==(saved_interval const&) const = default;
};

/// Follows the saved activations along one list, for `saved_intervals`.
class saved_walk {
 public:
  saved_walk(schedule const& s, std::uint32_t rank, schedule_bytes const& bytes)
      : row_(s.ranks[rank]),
        microbatches_(s.microbatches),
        bytes_(bytes),
        stages_(row_),
        pairs_(stages_.count() * std::size_t{s.microbatches}) {}

  std::vector<saved_interval> take() {
    std::uint32_t cell = 0;
    each_cell(row_, [&](action const& head, std::span<action const> parts) {
      each_action(parts.empty() ? std::span(&head, 1) : parts, [&](action const& a) { follow(a, cell); });
      ++cell;
    });
    std::erase_if(stays_, [](saved_interval const& s) { return s.bytes == 0; });
    return std::move(stays_);
  }

 private:
  static constexpr std::uint32_t none = 0xffffffff;
  struct saved_pair {
    std::uint32_t saved = none, input = none, saved_for_weights = none;  // the latest interval of each kind
  };

  void follow(action const& a, std::uint32_t cell) {
    using enum action_kind;
    if (!has_microbatch(a.kind) || is_message(a.kind)) return;
    auto& pair = pairs_[stages_.number(a.stage) * std::size_t{microbatches_} + index(a.microbatch)];
    auto const size = bytes_.of_stage(index(a.stage));
    if (a.kind == forward) {
      pair.saved = begin(saved_kind::saved, a, cell, size.saved);
    } else if (a.kind == reload) {
      pair.saved = begin(saved_kind::saved, a, cell, stays_[pair.saved].bytes);
    } else if (a.kind == offload) {
      stays_[pair.saved].alive.last = cell;
    } else if (a.kind == recompute) {
      auto const input = (std::min)(size.input, size.saved);
      auto const made = stays_[pair.saved].alive.first;
      stays_[pair.saved].bytes = size.saved - input;
      stays_[pair.saved].alive.last = made;
      pair.input = begin(saved_kind::input, a, made, input);
      pair.saved = begin(saved_kind::saved, a, cell, size.saved - input);
    } else if (a.kind == weight_gradient) {
      stays_[pair.saved_for_weights].alive.last = cell;
    } else {
      stays_[pair.saved].alive.last = cell;
      if (pair.input != none) stays_[pair.input].alive.last = cell;
      if (a.kind == input_gradient)
        pair.saved_for_weights = begin(saved_kind::saved_for_weights, a, cell, size.saved_for_weights);
    }
  }

  std::uint32_t begin(saved_kind what, action const& a, std::uint32_t cell, std::uint64_t bytes) {
    stays_.push_back({what, a.stage, a.microbatch, {cell, cell}, bytes});
    return static_cast<std::uint32_t>(stays_.size() - 1);
  }

  std::span<action const> row_;
  std::uint32_t microbatches_;
  schedule_bytes const& bytes_;
  rank_stages stages_;
  std::vector<saved_pair> pairs_;
  std::vector<saved_interval> stays_;
};

/// Returns the intervals during which saved activations are in the memory of a rank, in the order in which
/// they begin in the list.
///
/// Offloaded activations are in memory up to OFFLOAD and again from RELOAD on. Recomputed activations are in
/// memory in the cell of their F and from RECOMPUTE on. Activations that no pass uses are in memory in the
/// cell of their F only. Intervals of 0 bytes are left out. Precondition: the schedule has no fault, and
/// `bytes` matches it. O(actions log(stages)).
inline std::vector<saved_interval> saved_intervals(schedule const& s, std::uint32_t rank,
                                                   schedule_bytes const& bytes) {
  return saved_walk(s, rank, bytes).take();
}

/// Returns the bytes of all intervals of a rank, by cell. O(intervals + cells).
inline std::vector<std::uint64_t> saved_activation_bytes(std::span<saved_interval const> stays,
                                                         std::size_t cells) {
  std::vector<std::uint64_t> bytes(cells + 1);
  for (auto const& s : stays) {
    bytes[s.alive.first] += s.bytes;
    bytes[s.alive.last + std::size_t{1}] -= s.bytes;  // intermediate values may wrap; the sums are below 2^64
  }
  for (std::size_t c = 1; c < bytes.size(); ++c) bytes[c] += bytes[c - 1];
  bytes.pop_back();
  return bytes;
}

/// Returns the number of cells of a list. O(actions).
inline std::size_t count_cells(std::span<action const> row) {
  std::size_t cells = 0;
  each_cell(row, [&](action const&, std::span<action const>) { ++cells; });
  return cells;
}

/// Returns the most bytes that saved activations occupy at a time, for each rank. Precondition and complexity
/// as for `saved_intervals`.
inline std::vector<std::uint64_t> max_saved_bytes(schedule const& s, schedule_bytes const& bytes) {
  std::vector<std::uint64_t> most;
  for (std::uint32_t r = 0; r < s.ranks.size(); ++r) {
    auto const by_cell = saved_activation_bytes(saved_intervals(s, r, bytes), count_cells(s.ranks[r]));
    most.push_back(by_cell.empty() ? 0 : (std::ranges::max)(by_cell));
  }
  return most;
}

}  // namespace cleave::detail
