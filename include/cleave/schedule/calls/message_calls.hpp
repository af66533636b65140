// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/schedule/calls/call_options.hpp"
#include "cleave/schedule/calls/rank_call.hpp"
#include "cleave/schedule/lower/message_table.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/placement.hpp"

namespace cleave::detail {

/// The calls for messages of one rank: which begin together, and which are waited for. What began as one
/// exchange is waited for as one, once a wait for a send of it comes. Precondition throughout: stages are in
/// range.
class message_calls {
 public:
  /// Appends to `calls`. Refers to both.
  message_calls(placement const& place, call_options const& options, std::vector<rank_call>& calls)
      : place_(place), issue_(options.exchanges), ends_(options.ends), calls_(calls) {}

  /// Begins sends and receives, up to the first receive that has begun before: that, or null. Expected
  /// O(messages), and for those of an exchange by pair of ranks a sort.
  action const* begin(std::span<action const> messages) {
    bool const mixed = std::ranges::any_of(messages, [](action const& a) { return is_send(a.kind); }) &&
                       std::ranges::any_of(messages, [](action const& a) { return is_receive(a.kind); });
    bool const together = mixed && issue_ == exchange_issue::together;
    if (together)
      calls_.push_back({.kind = call_kind::exchange,
                        .parts = static_cast<std::uint16_t>(messages.size()),
                        .of = {.kind = action_kind::exchange}});
    auto const first = next_call();
    for (auto const i : order_of(messages)) {
      if (is_receive(messages[i].kind) && receives_.find(messages[i])) return &messages[i];
      begin_one(messages[i]);
    }
    if (messages.size() > 1 && ends_ == exchange_end::together) exchanges_.push_back({first, next_call()});
    return nullptr;
  }

  /// Waits for what has been received, unless that has been done; whether it has been received.
  bool wait_for_receive(action const& receive) {
    auto const* const entry = receives_.find(receive);
    if (entry) end(static_cast<std::uint32_t>(entry->position));
    return entry != nullptr;
  }

  /// Precondition: `wait` follows its send and is the only one.
  void wait_for_send(action const& wait) {
    auto* const send = sends_.find(wait);
    send->open = false;
    auto const call = static_cast<std::uint32_t>(send->position);
    auto const after = std::ranges::upper_bound(exchanges_, call, {}, &exchange_calls::first);
    bool const exchanged = after != exchanges_.begin() && call < (after - 1)->end;
    auto const [first, last] = exchanged ? *(after - 1) : exchange_calls{call, call + 1};
    for (auto c = first; c < last; ++c) end(c);
  }

  /// How many sends of what a stage has made of a microbatch have had their wait.
  std::size_t sends_ended(stage_id s, microbatch_id i) {
    std::size_t ended = 0;
    sends_.each(s, i, true, [&](message_table::entry const& send) {
      if (!send.open) ++ended;
    });
    return ended;
  }

 private:
  struct exchange_calls {
    std::uint32_t first, end;
  };

  std::uint32_t next_call() const { return static_cast<std::uint32_t>(calls_.size()); }

  /// In which order messages begin.
  std::vector<std::size_t> order_of(std::span<action const> messages) const {
    std::vector<std::size_t> order(messages.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    if (issue_ == exchange_issue::by_rank_pair)
      std::ranges::sort(order, {}, [&](std::size_t i) { return std::pair(rank_pair(messages[i]), i); });
    return order;
  }
  std::pair<rank_id, rank_id> rank_pair(action const& a) const {
    auto const here = place_.rank_of[index(a.stage)], there = place_.rank_of[index(a.peer)];
    return is_send(a.kind) ? std::pair(here, there) : std::pair(there, here);
  }

  void begin_one(action const& a) {
    (is_send(a.kind) ? sends_ : receives_).add(a, calls_.size());
    calls_.push_back({.kind = is_send(a.kind) ? call_kind::send : call_kind::receive, .of = a});
    ended_.resize(calls_.size());
  }

  void end(std::uint32_t begun) {
    if (std::exchange(ended_[begun], char{1}) != 0) return;
    auto const what = calls_[begun];
    calls_.push_back({.kind = what.kind == call_kind::send ? call_kind::wait_send : call_kind::wait_receive,
                      .of = what.of,
                      .begun = begun});
  }

  placement const& place_;
  exchange_issue issue_;
  exchange_end ends_;
  std::vector<rank_call>& calls_;
  message_table sends_, receives_;
  std::vector<exchange_calls> exchanges_;
  std::vector<char> ended_;  // by the number of the call that began
};

}  // namespace cleave::detail
