// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/schedule/lower/send_waits.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/invalid_action.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_dependencies.hpp"

namespace cleave::inline v0_2 {

/// The way in which sends are combined with receives.
enum class send_pairing : std::uint8_t {
  /// Not combined. The sends of a sweep, that is, of consecutive passes in one direction, are waited for
  /// after the sweep.
  apart,
  /// At a change from forward to backward passes or back, the sends of the one pass and the receives of the
  /// next form one exchange. Each send is waited for before the rank sends again.
  with_next_receive,
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Adds messages to the list of one rank, for `send_at_use`.
class use_sender {
 public:
  use_sender(stage_placement const& place, stage_neighbours const& neighbours, send_pairing pairing)
      : place_(place), neighbours_(neighbours), pairing_(pairing) {}

  std::vector<action> take(std::span<action const> row) {
    each_cell(row, [&](action const& head, std::span<action const> parts) {
      if (head.kind == action_kind::idle) return;
      auto const what = parts.empty() ? std::span(&head, 1) : parts;
      auto const direction = direction_of(what);
      receives_.clear();
      std::vector<action> sends;
      for (action const& a : what) list_messages(a, sends);
      if (pairing_ == send_pairing::apart)
        begin_apart(direction);
      else
        begin_paired(direction);
      list_.push_back(head);
      list_.insert(list_.end(), parts.begin(), parts.end());
      wait_for_posted_paired();
      end_cell(std::move(sends), direction);
    });
    post_held();
    wait_for_posted();
    return std::move(list_);
  }

 private:
  enum class sweep : std::uint8_t { none, forward, backward };

  /// Returns the common direction of passes, or none for other actions and mixed directions.
  static sweep direction_of(std::span<action const> what) {
    auto const one = [](action const& a) {
      return !is_compute(a.kind)              ? sweep::none
             : a.kind == action_kind::forward ? sweep::forward
                                              : sweep::backward;
    };
    for (action const& a : what)
      if (one(a) != one(what.front())) return sweep::none;
    return one(what.front());
  }

  /// Lists the messages that a pass receives from other ranks and those that it sends.
  void list_messages(action const& a, std::vector<action>& sends) {
    using enum action_kind;
    if (!is_compute(a.kind) || a.kind == weight_gradient) return;
    bool const onward = a.kind == action_kind::forward;
    auto const before = neighbours_.before(index(a.stage)), after = neighbours_.after(index(a.stage));
    for (auto const from : onward ? before : after)
      list_message(receives_, onward ? receive_activation : receive_gradient, a, from);
    for (auto const to : onward ? after : before)
      list_message(sends, onward ? send_activation : send_gradient, a, to);
  }
  void list_message(std::vector<action>& to, action_kind kind, action const& a, std::uint32_t peer) const {
    if (place_.rank_of[peer] != place_.rank_of[index(a.stage)])
      to.push_back({kind, 0, a.stage, a.microbatch, stage_id{peer}});
  }

  void begin_apart(sweep direction) {
    if (direction != last_ || direction == sweep::none) wait_for_posted();
    list_.insert(list_.end(), receives_.begin(), receives_.end());
  }

  void begin_paired(sweep direction) {
    bool const turns = direction != last_;
    auto const both = held_.size() + receives_.size();
    bool const exchange = turns && !held_.empty() && !receives_.empty() && both <= 0xffff;
    if (exchange) list_.push_back({.kind = action_kind::exchange, .parts = static_cast<std::uint16_t>(both)});
    post_held();
    if (turns && !exchange) wait_for_posted();
    list_.insert(list_.end(), receives_.begin(), receives_.end());
    if (exchange) wait_for_posted();
  }

  void wait_for_posted_paired() {
    if (pairing_ == send_pairing::with_next_receive) wait_for_posted();
  }

  void end_cell(std::vector<action> sends, sweep direction) {
    held_ = std::move(sends);
    last_ = direction;
    if (pairing_ == send_pairing::apart) post_held();
  }

  void post_held() {
    list_.insert(list_.end(), held_.begin(), held_.end());
    posted_.insert(posted_.end(), held_.begin(), held_.end());
    held_.clear();
  }
  void wait_for_posted() {
    for (action const& send : posted_) list_.push_back(wait_for(send));
    posted_.clear();
  }

  stage_placement const& place_;
  stage_neighbours const& neighbours_;
  send_pairing pairing_;
  std::vector<action> list_;
  std::vector<action> receives_;  // of the next cell
  std::vector<action> held_;      // the sends of the last cell
  std::vector<action> posted_;    // sends without a wait so far
  sweep last_ = sweep::none;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns a schedule with each receive right before the pass that needs it and each send right after the
/// pass that makes its value. It also adds waits for the sends. PyTorch runs GPipe (`apart`) and 1F1B
/// (`with_next_receive`) like this.
///
/// The method is simple and ignores other ranks, so that the result may deadlock; check it with
/// `find_deadlock`. It does not deadlock for these two families with one stage per rank. Use `lower` for a
/// schedule that never deadlocks. Idle steps are dropped. O(actions and messages).
/// \throws invalid_action_error, stage_placement_error
inline schedule send_at_use(schedule s, send_pairing pairing = send_pairing::apart) {
  detail::require_valid_actions(s);
  if (auto const fault = detail::find_stage_placement_fault(s.place))
    throw detail::stage_placement_error(*fault);
  detail::stage_neighbours const neighbours(s.place);
  for (auto& row : s.ranks) row = detail::use_sender(s.place, neighbours, pairing).take(row);
  return s;
}

}  // namespace cleave
