// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/action_text.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/schedule.hpp"

namespace cleave {

/// What a list may hold: passes and idle steps; or what has been lowered, without idle steps.
enum class row_contents : std::uint8_t { compute_only, with_communication };

/// How many of each there must be; 0: as many as the lists have.
struct row_counts {
  std::uint32_t ranks = 0, stages = 0, microbatches = 0;
};

}  // namespace cleave

namespace cleave::detail {

/// Why lists make no schedule, and where.
struct row_fault {
  enum class kind : std::uint8_t {
    rank_count,               ///< `got` lists instead of `needed`
    communication,            ///< in a list that may only compute
    idle,                     ///< in a list that has been lowered
    microbatch_missing,       ///< of an action that is about one
    microbatch_out_of_range,  ///< `got`; there are `needed`
    stage_out_of_range,       ///< `got`; there are `needed`
    stage_on_two_ranks,       ///< stage `got` is on rank `needed` too
    stage_on_no_rank,         ///< stage `got` does nothing
  };
  kind what;
  std::size_t row = 0, column = 0;  ///< of the cell, both from 0, where there is one
  std::string token = {};           ///< the cell
  std::uint64_t got = 0, needed = 0;

  bool operator==(row_fault const&) const = default;
};

/// What, where and how to mend it.
inline std::string describe(row_fault const& f) {
  using enum row_fault::kind;
  auto const got = std::to_string(f.got), needed = std::to_string(f.needed);
  auto const at = "row #" + std::to_string(f.row) + ", column #" + std::to_string(f.column) + ": " +
                  quoted(f.token) + " ";
  switch (f.what) {
    case rank_count:
      return "there are " + got + " rows for " + needed + " ranks; a blank line is a row too";
    case communication:
      return at + "is no computation; read it as a schedule with communication";
    case idle:
      return at + "is an idle step, which a schedule with communication does not have";
    case microbatch_missing:
      return at + "needs a microbatch";
    case microbatch_out_of_range:
      return at + "is about microbatch " + got + ", but there are only " + needed;
    case stage_out_of_range:
      return at + "is about stage " + got + ", but there are only " + needed;
    case stage_on_two_ranks:
      return at + "is about stage " + got + ", which is on rank " + needed + " too";
    case stage_on_no_rank:
      return "stage " + got + " is on no rank";
  }
  return {};
}

class row_error : public witness_error<row_fault> {
 public:
  explicit row_error(row_fault f) : witness_error("schedule: " + describe(f), f) {}
};

/// Looks at every cell once; `find_row_fault` and `schedule_from_rows` are its uses.
class row_survey {
 public:
  row_survey(std::span<std::vector<action> const> rows, row_contents contents, row_counts const& counts)
      : contents_(contents), counts_(counts) {
    if (counts.ranks != 0 ? rows.size() != counts.ranks : rows.empty()) {
      fault = row_fault{row_fault::kind::rank_count, 0, 0, {}, rows.size(), counts.ranks};
      return;
    }
    for (auto const& row : rows) actions_ += row.size();
    for (std::size_t r = 0; r < rows.size() && !fault; ++r)
      each_cell(rows[r],
                [&, column = std::size_t{0}](action const& a, std::span<action const> parts) mutable {
                  if (!fault) look_at(a, parts, r, column++);
                });
    if (fault) return;
    auto const missing = std::ranges::find(rank_of, no_rank);
    if (missing != rank_of.end() || rank_of.size() < counts.stages)
      fault = row_fault{row_fault::kind::stage_on_no_rank,
                        0,
                        0,
                        {},
                        static_cast<std::uint64_t>(missing - rank_of.begin()),
                        counts.stages};
  }

  std::optional<row_fault> fault;
  std::vector<rank_id> rank_of;  ///< of the stages up to the last that was seen
  std::uint32_t microbatches = 0;

 private:
  static constexpr rank_id no_rank{0xffffffff};
  using enum row_fault::kind;

  void look_at(action const& head, std::span<action const> parts, std::size_t row, std::size_t column) {
    auto const report = [&](row_fault::kind what, std::uint64_t got = 0, std::uint64_t needed = 0) {
      fault = row_fault{what, row, column, cell_text(head, parts), got, needed};
    };
    bool const lowered = contents_ == row_contents::with_communication;
    if (head.kind == action_kind::idle) return void(lowered ? report(idle) : void());
    for (action const& a : parts.empty() ? std::span(&head, 1) : parts) {
      if (!lowered && !is_compute(a.kind)) return report(communication);
      if (has_microbatch(a.kind) && a.microbatch == no_microbatch) return report(microbatch_missing);
      if (a.microbatch != no_microbatch) {
        if (counts_.microbatches != 0 && index(a.microbatch) >= counts_.microbatches)
          return report(microbatch_out_of_range, index(a.microbatch), counts_.microbatches);
        microbatches = (std::max)(microbatches, index(a.microbatch) + 1);
      }
      std::uint32_t const s = index(a.stage);
      if (counts_.stages != 0 && s >= counts_.stages) return report(stage_out_of_range, s, counts_.stages);
      // Each stage has an action, so a larger number leaves one of those below it without.
      if (s >= actions_) return report(stage_out_of_range, s, actions_);
      if (s >= rank_of.size()) rank_of.resize(std::size_t{s} + 1, no_rank);
      auto& rank = rank_of[s];
      if (rank == no_rank) rank = rank_id{static_cast<std::uint32_t>(row)};
      if (index(rank) != row) return report(stage_on_two_ranks, s, index(rank));
    }
  }

  row_contents contents_;
  row_counts counts_;
  std::size_t actions_ = 0;
};

/// The first thing that keeps lists from being a schedule, or nothing. Only whether stages, ranks and
/// microbatches fit; not whether anything is done once and in order. O(actions).
inline std::optional<row_fault> find_row_fault(std::span<std::vector<action> const> rows,
                                               row_contents contents = row_contents::compute_only,
                                               row_counts const& counts = {}) {
  return row_survey(rows, contents, counts).fault;
}

}  // namespace cleave::detail

namespace cleave {

/// One list a rank as a schedule: each stage is on the rank that does something with it, and feeds the next
/// one. O(actions). \throws row_error
inline schedule schedule_from_rows(std::vector<std::vector<action>> rows,
                                   row_contents contents = row_contents::compute_only,
                                   row_counts const& counts = {}) {
  detail::row_survey survey(rows, contents, counts);
  if (survey.fault) throw detail::row_error(*survey.fault);
  auto const stages = static_cast<std::uint32_t>(survey.rank_of.size());
  auto const ranks = static_cast<std::uint32_t>(rows.size());
  return {{ranks, std::move(survey.rank_of), chain_edges(stages)},
          counts.microbatches != 0 ? counts.microbatches : survey.microbatches,
          std::move(rows)};
}

}  // namespace cleave
