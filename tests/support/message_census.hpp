// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/schedule.hpp"

/// Counts all messages of a schedule in the simplest way, as a reference for tests.
namespace cleave::testing {

using namespace detail;

/// from stage, to stage, is a gradient, microbatch
using message_name = std::tuple<stage_id, stage_id, bool, microbatch_id>;

inline message_name name_of_message(action const& a) {
  bool const gradient = !is_activation_message(a.kind);
  return is_receive(a.kind) ? message_name{a.peer, a.stage, gradient, a.microbatch}
                            : message_name{a.stage, a.peer, gradient, a.microbatch};
}

/// Returns the messages that a schedule must have. Each edge between ranks needs one for each microbatch that
/// has passes at both ends.
inline std::set<message_name> needed_messages(schedule const& s) {
  std::set<std::tuple<stage_id, microbatch_id, bool>> done;
  for (auto const& row : s.ranks)
    each_action(row, [&](action const& a) {
      if (is_compute(a.kind) && a.kind != action_kind::weight_gradient)
        done.insert({a.stage, a.microbatch, a.kind != action_kind::forward});
    });
  std::set<message_name> needed;
  for (auto const& [from, to] : s.place.edges) {
    if (s.place.rank_of[index(from)] == s.place.rank_of[index(to)]) continue;
    for (std::uint32_t m = 0; m < s.microbatches; ++m)
      for (bool const gradient : {false, true}) {
        microbatch_id const i{m};
        if (done.contains({from, i, gradient}) && done.contains({to, i, gradient}))
          needed.insert(gradient ? message_name{to, from, true, i} : message_name{from, to, false, i});
      }
  }
  return needed;
}

/// Returns the first defect of the messages of a schedule, or "" if they are correct. Each must be sent and
/// received once, and a rank must receive in the order in which its peer sends.
inline std::string message_defect(schedule const& s) {
  std::map<std::pair<rank_id, rank_id>, std::vector<message_name>> sent, received;
  for (auto const& row : s.ranks)
    each_action(row, [&](action const& a) {
      auto const here = is_message(a.kind) ? s.place.rank_of[index(a.stage)] : rank_id{};
      if (is_send(a.kind)) sent[{here, s.place.rank_of[index(a.peer)]}].push_back(name_of_message(a));
      if (is_receive(a.kind)) received[{s.place.rank_of[index(a.peer)], here}].push_back(name_of_message(a));
    });
  if (sent != received) return "sent is not what is received";
  std::set<message_name> all;
  std::size_t count = 0;
  for (auto const& [pair, names] : sent) {
    all.insert(names.begin(), names.end());
    count += names.size();
  }
  if (count != all.size()) return "something is sent twice";
  return all == needed_messages(s) ? "" : "not what must be sent";
}

}  // namespace cleave::testing
