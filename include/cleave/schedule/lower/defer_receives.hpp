// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/schedule/lower/message_graph.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/invalid_action.hpp"
#include "cleave/schedule/model/schedule.hpp"

namespace cleave::inline v0_2 {

/// The order in which deferred receives are posted.
enum class receive_order : std::uint8_t {
  as_sent,  ///< in the order of the sends, per directed pair of ranks
  /// In the order of use. For communicators that match messages by stage, kind and microbatch; without such
  /// tags, messages get swapped.
  as_needed,
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// A receive whose value no later action of its rank uses.
struct unused_receive {
  static constexpr char subject[] = "defer receives: ";
  std::uint32_t rank = 0;
  action at = {};

  bool operator==(unused_receive const&) const = default;
};

inline std::string describe(unused_receive const& r) {
  return "nothing on rank " + std::to_string(r.rank) + " uses '" + action_text(r.at) +
         "'; receive only values that a later pass uses, each once";
}

using unused_receive_error = fault_error<unused_receive>;

/// Moves the receives of one list, for `defer_receives`.
class receive_holder {
 public:
  receive_holder(schedule const& s, std::uint32_t rank, receive_order order)
      : place_(s.place), row_(s.ranks[rank]), rank_(rank), order_(order), held_from_(s.place.ranks) {}

  std::vector<action> take() {
    deferred_.reserve(row_.size());
    each_cell(row_, [&](action const& head, std::span<action const> parts) {
      if (is_receive(head.kind)) return hold(head);
      if (is_send(head.kind)) release_before_send(rank_of(head.peer));
      each_action(parts.empty() ? std::span(&head, 1) : parts, [&](action const& a) { release_for(a); });
      deferred_.push_back(head);
      deferred_.insert(deferred_.end(), parts.begin(), parts.end());
    });
    for (auto const& r : receives_.entries())
      if (r.open) throw unused_receive_error({rank_, r.what});
    return std::move(deferred_);
  }

 private:
  struct held_queue {
    std::vector<action> all;
    std::vector<char> posted;
    std::size_t first = 0;  ///< the first that is not posted
  };

  std::uint32_t rank_of(stage_id s) const { return index(place_.rank_of[index(s)]); }

  /// Holds a receive. A receive that is already held is posted once.
  void hold(action const& receive) {
    if (auto const* held = receives_.find(receive); held && held->open) return;
    auto& queue = held_from_[rank_of(receive.peer)];
    receives_.add(receive, queue.all.size());
    queue.all.push_back(receive);
    queue.posted.push_back(false);
  }

  void post(held_queue& queue, std::size_t place) {
    if (!std::exchange(queue.posted[place], true)) deferred_.push_back(queue.all[place]);
  }
  /// Posts the receives held before position `end` of the queue, in the order of the sends.
  void post_up_to(held_queue& queue, std::size_t end) {
    for (; queue.first < end; ++queue.first) post(queue, queue.first);
  }

  /// Posts all receives held from a higher rank before this rank sends to it. If both ranks of a pair sent
  /// first, both could block.
  void release_before_send(std::uint32_t peer) {
    if (rank_ < peer) post_up_to(held_from_[peer], held_from_[peer].all.size());
  }

  void release_for(action const& a) {
    using enum action_kind;
    if (!is_compute(a.kind) || a.kind == weight_gradient) return;
    receives_.each(a.stage, a.microbatch, a.kind == forward, [&](message_table::entry& receive) {
      if (!std::exchange(receive.open, false)) return;
      auto& queue = held_from_[rank_of(receive.what.peer)];
      if (order_ == receive_order::as_sent) post_up_to(queue, receive.position);
      post(queue, receive.position);
    });
  }

  stage_placement const& place_;
  std::span<action const> row_;
  std::uint32_t rank_;
  receive_order order_;
  std::vector<held_queue> held_from_;  ///< by peer rank, in the order of its sends
  message_table receives_;             ///< entries are open until they are used
  std::vector<action> deferred_;
};

/// Returns a schedule in which each receive is posted only when its value is needed, so that its buffer lives
/// shorter.
///
/// Before a rank sends to a higher rank, it posts all receives from that rank. By default each directed pair
/// of ranks keeps the order of its messages: the earlier receives from a rank are posted first. PyTorch's
/// `defer_pp_recv` posts receives in the order of use. Its messages carry no tag, so that tensors can be
/// swapped.
///
/// The result does not deadlock if sends do not wait for receives. If they do, check it with `find_deadlock`.
/// Expected O(actions + ranks^2).
/// \throws invalid_action_error, unused_receive_error
inline schedule defer_receives(schedule const& s, receive_order order = receive_order::as_sent) {
  require_valid_actions(s);
  schedule deferred{s.place, s.microbatches, {}};
  for (std::uint32_t r = 0; r < s.ranks.size(); ++r)
    deferred.ranks.push_back(receive_holder(s, r, order).take());
  return deferred;
}

}  // namespace cleave::detail
