// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_needs.hpp"
#include "cleave/schedule/simulate/time_walk.hpp"
#include "cleave/schedule/verify/deadlock.hpp"
#include "cleave/schedule/verify/shortest_circle.hpp"

namespace cleave::detail {

/// Finds who waits for whom, once nothing moves.
class simulated_waits {
 public:
  /// Refers to both. Precondition: the walk has run.
  simulated_waits(schedule const& s, time_walk const& walk) : schedule_(s), walk_(walk) {}

  /// O(ranks · (the longest list + ranks)).
  deadlock found() const {
    deadlock d;
    for (std::uint32_t r = 0; r < schedule_.ranks.size(); ++r)
      if (!walk_.is_finished(r)) d.waiting.push_back(wait_of(r));
    std::vector<circle_edge> edges;
    std::vector<std::size_t> edge_wait;
    for (std::size_t i = 0; i < d.waiting.size(); ++i) {
      if (!is_to_come(d.waiting[i])) continue;
      edges.push_back({index(d.waiting[i].rank), index(d.waiting[i].for_rank)});
      edge_wait.push_back(i);
    }
    for (auto const e : shortest_circle(static_cast<std::uint32_t>(schedule_.ranks.size()), edges))
      d.circle.push_back(d.waiting[edge_wait[e]]);
    return d;
  }

 private:
  /// The first thing that the next action of rank `r` waits for. Precondition: it waits.
  waiting_action wait_of(std::uint32_t r) const {
    auto const& row = schedule_.ranks[r];
    auto const first = walk_.position(r);
    for (auto i = first; i <= first + row[first].parts; ++i) {
      action const& a = row[i];
      if (a.parts > 0) continue;
      if (action missing; !has_needs(a, missing))
        return {rank_id{r}, i, a, schedule_.place.rank_of[index(missing.stage)], missing};
    }
    return {rank_id{r}, first, row[first], rank_id{r}, row[first]};
  }

  /// Whether all is there; else `missing` becomes what would have to be done.
  bool has_needs(action const& a, action& missing) const {
    auto const has_message = [&](std::uint32_t edge, edge_flow flow) {
      auto const where = walk_.messages().at({edge, flow, a.microbatch}).where;
      if (where == message_place::there) return true;
      missing = missing_end(a, where, walk_.needs().send_done(edge, flow, a.microbatch));
      return false;
    };
    auto const has_pass = [&](std::uint32_t s, pass_mark which) {
      if (walk_.marks().is_done(s, a.microbatch, which)) return true;
      auto const kind = which == pass_mark::forward    ? action_kind::forward
                        : which == pass_mark::gradient ? action_kind::backward
                                                       : action_kind::input_gradient;
      missing = {.kind = kind, .stage = stage_id{s}, .microbatch = a.microbatch};
      return false;
    };
    if (!is_message(a.kind)) return walk_.marks().each_need(a, has_pass, has_message);
    auto const flow = is_activation_message(a.kind) ? edge_flow::activations : edge_flow::gradients;
    return has_message(walk_.needs().edge_of(a), flow);
  }

  /// The end of a message that has not begun, that of the rank itself first where neither has; or the pass
  /// whose result it is, where a schedule has no messages of its own.
  action missing_end(action const& a, message_place where, std::uint32_t send) const {
    auto const sender = walk_.needs().action_of(send);
    if (!walk_.needs().messages())
      return {
          .kind = sender.kind == action_kind::send_activation ? action_kind::forward : action_kind::backward,
          .stage = sender.stage,
          .microbatch = a.microbatch};
    bool const sends = is_wait_send(a.kind);
    bool const waits_to_receive = is_receive(a.kind) || where == message_place::awaited;
    bool const for_receive = sends ? where == message_place::sent : !waits_to_receive;
    return for_receive ? walk_.needs().action_of(schedule_needs::receive_of(send)) : sender;
  }

  /// Whether its rank would do it, if it went on.
  bool is_to_come(waiting_action const& w) const {
    auto const owner = index(w.for_rank);
    auto wanted = w.for_what;
    auto const& row = schedule_.ranks[owner];
    for (auto i = walk_.position(owner); i < row.size(); ++i) {
      auto done = row[i];
      if (done.kind == action_kind::input_gradient && wanted.kind == action_kind::backward)
        done.kind = wanted.kind;
      if (done == wanted) return true;
    }
    return false;
  }

  schedule const& schedule_;
  time_walk const& walk_;
};

}  // namespace cleave::detail
