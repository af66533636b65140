// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/core/step_index.hpp"
#include "cleave/formats/json/json_writer.hpp"
#include "cleave/formats/timed_schedule.hpp"
#include "cleave/schedule/model/action.hpp"

namespace cleave::inline v0_2::detail {

/// Returns the number of microseconds in a time unit: `s`, `ms`, `us`, `µs` or `ns`. Any other unit counts as
/// milliseconds.
constexpr double microseconds_of(std::string_view unit) {
  if (unit == "s") return 1e6;
  if (unit == "us" || unit == "µs") return 1;
  if (unit == "ns") return 1e-3;
  return 1000;
}

/// Writes a trace. Helper of `schedule_trace`.
class schedule_trace_writer {
 public:
  explicit schedule_trace_writer(timed_schedule const& t)
      : t_(t), microseconds_(microseconds_of(t.time_unit)) {}

  std::string write() {
    to_.open_object().member("displayTimeUnit", "ms").key("otherData").open_object();
    to_.member("schedule", t_.name).member("time_unit", t_.time_unit).close_object();
    to_.key("traceEvents").open_array();
    name("process_name", 0, t_.name);
    for (std::size_t r = 0; r < t_.order.ranks.size(); ++r)
      name("thread_name", r, "rank " + std::to_string(r));
    auto const bars = bars_of(t_.order, t_.times);
    for (auto const& b : bars) pass(b);
    arrows(bars);
    for (std::size_t r = 0; r < t_.memory.size(); ++r) kept(r);
    return to_.close_array().close_object().text();
  }

 private:
  json::writer& event(std::string_view phase, std::size_t rank) {
    return to_.open_object().member("ph", phase).member("pid", 0).member("tid", rank);
  }
  void name(std::string_view what, std::size_t rank, std::string_view text) {
    event("M", rank).member("name", what).key("args").open_object().member("name", text);
    to_.close_object().close_object();
  }

  void pass(schedule_bar const& b) {
    if (b.is_beside) return overlapped(b);
    event("X", index(b.rank)).member("name", action_text(b.what)).member("cat", name_of(b.what.kind));
    to_.member("ts", b.begin * microseconds_).member("dur", (b.end - b.begin) * microseconds_);
    to_.key("args").open_object().member("stage", index(b.what.stage));
    if (b.what.microbatch != no_microbatch) to_.member("microbatch", index(b.what.microbatch));
    to_.close_object().close_object();
  }

  /// Writes an action that overlaps others of its rank, on a track of its own.
  void overlapped(schedule_bar const& b) {
    for (bool const begins : {true, false}) {
      event(begins ? "b" : "e", index(b.rank)).member("id", beside_).member("cat", name_of(b.what.kind));
      to_.member("name", "rank " + std::to_string(index(b.rank)) + ": " + action_text(b.what));
      to_.member("ts", (begins ? b.begin : b.end) * microseconds_).close_object();
    }
    ++beside_;
  }

  /// Writes an arrow from each pass to the passes on other ranks that use its result.
  void arrows(std::vector<schedule_bar> const& bars) {
    auto const& place = t_.order.place;
    auto const stages = place.stages(), microbatches = t_.order.microbatches;
    auto const numbers = step_index_of(t_.order);
    constexpr std::size_t none = static_cast<std::size_t>(-1);
    std::vector<std::size_t> forward(numbers.passes(), none), backward = forward;
    for (std::size_t i = 0; i < bars.size(); ++i) {
      auto const& a = bars[i].what;
      if (!is_compute(a.kind) || index(a.stage) >= stages || index(a.microbatch) >= microbatches) continue;
      if (a.kind == action_kind::forward) forward[numbers.pass(a.stage, a.microbatch)] = i;
      if (a.kind == action_kind::backward || a.kind == action_kind::input_gradient)
        backward[numbers.pass(a.stage, a.microbatch)] = i;
    }
    auto const arrow = [&](std::size_t from, std::size_t to, std::string_view what) {
      if (from == none || to == none || bars[from].rank == bars[to].rank) return;
      for (bool const begins : {true, false}) {
        auto const& b = bars[begins ? from : to];
        event(begins ? "s" : "f", index(b.rank))
            .member("id", arrows_)
            .member("name", what)
            .member("cat", what);
        if (!begins) to_.member("bp", "e");
        to_.member("ts", b.begin * microseconds_).close_object();
      }
      ++arrows_;
    };
    for (auto const& e : place.edges)
      for (std::uint32_t m = 0; m < microbatches; ++m) {
        auto const from = numbers.pass(e.from, microbatch_id{m}), to = numbers.pass(e.to, microbatch_id{m});
        arrow(forward[from], forward[to], "activation");
        arrow(backward[to], backward[from], "gradient");
      }
  }

  std::string unit() const { return t_.memory_unit == timed_schedule::unit::bytes ? "bytes" : "passes kept"; }

  /// Writes the counter of the memory that rank `r` keeps.
  void kept(std::size_t r) {
    auto const title = unit() + " of rank " + std::to_string(r);
    for (auto const& step : t_.memory[r]) {
      event("C", r).member("name", title).member("ts", step.time * microseconds_);
      to_.key("args").open_object().member(unit(), step.bytes).close_object().close_object();
    }
  }

  timed_schedule const& t_;
  double microseconds_;
  std::uint64_t arrows_ = 0, beside_ = 0;
  json::writer to_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns a timed schedule in the trace format of Chrome and Perfetto. It has a track per rank and a counter
/// of the memory that each rank keeps. Arrows lead from each pass to the passes on other ranks that use its
/// result. A time unit unknown to `microseconds_of` is shown as milliseconds. O(actions + edges ×
/// microbatches).
inline std::string schedule_trace(timed_schedule const& t) {
  return detail::schedule_trace_writer(t).write();
}

}  // namespace cleave
