// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/delivery.hpp"
#include "cleave/schedule/model/schedule.hpp"

namespace cleave::detail {

/// One past the last action of a list that begins together with the one at place `i`: with the head of a
/// compound of messages its parts. Precondition: `i` is not among such parts. O(those).
inline std::size_t group_end(std::span<action const> list, std::size_t i, message_groups groups) {
  auto const is_end = [&](std::size_t at) { return is_send(list[at].kind) || is_receive(list[at].kind); };
  auto const end_from = [&](std::size_t at) {  // 0 where no message begins
    if (at == list.size()) return std::size_t{0};
    if (list[at].parts > 0 && at + 1 < list.size() && is_end(at + 1))
      return (std::min)(list.size(), at + 1 + list[at].parts);
    return is_end(at) ? at + 1 : 0;
  };
  auto end = (std::max)(i + 1, end_from(i));
  if (groups == message_groups::adjacent && end_from(i) > 0)
    for (auto next = end_from(end); next > 0; next = end_from(end)) end = next;
  return end;
}

/// What is done one after the other: the list of each rank, or, where messages have queues beside the passes,
/// the passes of each rank and then each of its queues.
class order_lists {
 public:
  /// Refers to the schedule. O(1), or O(actions) where there are queues.
  order_lists(schedule const& s, delivery_rules const& rules)
      : schedule_(s),
        groups_(rules.groups),
        of_rank_(rules.delivery == delivery::one_queue    ? 2
                 : rules.delivery == delivery::two_queues ? 3
                                                          : 1) {
    if (of_rank_ > 1) divide();
  }

  bool has_queues() const { return of_rank_ > 1; }
  std::uint32_t count() const { return static_cast<std::uint32_t>(schedule_.ranks.size()) * of_rank_; }
  rank_id rank_of(std::uint32_t list) const { return rank_id{list / of_rank_}; }
  /// Whether it is one of messages beside the passes.
  bool is_queue(std::uint32_t list) const { return queue_number(list) > 0; }
  /// Which of the queues of its rank it is, from 1; 0 for the passes.
  std::uint32_t queue_number(std::uint32_t list) const { return list % of_rank_; }
  /// The list of a rank with its passes, and all else where there are no queues.
  std::uint32_t first_of(rank_id r) const { return index(r) * of_rank_; }

  std::span<action const> operator[](std::uint32_t list) const {
    return of_rank_ == 1 ? std::span(schedule_.ranks[list]) : std::span(parts_[list].actions);
  }
  /// One past the last action of a list that begins together with the one at place `i`.
  std::size_t end_of_group(std::uint32_t list, std::size_t i) const {
    if (of_rank_ == 1) return group_end(schedule_.ranks[list], i, groups_);
    auto const& of = parts_[list].groups;
    auto const group = of[i];
    while (i < of.size() && of[i] == group) ++i;
    return i;
  }
  /// Where the action at place `i` of a list stands in the list of the rank.
  std::size_t position(std::uint32_t list, std::size_t i) const {
    return of_rank_ == 1 ? i : parts_[list].positions[i];
  }

 private:
  struct part {
    std::vector<action> actions;
    std::vector<std::size_t> positions, groups;
  };

  void divide() {
    parts_.resize(count());
    for (std::uint32_t r = 0; r < schedule_.ranks.size(); ++r) {
      std::span<action const> const row = schedule_.ranks[r];
      for (std::size_t i = 0, group = 0; i < row.size(); ++group)
        for (auto const end = group_end(row, i, groups_); i < end; ++i) {
          auto& to = parts_[r * of_rank_ + queue_of(row[i])];
          to.actions.push_back(row[i]);
          to.positions.push_back(i);
          to.groups.push_back(group);
        }
    }
  }
  std::uint32_t queue_of(action const& a) const {
    if (!is_send(a.kind) && !is_receive(a.kind)) return 0;
    return of_rank_ == 3 && !is_activation_message(a.kind) ? 2 : 1;
  }

  schedule const& schedule_;
  message_groups groups_;
  std::uint32_t of_rank_;
  std::vector<part> parts_;
};

}  // namespace cleave::detail
