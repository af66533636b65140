// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
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
#include "cleave/schedule/lower/message_table.hpp"
#include "cleave/schedule/lower/send_waits.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/action_text.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/stray_action.hpp"

namespace cleave::detail {

/// A send that would be one too many, where none of those before it can be waited for.
struct send_limit_fault {
  std::uint32_t rank = 0;
  std::uint32_t limit = 0;
  action send = {};
  std::vector<action> pending = {};

  bool operator==(send_limit_fault const&) const = default;
};

class send_limit_error : public witness_error<send_limit_fault> {
 public:
  explicit send_limit_error(send_limit_fault f) : witness_error(message_of(f), f) {}

 private:
  static std::string message_of(send_limit_fault const& f) {
    std::string pending;
    for (action const& a : f.pending) pending += (pending.empty() ? "" : ", ") + action_text(a);
    return "send budget: rank " + std::to_string(f.rank) + " may have " + std::to_string(f.limit) +
           " sends on their way, and cannot wait for any of [" + pending + "] before '" +
           action_text(f.send) + "'; raise the limit or change the order";
  }
};

/// Moves waits forward; `limit_sends` is its one use.
class send_limiter {
 public:
  send_limiter(schedule const& s, std::uint32_t limit) : before_(s), graph_(s), limit_(limit) {}

  schedule take() {
    schedule limited = before_;
    for (std::uint32_t r = 0; r < limited.ranks.size(); ++r) limited.ranks[r] = limit_rank(r);
    return limited;
  }

 private:
  struct pending_send {
    action what;
    message_graph::node receive;
  };

  std::vector<action> limit_rank(std::uint32_t r) {
    auto const& row = before_.ranks[r];
    std::vector<action> limited;
    limited.reserve(row.size());
    pending_.clear();
    for (std::size_t i = 0; i < row.size(); ++i) {
      action const& a = row[i];
      if (is_send(a.kind)) {
        auto const here = graph_.at(r, i);
        if (pending_.size() >= limit_) limited.push_back(wait_earlier(r, a, here));
        pending_.push_back({a, graph_.receive_of(here)});
      } else if (is_wait_send(a.kind)) {
        auto const send =
            std::ranges::find_if(pending_, [&](auto const& p) { return wait_for(p.what) == a; });
        if (send == pending_.end()) continue;  // its wait has come earlier
        pending_.erase(send);
      }
      limited.push_back(a);
    }
    return limited;
  }

  /// The wait that comes before `send` from now on: the first whose send has surely been received by then,
  /// else the first that keeps all going.
  action wait_earlier(std::uint32_t r, action const& send, message_graph::node here) {
    auto const received = std::ranges::find_if(
        pending_, [&](pending_send const& p) { return graph_.comes_before(p.receive, here); });
    auto const chosen =
        received != pending_.end() ? received : std::ranges::find_if(pending_, [&](pending_send const& p) {
          return graph_.may_follow(here, p.receive);
        });
    if (chosen == pending_.end()) {
      std::vector<action> all;
      for (auto const& p : pending_) all.push_back(p.what);
      throw send_limit_error({r, limit_, send, std::move(all)});
    }
    graph_.let_follow(here, chosen->receive);
    auto const wait = wait_for(chosen->what);
    pending_.erase(chosen);
    return wait;
  }

  schedule const& before_;
  message_graph graph_;
  std::uint32_t limit_;
  std::vector<pending_send> pending_;
};

/// A schedule of which no rank has more than `limit` sends on their way. Before a send that would be one too
/// many, the wait for an earlier one is brought forward: the earliest whose receive comes before this point
/// anyway, so that the wait costs nothing; else the earliest that makes nobody wait for ever. Lower ranks
/// come first. O(actions * limit) and the actions between each wait and where it goes.
/// \throws stray_action_error, send_wait_error, unreceived_error, message_cycle_error, send_limit_error
inline schedule limit_sends(schedule const& s, std::uint32_t limit) {
  demand_no_stray_action(s);
  demand_send_waits(s);
  return send_limiter(s, limit).take();
}

}  // namespace cleave::detail
