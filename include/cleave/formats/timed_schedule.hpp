// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/core/real.hpp"
#include "cleave/formats/units.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_times.hpp"
#include "cleave/schedule/simulate/memory_over_time.hpp"

namespace cleave::inline v0_2 {

/// A schedule and its times, for drawing and writing. It holds references, which must outlive it.
struct timed_schedule {
  std::string name;  ///< used in titles
  schedule const& order;
  schedule_times const& times;                        ///< the times of `order`
  std::string time_unit = {};                         ///< unit of all times; may be empty
  std::vector<std::vector<memory_step>> memory = {};  ///< per rank; if empty, memory is not shown
  enum class unit : std::uint8_t { passes, bytes };
  unit memory_unit = unit::passes;          ///< unit of `memory`
  std::vector<action_place> critical = {};  ///< the critical path; if empty, it is not shown
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// An action that takes time, to be drawn as a bar.
struct schedule_bar {
  rank_id rank;
  std::size_t position;  ///< in the list of the rank, counting parts
  action what;
  double begin, end;
  std::uint16_t lane = 0,
                lanes =
                    1;  ///< for a part of a compound whose parts overlap: its index, and the number of parts
  bool is_beside = false;  ///< true if it overlaps with the following actions of the rank

  bool operator==(schedule_bar const&) const = default;
};

/// Returns the seconds in a unit of time; 0 if the unit is no fraction of a second.
constexpr double seconds_in(std::string_view unit) {
  if (unit == "s") return 1;
  if (unit == "ms") return 1e-3;
  if (unit == "us" || unit == "µs" || unit == "μs") return 1e-6;
  return unit == "ns" ? 1e-9 : 0;
}

/// The unit of a time axis: its name, and how many of it are in one unit of the schedule.
struct axis_unit {
  std::string name;
  double scale = 1;
};

/// Returns the unit of the schedule, or, if times are in seconds and the step is far from 1 of that unit, the
/// fraction of a second that suits the step.
inline axis_unit axis_unit_of(std::string const& unit, double makespan) {
  double const seconds = seconds_in(unit);
  if (seconds == 0 || !(makespan > 0) || (makespan >= 1 && makespan < 1e5)) return {unit};
  double const whole = makespan * seconds;
  if (whole >= 1) return {"s", seconds};
  if (whole >= 1e-3) return {"ms", seconds * 1e3};
  return whole >= 1e-6 ? axis_unit{"µs", seconds * 1e6} : axis_unit{"ns", seconds * 1e9};
}

/// Returns true if an action overlaps with later ones: copies and collectives.
constexpr bool runs_beside(action_kind k) {
  using enum action_kind;
  return k == unshard || k == reduce_gradient || k == offload || k == reload;
}

/// Returns a bar for each action that takes time, rank by rank in list order. O(actions).
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

namespace cleave::inline v0_2 {

/// Returns the largest amount; 0 if there are no steps.
inline std::uint64_t most_memory(std::vector<memory_step> const& steps) {
  std::uint64_t most = 0;
  for (auto const& step : steps) most = (std::max)(most, step.bytes);
  return most;
}

/// Returns an amount with its unit: `7 passes`, `98.2 MiB`.
inline std::string memory_text(timed_schedule const& t, std::uint64_t amount) {
  if (t.memory_unit == timed_schedule::unit::bytes) return bytes_text(amount);
  return count_text(amount) + (amount == 1 ? "\u00a0pass" : "\u00a0passes");
}

/// Returns a time with its unit, if any: `7.5 ms`, `7.5`. Seconds get the prefix that suits the time if it is
/// far from 1 in the unit of the schedule: `8.01 µs`.
inline std::string time_text(timed_schedule const& t, double time) {
  double const size = magnitude(time), seconds = detail::seconds_in(t.time_unit);
  if (seconds > 0 && time != 0 && (size < 0.01 || size >= 1e6))
    return size * seconds < 1 ? amount_text(time * seconds, "s") : short_text(time * seconds) + "\u00a0s";
  auto const number = time != 0 && size < 0.01 ? short_text(time) : decimal_text(time, 4);
  return number + (t.time_unit.empty() ? "" : "\u00a0" + printable(t.time_unit, 12));
}

/// Returns the number of messages between ranks in one step: those of a lowered schedule, or those that
/// lowering will add. A value and its gradient count as one message each. O(actions + edges).
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

/// Returns for each stage the number of stages with lower numbers on its rank. O(stages).
inline std::vector<std::uint32_t> local_numbers(stage_placement const& place) {
  std::vector<std::uint32_t> next(place.ranks), local;
  for (auto const r : place.rank_of) local.push_back(index(r) < next.size() ? next[index(r)]++ : 0);
  return local;
}

/// Returns the makespan, or 1 if nothing takes time: the scale of a drawing.
inline double drawn_time(schedule_times const& times) { return times.makespan > 0 ? times.makespan : 1; }

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the exponent of the power of two below `drawn_time`. Times divided by this power have a scale of
/// moderate size, however small or large they are.
inline int drawn_exponent(schedule_times const& times) { return std::ilogb(drawn_time(times)); }

}  // namespace cleave::detail
