// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/stage_cost.hpp"

/// The simplest simulation of a compute-only schedule, as a reference for tests.
namespace cleave::testing {

using namespace detail;

struct order_run {
  std::string stuck;  ///< the pass that each rank waits for; empty if all finished
  double makespan = 0;
  std::vector<double> busy, idle_within;  ///< by rank; idle between its first start and its last end
  std::vector<std::size_t> peak;          ///< by rank: most (stage, microbatch) pairs between F and B or W
};

/// Runs every list in order. A pass begins when its rank is free and its inputs are there. A message between
/// ranks takes `base_latency`. The parts of a compound run one after another; other ranks get their results
/// when the whole compound is done.
inline order_run run_order(schedule const& s, stage_cost const& cost = {}, double base_latency = 0) {
  struct item {
    action what;
    std::size_t parts_left;
  };
  using ends = std::map<std::pair<stage_id, microbatch_id>, double>;
  std::size_t const ranks = s.ranks.size();
  std::vector<std::vector<item>> todo(ranks);
  for (std::size_t r = 0; r < ranks; ++r)
    each_cell(std::span(s.ranks[r]), [&](action const& head, std::span<action const> parts) {
      if (parts.empty() && head.kind != action_kind::idle) todo[r].push_back({head, 0});
      for (std::size_t i = 0; i < parts.size(); ++i) todo[r].push_back({parts[i], parts.size() - 1 - i});
    });
  ends forward, gradient, told_forward, told_gradient;  // on the rank itself, and as seen by other ranks
  std::vector<std::size_t> at(ranks), live(ranks);
  std::vector<double> free(ranks), first(ranks, -1);
  order_run run{
      {}, 0, std::vector<double>(ranks), std::vector<double>(ranks), std::vector<std::size_t>(ranks)};

  auto const start_of = [&](std::size_t r, action const& a) -> std::optional<double> {
    double start = free[r];
    bool known = true;
    auto const need = [&](ends const& here, ends const& told, stage_id from) {
      bool const local = s.place.rank_of[index(from)] == s.place.rank_of[index(a.stage)];
      auto const& from_there = local ? here : told;
      auto const end = from_there.find({from, a.microbatch});
      known = known && end != from_there.end();
      if (known) start = std::max(start, end->second + (local ? 0 : base_latency));
    };
    bool const is_forward = a.kind == action_kind::forward;
    if (a.kind == action_kind::weight_gradient) {
      need(gradient, told_gradient, a.stage);
    } else {
      if (!is_forward) need(forward, told_forward, a.stage);
      for (auto const& e : s.place.edges) {
        if (is_forward && e.to == a.stage) need(forward, told_forward, e.from);
        if (!is_forward && e.from == a.stage) need(gradient, told_gradient, e.to);
      }
    }
    return known ? std::optional(start) : std::nullopt;
  };
  auto const finish = [&](std::size_t r, action const& a) {
    if (a.kind == action_kind::forward) {
      forward[{a.stage, a.microbatch}] = free[r];
      run.peak[r] = std::max(run.peak[r], ++live[r]);
    } else if (a.kind != action_kind::weight_gradient) {
      gradient[{a.stage, a.microbatch}] = free[r];
    }
    if (a.kind == action_kind::backward || a.kind == action_kind::weight_gradient) --live[r];
  };
  auto const tell = [&](std::size_t r, action const& a) {
    if (a.kind != action_kind::weight_gradient)
      (a.kind == action_kind::forward ? told_forward : told_gradient)[{a.stage, a.microbatch}] = free[r];
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t r = 0; r < ranks; ++r)
      for (std::size_t told = at[r]; at[r] < todo[r].size(); moved = true) {
        auto const& [a, parts_left] = todo[r][at[r]];
        auto const start = start_of(r, a);
        if (!start) break;
        if (first[r] < 0) first[r] = *start;
        free[r] = *start + cost.of(a.kind);
        run.busy[r] += cost.of(a.kind);
        finish(r, a);
        ++at[r];
        while (told > 0 && todo[r][told - 1].parts_left > 0) --told;  // part of a compound that was waiting
        if (parts_left == 0)
          for (; told < at[r]; ++told) tell(r, todo[r][told].what);
      }
  }
  for (std::size_t r = 0; r < ranks; ++r) {
    if (at[r] < todo[r].size())
      run.stuck += "rank " + std::to_string(r) + " at " + action_text(todo[r][at[r]].what) + "; ";
    run.makespan = std::max(run.makespan, free[r]);
    run.idle_within[r] = free[r] - std::max(first[r], 0.0) - run.busy[r];
  }
  return run;
}

enum class passes { both, forward_alone };

/// Returns the reason why a schedule is invalid: a pass is not done exactly once, runs on a wrong rank, or
/// can never begin. Empty if it is valid.
inline std::string order_defect(schedule const& s, passes expected = passes::both) {
  std::map<std::tuple<stage_id, microbatch_id, action_kind>, int> times;
  std::string wrong;
  for (std::size_t r = 0; r < s.ranks.size(); ++r)
    each_action(s.ranks[r], [&](action const& a) {
      if (!is_compute(a.kind) || index(a.stage) >= s.place.stages() || index(a.microbatch) >= s.microbatches)
        wrong += action_text(a) + " out of range; ";
      else if (index(s.place.rank_of[index(a.stage)]) != r)
        wrong += action_text(a) + " on rank " + std::to_string(r) + "; ";
      if (++times[{a.stage, a.microbatch, a.kind}] > 1) wrong += action_text(a) + " twice; ";
    });
  for (std::uint32_t st = 0; st < s.place.stages(); ++st)
    for (std::uint32_t i = 0; i < s.microbatches; ++i) {
      auto const count = [&](action_kind k) { return times[{stage_id{st}, microbatch_id{i}, k}]; };
      using enum action_kind;
      bool const right =
          count(action_kind::forward) == 1 &&
          count(action_kind::backward) + count(input_gradient) == (expected == passes::both ? 1 : 0) &&
          count(input_gradient) == count(weight_gradient);
      if (!right) wrong += "stage " + std::to_string(st) + ", microbatch " + std::to_string(i) + "; ";
    }
  return wrong.empty() ? run_order(s).stuck : wrong;
}

/// Returns the lists as text.
inline std::vector<std::string> rows_of(schedule const& s) {
  std::vector<std::string> rows;
  for (auto const& row : s.ranks) rows.push_back(row_text(row));
  return rows;
}

}  // namespace cleave::testing
