// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/schedule.hpp"

namespace cleave::inline v0_2::detail {

/// Groups the messages of one list, for `group_messages`.
class message_grouper {
 public:
  explicit message_grouper(std::span<action const> row) : row_(row) {}

  std::vector<action> take() {
    std::size_t at = 0;
    while (at < row_.size()) {
      auto const end = end_of_run(at);
      if (end == at) {
        auto const cell = row_.subspan(at, (std::min)(row_.size() - at, std::size_t{1} + row_[at].parts));
        grouped_.insert(grouped_.end(), cell.begin(), cell.end());
        at += cell.size();
      } else {
        auto const needed = end_of_needed(at, end);
        append_group(row_.subspan(at, needed - at));
        append_group(row_.subspan(needed, end - needed));
        at = end;
      }
    }
    return std::move(grouped_);
  }

 private:
  /// Returns the position after the run of sends and receives that begins at `at`.
  std::size_t end_of_run(std::size_t at) const {
    auto end = at;
    while (end < row_.size() && (is_send(row_[end].kind) || is_receive(row_[end].kind))) ++end;
    return end;
  }

  /// Returns the position after the last message of a run that the next pass uses, or the end of the run if
  /// the pass uses none.
  std::size_t end_of_needed(std::size_t begin, std::size_t end) {
    auto const passes = next_passes(end);
    for (auto at = end; at > begin; --at)
      if (std::ranges::any_of(passes, [&](action const& pass) { return uses(pass, row_[at - 1]); }))
        return at;
    return end;
  }

  /// Returns the next pass from `at` on, or the parts of its compound. Must be called with ascending
  /// positions.
  std::span<action const> next_passes(std::size_t at) {
    pass_ = (std::max)(pass_, at);
    while (pass_ < row_.size() && !is_pass(row_[pass_])) pass_ += std::size_t{1} + row_[pass_].parts;
    if (pass_ >= row_.size()) return {};
    if (row_[pass_].parts == 0) return row_.subspan(pass_, 1);
    return row_.subspan(pass_ + 1, std::min<std::size_t>(row_[pass_].parts, row_.size() - pass_ - 1));
  }
  static bool is_pass(action const& a) {
    return is_compute(a.kind) || (a.parts > 0 && a.kind != action_kind::exchange);
  }

  static bool uses(action const& pass, action const& message) {
    using enum action_kind;
    if (pass.stage != message.stage || pass.microbatch != message.microbatch) return false;
    if (pass.kind == forward) return message.kind == receive_activation;
    return (pass.kind == backward || pass.kind == input_gradient) && message.kind == receive_gradient;
  }

  void append_group(std::span<action const> messages) {
    while (!messages.empty()) {
      auto const first = messages.first(std::min<std::size_t>(messages.size(), 0xffff));
      if (first.size() > 1)
        grouped_.push_back({action_kind::exchange, static_cast<std::uint16_t>(first.size()), no_stage,
                            no_microbatch, no_stage});
      grouped_.insert(grouped_.end(), first.begin(), first.end());
      messages = messages.subspan(first.size());
    }
  }

  std::span<action const> row_;
  std::size_t pass_ = 0;
  std::vector<action> grouped_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns a lowered schedule in which neighbouring messages begin together. Consecutive sends and receives
/// of a list become one compound, an exchange. A communicator that accepts several messages at once, such as
/// NCCL or MPI, is then called once.
///
/// Only the order within an exchange is given up, so a schedule that finishes still finishes. The next pass
/// does not wait for more messages than before: the messages after the last one that it uses form an exchange
/// of their own. Grouping is the last step of lowering. O(actions).
inline schedule group_messages(schedule s) {
  for (auto& row : s.ranks) row = detail::message_grouper(row).take();
  return s;
}

}  // namespace cleave
