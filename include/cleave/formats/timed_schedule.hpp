// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/formats/units.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_times.hpp"
#include "cleave/schedule/simulate/memory_over_time.hpp"

namespace cleave {

/// A schedule in time, for those who draw it or write it. It refers to what it shows, which must outlive it.
struct timed_schedule {
  std::string name;  ///< for titles
  schedule const& order;
  schedule_times const& times;                        ///< of `order`
  std::string time_unit = {};                         ///< of all times, where there is one
  std::vector<std::vector<memory_step>> memory = {};  ///< of each rank; none: not shown
  enum class unit : std::uint8_t { passes, bytes };
  unit memory_unit = unit::passes;          ///< what `memory` counts
  std::vector<action_place> critical = {};  ///< what the makespan is made of; none: not shown
};

}  // namespace cleave

namespace cleave::detail {

/// An action that takes time, to be drawn as a bar.
struct schedule_bar {
  rank_id rank;
  std::size_t position;  ///< in the list of the rank, parts counted
  action what;
  double begin, end;
  std::uint16_t lane = 0, lanes = 1;  ///< of a compound whose parts run together: which, of how many
  bool is_beside = false;             ///< goes on while the rank does what follows

  bool operator==(schedule_bar const&) const = default;
};

/// Whether an action goes on beside what follows: copies and collectives.
constexpr bool runs_beside(action_kind k) {
  using enum action_kind;
  return k == unshard || k == reduce_gradient || k == offload || k == reload;
}

/// Every action that takes time, rank after rank in the order of the lists. O(actions).
inline std::vector<schedule_bar> bars_of(schedule const& s, schedule_times const& times) {
  std::vector<schedule_bar> bars;
  for (std::uint32_t r = 0; r < s.ranks.size(); ++r) {
    auto const& row = s.ranks[r];
    auto const& spans = times.spans[r];
    auto const add = [&](std::size_t i, std::uint16_t lane, std::uint16_t lanes) {
      if (spans[i].end > spans[i].begin)
        bars.push_back(
            {rank_id{r}, i, row[i], spans[i].begin, spans[i].end, lane, lanes, runs_beside(row[i].kind)});
    };
    for (std::size_t i = 0; i < row.size(); ++i) {
      auto const parts = std::min<std::size_t>(row[i].parts, row.size() - i - 1);
      if (!is_compound(row[i])) add(i, 0, 1);
      bool const together = parts > 1 && spans[i + 2].begin < spans[i + 1].end;
      for (std::size_t k = 0; k < parts; ++k, ++i)
        add(i + 1, static_cast<std::uint16_t>(together ? k : 0),
            static_cast<std::uint16_t>(together ? parts : 1));
    }
  }
  return bars;
}

}  // namespace cleave::detail

namespace cleave {

/// The most that is reached; 0 where there is no step.
inline std::uint64_t most_memory(std::vector<memory_step> const& steps) {
  std::uint64_t most = 0;
  for (auto const& step : steps) most = (std::max)(most, step.bytes);
  return most;
}

/// `7 passes`, `98.2 MiB`.
inline std::string memory_text(timed_schedule const& t, std::uint64_t amount) {
  if (t.memory_unit == timed_schedule::unit::bytes) return bytes_text(amount);
  return count_text(amount) + (amount == 1 ? "\u00a0pass" : "\u00a0passes");
}

/// `7.5 ms`, `7.5`.
inline std::string time_text(timed_schedule const& t, double time) {
  return decimal_text(time, 4) + (t.time_unit.empty() ? "" : "\u00a0" + printable(t.time_unit, 12));
}

/// How many messages go between ranks in one step: those that a lowered schedule sends, or that any will. A
/// value and its gradient are a message each. O(actions + edges).
inline std::uint64_t count_messages(schedule const& s) {
  std::uint64_t sends = 0, crossing = 0;
  bool forward = false, backward = false;
  for (auto const& row : s.ranks)
    for (action const& a : row) {
      sends += detail::is_send(a.kind);
      forward |= a.kind == action_kind::forward;
      backward |= is_compute(a.kind) && a.kind != action_kind::forward;
    }
  for (auto const& e : s.place.edges)
    crossing += s.place.rank_of[index(e.from)] != s.place.rank_of[index(e.to)];
  auto const ways = std::uint64_t{forward} + std::uint64_t{backward};
  return sends > 0 ? sends : crossing * ways * s.microbatches;
}

/// Of each stage: how many stages of its rank have lower numbers. O(stages).
inline std::vector<std::uint32_t> local_numbers(stage_placement const& place) {
  std::vector<std::uint32_t> next(place.ranks), local;
  for (auto const r : place.rank_of) local.push_back(index(r) < next.size() ? next[index(r)]++ : 0);
  return local;
}

/// The last level of time or, where nothing takes time, 1: what a drawing is scaled by.
inline double drawn_time(schedule_times const& times) { return times.makespan > 0 ? times.makespan : 1; }

}  // namespace cleave
