// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/verify/deadlock.hpp"

/// The simplest run of a schedule with messages, as a reference for tests. Queues hold names, and all ranks
/// are polled in turn.
namespace cleave::testing {

using namespace detail;

class queue_run {
 public:
  queue_run(schedule const& s, delivery d) : s_(s), d_(d), at_(s.ranks.size()), asked_(s.ranks.size()) {}

  /// Returns `finishes`, or the position at which each blocked rank waits.
  std::string verdict() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < at_.size(); ++r)
        while (at_[r] < s_.ranks[r].size() && step(r)) {
          ++at_[r];
          asked_[r] = false;
          moved = true;
        }
      moved = meet() || moved;
    }
    std::string text;
    for (std::size_t r = 0; r < at_.size(); ++r)
      if (at_[r] < s_.ranks[r].size())
        text += (text.empty() ? "deadlock: rank " : ", rank ") + std::to_string(r) + " at " +
                action_text(s_.ranks[r][at_[r]]);
    return text.empty() ? "finishes" : text;
  }

 private:
  using message = std::tuple<stage_id, stage_id, bool, microbatch_id>;  // from, to, is a gradient, microbatch
  using end = std::pair<message, bool>;                                 // true: the receiving end

  static message message_of(action const& a) {
    bool const gradient = !is_activation_message(a.kind);
    return is_receive(a.kind) ? message{a.peer, a.stage, gradient, a.microbatch}
                              : message{a.stage, a.peer, gradient, a.microbatch};
  }
  rank_id rank_of(stage_id s) const { return s_.place.rank_of[index(s)]; }

  bool step(std::size_t r) {
    action const& a = s_.ranks[r][at_[r]];
    if (is_compute(a.kind)) return compute(a);
    if (!is_message(a.kind)) return true;
    auto const m = message_of(a);
    if (is_wait_send(a.kind)) {
      if (d_ == delivery::async) return posted_.contains({m, true});
      return d_ != delivery::pair_stream || arrived_.contains(m);
    }
    bool const receives = is_receive(a.kind);
    if (d_ == delivery::buffered) {
      if (!receives) return mail_.insert(m).second || true;
      return mail_.contains(m) && (arrived_.insert(m).second || true);
    }
    if (d_ == delivery::async) {
      posted_.insert({m, receives});
      if (posted_.contains({m, !receives})) arrived_.insert(m);
      return true;
    }
    if (d_ == delivery::pair_stream) {
      auto const peer = static_cast<std::size_t>(index(rank_of(a.peer)));
      streams_[{std::min(r, peer), std::max(r, peer)}][r < peer ? 0 : 1].push_back({m, receives});
      return true;
    }
    if (!asked_[r]) waiting_[{m, receives}] = r;
    asked_[r] = true;
    return arrived_.contains(m);
  }

  /// Completes the messages whose two ends wait for each other. Returns true if there is one.
  bool meet() {
    bool moved = false;
    for (auto const& [e, r] : waiting_)
      if (!e.second && waiting_.contains({e.first, true})) moved = arrived_.insert(e.first).second || moved;
    for (auto& [pair, sides] : streams_)
      while (!sides[0].empty() && !sides[1].empty() && sides[0].front().first == sides[1].front().first &&
             sides[0].front().second != sides[1].front().second) {
        arrived_.insert(sides[0].front().first);
        sides[0].pop_front();
        sides[1].pop_front();
        moved = true;
      }
    return moved;
  }

  bool compute(action const& a) {
    auto const has = [&](stage_id from, bool gradient) {
      if (rank_of(from) == rank_of(a.stage))
        return (gradient ? gradients_ : forwards_).contains({from, a.microbatch});
      return arrived_.contains({from, a.stage, gradient, a.microbatch});
    };
    std::pair const pass{a.stage, a.microbatch};
    if (a.kind == action_kind::weight_gradient) return halves_.contains(pass);
    bool const is_forward = a.kind == action_kind::forward;
    if (!is_forward && !forwards_.contains(pass)) return false;
    for (auto const& e : s_.place.edges) {
      if (is_forward && e.to == a.stage && !has(e.from, false)) return false;
      if (!is_forward && e.from == a.stage && !has(e.to, true)) return false;
    }
    (is_forward ? forwards_ : gradients_).insert(pass);
    if (a.kind == action_kind::input_gradient) halves_.insert(pass);
    return true;
  }

  schedule const& s_;
  delivery d_;
  std::vector<std::size_t> at_;
  std::vector<char> asked_;
  std::set<std::pair<stage_id, microbatch_id>> forwards_, gradients_, halves_;
  std::set<message> mail_, arrived_;
  std::set<end> posted_;
  std::map<end, std::size_t> waiting_;
  std::map<std::pair<std::size_t, std::size_t>, std::map<int, std::deque<end>>> streams_;
};

}  // namespace cleave::testing
