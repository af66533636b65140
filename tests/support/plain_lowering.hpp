// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <set>
#include <utility>
#include <vector>

#include "cleave/schedule/model/schedule.hpp"

namespace cleave::testing {

using namespace detail;

/// Adds all messages to a compute-only schedule of a chain. Each receive comes right before its consumer,
/// each send right after its producer, and all waits for sends at the end. The result finishes if sends do
/// not block.
inline schedule with_plain_messages(schedule const& s) {
  using enum action_kind;
  schedule to{s.place, s.microbatches, {}};
  for (auto const& row : s.ranks) {
    auto& out = to.ranks.emplace_back();
    std::vector<action> waits;
    each_action(row, [&](action const& a) {
      bool const is_forward = a.kind == action_kind::forward, is_weight = a.kind == weight_gradient;
      auto const add = [&](action_kind kind, stage_id peer) {
        if (s.place.rank_of[index(peer)] != s.place.rank_of[index(a.stage)])
          (is_wait_send(kind) ? waits : out)
              .push_back({.kind = kind, .stage = a.stage, .microbatch = a.microbatch, .peer = peer});
      };
      for (auto const& e : s.place.edges) {
        if (is_forward && e.to == a.stage) add(receive_activation, e.from);
        if (!is_forward && !is_weight && e.from == a.stage) add(receive_gradient, e.to);
      }
      out.push_back(a);
      for (auto const& e : s.place.edges) {
        if (is_forward && e.from == a.stage) add(send_activation, e.to), add(wait_send_activation, e.to);
        if (!is_forward && !is_weight && e.to == a.stage)
          add(send_gradient, e.from), add(wait_send_gradient, e.from);
      }
    });
    out.insert(out.end(), waits.begin(), waits.end());
  }
  return to;
}

}  // namespace cleave::testing
