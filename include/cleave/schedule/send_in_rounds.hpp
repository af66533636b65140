// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/schedule/action.hpp"
#include "cleave/schedule/action_text.hpp"
#include "cleave/schedule/passes_done.hpp"
#include "cleave/schedule/schedule.hpp"
#include "cleave/schedule/stage_neighbours.hpp"
#include "cleave/schedule/stray_action.hpp"

namespace cleave {

/// A rank that can never go on, and the action that waits for what never comes.
struct stuck_rank {
  rank_id rank{};
  std::string at;

  bool operator==(stuck_rank const&) const = default;
};

/// Ranks that wait for each other, or for what nobody does. The witness: all of them.
class stuck_error : public witness_error<std::vector<stuck_rank>> {
 public:
  explicit stuck_error(std::vector<stuck_rank> ranks)
      : witness_error("messages: " + list_of(ranks) + "; put what they wait for before it", ranks) {}

 private:
  static std::string list_of(std::vector<stuck_rank> const& ranks) {
    std::string list;
    for (auto const& r : ranks)
      list += (list.empty() ? "rank " : ", rank ") + std::to_string(index(r.rank)) + " is stuck at " + r.at;
    return list;
  }
};

/// Adds messages to a schedule; `send_in_rounds` is its one use.
class round_sender {
 public:
  explicit round_sender(schedule const& s)
      : schedule_(s),
        neighbours_(s.place),
        done_(neighbours_, s.microbatches),
        at_(s.ranks.size()),
        sent_(s) {
    for (auto& row : sent_.ranks) row.clear();
    for (std::size_t r = 0; r < s.ranks.size(); ++r) sent_.ranks[r].reserve(2 * s.ranks[r].size());
  }

  schedule take() {
    while (go_round() || split_a_compound()) {
    }
    if (auto stuck = list_stuck(); !stuck.empty()) throw stuck_error(std::move(stuck));
    return std::move(sent_);
  }

 private:
  struct place_in_row {
    std::size_t cell = 0;        ///< where its first action stands
    std::size_t parts_done = 0;  ///< of a compound that has been split
  };

  /// Visits each rank once. Whether any went on.
  bool go_round() {
    bool moved = false;
    for (std::size_t r = 0; r < at_.size(); ++r) moved |= visit(r);
    return moved;
  }

  bool visit(std::size_t r) {
    if (at_end(r)) return false;
    auto const rest = rest_of_cell(r);
    if (done_.do_all(rest) < rest.size()) return false;
    take_parts(r, rest.size());
    return true;
  }

  /// All ranks wait. The first that can do some parts of its compound does them alone: their results may be
  /// what others wait for.
  bool split_a_compound() {
    for (std::size_t r = 0; r < at_.size(); ++r) {
      if (at_end(r)) continue;
      auto const rest = rest_of_cell(r);
      auto const ready = done_.do_all(rest);
      if (ready == 0) continue;
      done_.do_all(rest.first(ready));
      take_parts(r, ready);
      return true;
    }
    return false;
  }

  bool at_end(std::size_t r) const { return at_[r].cell == schedule_.ranks[r].size(); }

  /// The action that comes next, or what is left of the parts of the compound.
  std::span<action const> rest_of_cell(std::size_t r) const {
    auto const row = std::span(schedule_.ranks[r]).subspan(at_[r].cell);
    return row[0].parts == 0 ? row.first(1) : row.subspan(1, row[0].parts).subspan(at_[r].parts_done);
  }

  /// Copies the next `count` parts, and sends what they make.
  void take_parts(std::size_t r, std::size_t count) {
    auto const done = rest_of_cell(r).first(count);
    auto head = schedule_.ranks[r][at_[r].cell];
    auto& to = sent_.ranks[r];
    if (head.kind != action_kind::idle) {
      if (head.parts > 0 && count > 1) {
        head.parts = static_cast<std::uint16_t>(count);
        to.push_back(head);
      }
      to.insert(to.end(), done.begin(), done.end());
    }
    for (action const& a : done) send_results(a);
    at_[r].parts_done += count;
    auto const& whole = schedule_.ranks[r][at_[r].cell];
    if (at_[r].parts_done >= whole.parts) at_[r] = {at_[r].cell + 1 + whole.parts, 0};
  }

  void send_results(action const& a) {
    using enum action_kind;
    auto const s = index(a.stage);
    if (a.kind == forward)
      for (auto const reader : neighbours_.after(s)) send(a, reader, send_activation, receive_activation);
    else if (a.kind == backward || a.kind == input_gradient)
      for (auto const feeder : neighbours_.before(s)) send(a, feeder, send_gradient, receive_gradient);
  }

  void send(action const& a, std::uint32_t to, action_kind send_kind, action_kind receive_kind) {
    auto const here = index(schedule_.place.rank_of[index(a.stage)]);
    auto const there = index(schedule_.place.rank_of[to]);
    if (here == there) return;
    sent_.ranks[here].push_back({send_kind, 0, a.stage, a.microbatch, stage_id{to}});
    sent_.ranks[there].push_back({receive_kind, 0, stage_id{to}, a.microbatch, a.stage});
  }

  std::vector<stuck_rank> list_stuck() const {
    std::vector<stuck_rank> stuck;
    for (std::uint32_t r = 0; r < at_.size(); ++r)
      if (!at_end(r)) stuck.push_back({rank_id{r}, action_text(rest_of_cell(r).front())});
    return stuck;
  }

  schedule const& schedule_;
  stage_neighbours neighbours_;
  passes_done done_;
  std::vector<place_in_row> at_;
  schedule sent_;
};

/// A schedule that sends and receives, in the order that PyTorch gives messages: visits the ranks in turn,
/// again and again, and takes the next action of each where what it needs is there. What it makes for a stage
/// on another rank is sent right after it (after the whole of a compound), and received next on that rank:
/// all messages have one order, so that it finishes whether sends wait for receives or not. Idle steps are
/// dropped after having taken their turn.
///
/// Parts of a compound may need the ones before them. One that needs another rank's answer to those is split
/// there. O(actions + rounds * ranks), at most as many rounds as actions.
/// \throws stray_action_error, stuck_error
inline schedule send_in_rounds(schedule const& s) {
  demand_no_stray_action(s);
  demand_counts(1, std::max(s.place.stages(), 1u), std::max(s.microbatches, 1u));
  return round_sender(s).take();
}

}  // namespace cleave
