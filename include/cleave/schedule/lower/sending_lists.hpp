// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_dependencies.hpp"

namespace cleave::inline v0_2::detail {

/// A rank that can never continue, and the action that waits forever.
struct stuck_rank {
  rank_id rank{};
  std::string at;

  bool operator==(stuck_rank const&) const = default;
};

/// Returns all ranks as one text, such as `messages: rank 0 is stuck at 0B0; …`.
inline std::string describe(std::vector<stuck_rank> const& ranks) {
  std::string list;
  for (auto const& r : ranks)
    list += (list.empty() ? "rank " : ", rank ") + std::to_string(index(r.rank)) + " is stuck at " + r.at;
  return "messages: " + list + "; list the actions that they wait for earlier";
}

/// Thrown if ranks wait for each other, or for an action that does not exist. The witness lists all of them.
using stuck_error = fault_error<std::vector<stuck_rank>>;

/// The lists of a schedule while messages are inserted: the progress of each rank and the result so far. A
/// send is appended to the list of its rank, and its receive at once to the list of the other rank. Taking
/// actions one by one therefore gives all messages one global order, which finishes with any communicator.
class sending_lists {
 public:
  /// Keeps a reference to the schedule. Precondition: all actions are valid. O(actions).
  explicit sending_lists(schedule const& s)
      : schedule_(s),
        neighbours_(s.place),
        at_(s.ranks.size()),
        made_{s.place, s.microbatches, std::vector<std::vector<action>>(s.ranks.size())} {
    auto const messages = messages_of_stages();
    for (std::size_t r = 0; r < s.ranks.size(); ++r) {
      auto cells = s.ranks[r].size();
      each_action(s.ranks[r], [&](action const& a) {
        if (makes_results(a.kind)) cells += messages[index(a.stage)];
      });
      made_.ranks[r].reserve(cells);
    }
  }

  stage_neighbours const& neighbours() const { return neighbours_; }
  std::uint32_t ranks() const { return static_cast<std::uint32_t>(at_.size()); }
  bool at_end(std::size_t r) const { return at_[r].cell == schedule_.ranks[r].size(); }

  /// Returns the next action, or the remaining parts of the compound. Precondition: not at the end.
  std::span<action const> rest_of_cell(std::size_t r) const {
    auto const row = std::span(schedule_.ranks[r]).subspan(at_[r].cell);
    return row[0].parts == 0 ? row.first(1) : row.subspan(1, row[0].parts).subspan(at_[r].parts_done);
  }

  /// Copies the next `count` parts of the cell to the result and returns them. Idle steps are not copied.
  std::span<action const> take(std::size_t r, std::size_t count) {
    auto const taken = rest_of_cell(r).first(count);
    auto const& whole = schedule_.ranks[r][at_[r].cell];
    auto& to = made_.ranks[r];
    if (whole.kind != action_kind::idle) {
      if (whole.parts > 0 && count > 1) {
        to.push_back(whole);
        to.back().parts = static_cast<std::uint16_t>(count);
      }
      for (action const& a : taken) to.push_back(a);
    }
    at_[r].parts_done += count;
    if (at_[r].parts_done >= whole.parts) at_[r] = {at_[r].cell + 1 + whole.parts, 0};
    return taken;
  }

  /// Sends the results of `a` to stages on other ranks. Calls `received(rank)` for each of them.
  /// O(neighbours).
  template <class F>
  void send_results(action const& a, F received) {
    using enum action_kind;
    if (!makes_results(a.kind)) return;
    auto const s = index(a.stage);
    if (a.kind == forward)
      for (auto const reader : neighbours_.after(s)) send(a, reader, send_activation, received);
    else
      for (auto const feeder : neighbours_.before(s)) send(a, feeder, send_gradient, received);
  }

  /// Sends one value from a stage to a stage on another rank. Returns that rank. O(1).
  std::uint32_t send_one(stage_id from, stage_id to, microbatch_id m, action_kind send_kind) {
    auto const there = index(schedule_.place.rank_of[index(to)]);
    auto const receive_kind = send_kind == action_kind::send_activation ? action_kind::receive_activation
                                                                        : action_kind::receive_gradient;
    made_.ranks[index(schedule_.place.rank_of[index(from)])].push_back({send_kind, 0, from, m, to});
    made_.ranks[there].push_back({receive_kind, 0, to, m, from});
    return there;
  }

  /// Returns the ranks that are not at their end, and their next actions.
  std::vector<stuck_rank> stuck() const {
    std::vector<stuck_rank> stuck;
    for (std::uint32_t r = 0; r < at_.size(); ++r)
      if (!at_end(r)) stuck.push_back({rank_id{r}, action_text(rest_of_cell(r).front())});
    return stuck;
  }

  /// Returns the result. \throws stuck_error unless all ranks are at their ends
  schedule finish() {
    if (auto const waiting = stuck(); !waiting.empty()) throw stuck_error(waiting);
    return std::move(made_);
  }

 private:
  struct place_in_row {
    std::size_t cell = 0;        ///< the position of its first action
    std::size_t parts_done = 0;  ///< of a compound that is split
  };

  static constexpr bool makes_results(action_kind k) {
    return k >= action_kind::forward && k <= action_kind::input_gradient;
  }

  /// Returns the number of sends and receives per pass of each stage. A forward pass receives from as many
  /// ranks as the backward pass sends gradients to.
  std::vector<std::size_t> messages_of_stages() const {
    std::vector<std::size_t> messages(schedule_.place.stages());
    auto const& rank_of = schedule_.place.rank_of;
    for (auto const& e : schedule_.place.edges)
      if (rank_of[index(e.from)] != rank_of[index(e.to)]) ++messages[index(e.from)], ++messages[index(e.to)];
    return messages;
  }

  template <class F>
  void send(action const& a, std::uint32_t to, action_kind send_kind, F& received) {
    auto const& rank_of = schedule_.place.rank_of;
    if (rank_of[index(a.stage)] != rank_of[to])
      received(send_one(a.stage, stage_id{to}, a.microbatch, send_kind));
  }

  schedule const& schedule_;
  stage_neighbours neighbours_;
  std::vector<place_in_row> at_;
  schedule made_;
};

}  // namespace cleave::detail
