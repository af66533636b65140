// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/schedule/model/schedule_times.hpp"

namespace cleave::detail {

/// From when something can be used, and which action made it so.
struct moment {
  double time = 0;
  action_place by = no_action;

  void raise(moment const& other) {
    if (other.time > time) *this = other;
  }
};

/// What a rank has of its own beside its passes; each does one thing after the other.
enum class rank_engine : std::uint8_t { collectives, copies };

/// The time of one rank, and when its actions are.
class rank_clock {
 public:
  rank_clock(rank_id r, std::size_t actions) : rank_(r), spans_(actions), causes_(actions) {}

  /// From when it can do its next action.
  moment const& free() const { return free_; }
  action_place place(std::size_t position) const { return {rank_, static_cast<std::uint32_t>(position)}; }

  /// An action computes from `begin` on.
  void compute(std::size_t position, moment const& begin, double time) {
    if (time > 0 && !std::exchange(has_begun_, true)) first_ = begin.time;
    busy_ += time;
    note(position, begin, begin.time + time);
    free_ = {begin.time + time, place(position)};
  }
  /// An action takes no time, but from `ready` on.
  void wait_until(std::size_t position, moment const& ready) {
    auto end = free_;
    end.raise(ready);
    causes_[position] = end.by;
    spans_[position] = {free_.time, end.time};
    if (end.time > free_.time) free_ = {end.time, place(position)};
  }
  /// An action keeps the rank for some time in which nothing is computed.
  void spend(std::size_t position, double time) {
    note(position, free_, free_.time + time);
    if (time > 0) free_ = {free_.time + time, place(position)};
  }
  /// After an action whose own time is told already.
  void lengthen(std::size_t position, double time) { free_ = {free_.time + time, place(position)}; }

  /// An action goes on beside those after it, from `begin` on; from when it is done.
  moment go_beside(std::size_t position, moment begin, double time, rank_engine e) {
    auto& engine = engines_[static_cast<std::size_t>(e)];
    begin.raise(engine);
    engine = {begin.time + time, place(position)};
    note(position, begin, engine.time);
    return engine;
  }

  /// A part of a compound is from `begin` on.
  void note(std::size_t position, moment const& begin, double end) {
    spans_[position] = {begin.time, end};
    causes_[position] = begin.by;
  }
  /// A compound is from the begin of its first part, the next action, until now.
  void close_compound(std::size_t head) {
    spans_[head] = {spans_[head + 1].begin, free_.time};
    causes_[head] = causes_[head + 1];
  }

  /// Appends what there is to tell.
  void tell(schedule_times& to) {
    to.busy.push_back(busy_);
    to.first.push_back(first_);
    to.last.push_back((std::max)({free_.time, engines_[0].time, engines_[1].time}));
    to.makespan = (std::max)(to.makespan, to.last.back());
    to.spans.push_back(std::move(spans_));
    to.causes.push_back(std::move(causes_));
  }

 private:
  rank_id rank_;
  moment free_;
  moment engines_[2];
  double busy_ = 0, first_ = 0;
  bool has_begun_ = false;  // to compute
  std::vector<time_span> spans_;
  std::vector<action_place> causes_;
};

}  // namespace cleave::detail
