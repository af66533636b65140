// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/schedule/action.hpp"
#include "cleave/schedule/pair_streams.hpp"
#include "cleave/schedule/schedule.hpp"
#include "cleave/schedule/schedule_needs.hpp"

namespace cleave {

/// How a message gets from a rank to another. Messages are told apart by stage, kind and microbatch.
enum class delivery : std::uint8_t {
  buffered,    ///< a send never blocks; a receive blocks until the message is there
  rendezvous,  ///< both block until they meet
  async,       ///< both only begin; whoever uses the message, or waits for its send, blocks until both have
  /// Both only begin, and end in the order in which they began: each pair of ranks has one stream, which both
  /// directions share, as the queues of NCCL do. Whoever uses the message, or waits for its send, blocks.
  pair_stream,
};

/// Runs every list in order as far as it goes. Each rank that waits is at one event, which wakes it.
/// O(actions).
class order_walk {
 public:
  /// Refers to the schedule. \throws placement_error, schedule_count_error
  order_walk(schedule const& s, delivery d)
      : schedule_(s),
        delivery_(d),
        needs_(s),
        state_(needs_.events()),
        position_(s.ranks.size()),
        next_waiter_(s.ranks.size()),
        begun_(s.ranks.size()) {
    if (d == delivery::pair_stream) streams_ = pair_streams(s.place);
  }

  /// Whether all ranks come to their ends.
  bool run() {
    for (auto r = static_cast<std::uint32_t>(schedule_.ranks.size()); r-- > 0;) awake_.push_back(r);
    while (!awake_.empty()) {
      auto const r = awake_.back();
      awake_.pop_back();
      advance(r);
    }
    for (std::uint32_t r = 0; r < position_.size(); ++r)
      if (!is_finished(r)) return false;
    return true;
  }

  schedule_needs const& needs() const { return needs_; }
  bool is_finished(std::uint32_t r) const { return position_[r] == schedule_.ranks[r].size(); }
  /// In its list, where rank `r` waits.
  std::size_t position(std::uint32_t r) const { return position_[r]; }

  /// `f(event)` for what rank `r` waits for, until one returns false.
  template <class F>
  void each_unmet(std::uint32_t r, F f) const {
    each_need(schedule_.ranks[r][position_[r]],
              [&](std::uint32_t event) { return state_[event] == done || f(event); });
  }

  /// `f(event)` for what an action brings about.
  template <class F>
  void each_event(action const& a, F f) const {
    if (is_compute(a.kind)) {
      if (needs_.in_range(a)) needs_.each_effect(a, f);
    } else if (is_send(a.kind) || is_receive(a.kind)) {
      if (auto const end = needs_.message_end(a); end != schedule_needs::none) f(end);
    }
  }

 private:
  static constexpr std::uint32_t done = 1;  // else 0, or 2 + the rank that waits

  template <class F>
  void each_need(action const& a, F f) const {
    if (is_compute(a.kind)) {
      if (needs_.in_range(a)) needs_.each_need(a, f);
      return;
    }
    if (!is_message(a.kind)) return;
    bool const blocks = is_receive(a.kind) ? delivery_ <= delivery::rendezvous
                        : is_send(a.kind)  ? delivery_ == delivery::rendezvous
                                           : delivery_ >= delivery::async;
    if (!blocks) return;
    if (auto const end = needs_.message_end(a); end != schedule_needs::none) f(needs_.other_end(end));
  }

  void advance(std::uint32_t r) {
    auto const& row = schedule_.ranks[r];
    for (auto& at = position_[r]; at < row.size(); ++at) {
      action const& a = row[at];
      bool const is_end = is_send(a.kind) || is_receive(a.kind);
      if (is_end && !std::exchange(begun_[r], true)) begin(r, a);
      std::uint32_t unmet = schedule_needs::none;
      each_unmet(r, [&](std::uint32_t event) {
        unmet = event;
        return false;
      });
      if (unmet != schedule_needs::none) return wait(r, unmet);
      begun_[r] = false;
      if (is_compute(a.kind)) each_event(a, [&](std::uint32_t event) { happen(event); });
    }
  }

  /// A send or receive is there for the other rank to see, or in its stream.
  void begin(std::uint32_t r, action const& a) {
    auto const end = needs_.message_end(a);
    if (end == schedule_needs::none) return;
    if (delivery_ != delivery::pair_stream) return happen(end);
    streams_.begin(needs_.edge_of(a), rank_id{r}, end, [&](std::uint32_t first, std::uint32_t second) {
      happen(first);
      happen(second);
    });
  }

  void happen(std::uint32_t event) {
    auto waiter = std::exchange(state_[event], done);
    while (waiter > done) {
      auto const r = waiter - 2;
      awake_.push_back(r);
      waiter = next_waiter_[r];
    }
  }

  void wait(std::uint32_t r, std::uint32_t event) {
    next_waiter_[r] = state_[event];
    state_[event] = r + 2;
  }

  schedule const& schedule_;
  delivery delivery_;
  schedule_needs needs_;
  pair_streams streams_;
  std::vector<std::uint32_t> state_;  // of an event
  std::vector<std::size_t> position_;
  std::vector<std::uint32_t> next_waiter_;  // at the same event
  std::vector<char> begun_;                 // whether what a rank is at has begun
  std::vector<std::uint32_t> awake_;
};

}  // namespace cleave
