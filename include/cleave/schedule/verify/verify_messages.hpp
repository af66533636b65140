// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_needs.hpp"
#include "cleave/schedule/verify/fault_list.hpp"

namespace cleave::detail {

/// Finds what comes too early on its own rank, and messages that are not whole.
class event_survey {
 public:
  event_survey(schedule const& s, schedule_needs const& needs)
      : schedule_(s), needs_(needs), rank_of_(needs.events(), nowhere), seen_(needs.events()) {
    each_placed(s.ranks, [&](placed_action const& p) {
      each_event(p.what, [&](std::uint32_t event) { rank_of_[event] = index(p.rank); });
      any_waits_ |= is_wait_send(p.what.kind);
    });
  }

  void report(fault_list& to) {
    each_placed(schedule_.ranks, [&](placed_action const& p) {
      if (to.is_full() || !needs_.in_range(p.what)) return;
      report_early(p, to);
      each_event(p.what, [&](std::uint32_t event) {
        bool const again = seen_[event] & happened;
        if (again && needs_.is_end_of_message(event)) to.add(repeated, p, {}, 2);
        seen_[event] |= happened;
      });
    });
    if (!needs_.messages()) return;
    each_placed(schedule_.ranks, [&](placed_action const& p) {
      if (is_send(p.what.kind) || is_receive(p.what.kind)) report_end(p, to);
    });
    report_missing(to);
  }

 private:
  using enum schedule_fault::kind;
  static constexpr std::uint32_t nowhere = 0xffffffff;
  static constexpr unsigned char happened = 1, waited = 2;

  template <class F>
  void each_event(action const& a, F f) const {
    if (is_compute(a.kind)) {
      if (needs_.in_range(a)) needs_.each_effect(a, f);
    } else if (is_send(a.kind) || is_receive(a.kind)) {
      if (auto const end = needs_.message_end(a); end != schedule_needs::none) f(end);
    }
  }
  bool is_anywhere(std::uint32_t event) const { return rank_of_[event] != nowhere; }

  void report_early(placed_action const& p, fault_list& to) {
    auto const need = [&](std::uint32_t event) {
      if (rank_of_[event] == index(p.rank) && !(seen_[event] & happened))
        to.add(out_of_order, p, needs_.action_of(event));
      return true;
    };
    action const& a = p.what;
    if (is_compute(a.kind)) needs_.each_need(a, need);
    if (is_send(a.kind)) need(needs_.pass_of(a));
    if (a.kind >= action_kind::offload) need(needs_.forward_done(index(a.stage), a.microbatch));
    if (!is_wait_send(a.kind)) return;
    auto const end = needs_.message_end(a);
    if (end == schedule_needs::none) return;
    if (!is_anywhere(end) || (seen_[end] & waited))
      to.add(waited_not_sent, p);
    else
      need(end);
    seen_[end] |= waited;
  }

  /// Of one end of a message: the other end, the pass it is for, and the wait.
  void report_end(placed_action const& p, fault_list& to) const {
    auto const end = needs_.message_end(p.what);
    if (end == schedule_needs::none) return;
    bool const sends = is_send(p.what.kind);
    auto const other = schedule_needs::other_end(end);
    if (!is_anywhere(other)) to.add(sends ? receive_missing : send_missing, p, needs_.action_of(other));
    if (!is_anywhere(needs_.pass_of(p.what))) to.add(sends ? sent_not_made : received_not_used, p);
    if (sends && any_waits_ && !(seen_[end] & waited)) to.add(wait_missing, p);
  }

  /// What is computed on one rank and used on another, and not moved.
  void report_missing(fault_list& to) const {
    for (std::uint32_t e = 0; e < schedule_.place.edges.size() && !to.is_full(); ++e) {
      if (!needs_.crosses_ranks(e)) continue;
      auto const& edge = schedule_.place.edges[e];
      for (std::uint32_t m = 0; m < schedule_.microbatches; ++m) {
        auto const report = [&](edge_flow flow, std::uint32_t user) {
          auto const send = needs_.send_done(e, flow, microbatch_id{m});
          auto const receive = schedule_needs::receive_of(send);
          if (is_anywhere(user) && !is_anywhere(send) && !is_anywhere(receive)) {
            action const a = needs_.action_of(receive);
            to.add(message_missing, {schedule_.place.rank_of[index(a.stage)], 0, a});
          }
        };
        report(edge_flow::activations, needs_.forward_done(index(edge.to), microbatch_id{m}));
        report(edge_flow::gradients, needs_.gradient_done(index(edge.from), microbatch_id{m}));
      }
    }
  }

  schedule const& schedule_;
  schedule_needs const& needs_;
  std::vector<std::uint32_t> rank_of_;  // where an event happens
  std::vector<unsigned char> seen_;
  bool any_waits_ = false;
};

}  // namespace cleave::detail
