// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/core/rank_grid.hpp"
#include "cleave/run/model/wait_chain.hpp"
#include "cleave/run/program/packed_program.hpp"
#include "cleave/run/program/rank_program.hpp"
#include "cleave/schedule/calls/rank_calls.hpp"

namespace cleave::inline v0_2::detail {

/// Returns the activity of a rank at instruction `at` of its program, or at one of the three special
/// positions such as `program_done`. A replaying rank counts as waiting for all others, since its position in
/// the step is unknown.
inline rank_activity activity_of(packed_program const& p, std::uint32_t at) {
  if (at == program_done) return {.kind = activity_kind::done};
  auto const& all = p.instructions();
  if (at >= all.size()) {  // all ranks take part in these
    rank_activity all_others{.kind = activity_kind::waiting};
    all_others.operation = at == program_replaying ? "a replayed step" : "sums of gradients";
    for (std::uint32_t r = 0; r < p.ranks(); ++r)
      if (rank_id{r} != p.rank()) all_others.peers.push_back(rank_id{r});
    return all_others;
  }
  auto const call = all[at].call;
  rank_activity a{.kind = activity_kind::computing, .operation = call_text(call)};
  auto const of = call.kind == call_kind::custom && call.parts > 0 ? all[at + 1].call.of : call.of;
  if (has_microbatch(of.kind)) a.at = stage_call{of.stage, of.microbatch};
  auto const wait_for = [&](std::uint32_t message) {
    auto const peer = all[message].peer;
    a.kind = activity_kind::waiting;
    if (std::ranges::find(a.peers, peer) == a.peers.end()) a.peers.push_back(peer);
  };
  if (call.kind == call_kind::wait_send || call.kind == call_kind::wait_receive) wait_for(call.begun);
  if (call.kind == call_kind::send || call.kind == call_kind::receive) wait_for(at);
  if (call.kind == call_kind::exchange)
    for (std::uint32_t n = 1; n <= call.parts; ++n) wait_for(at + n);
  return a;
}

/// Returns the activity of rank `here` in a grid of replicas of the pipeline. Its peers are ranks of the
/// grid. In reductions and replays, which all ranks run together, the replicas of `here` are peers too.
inline rank_activity activity_of(packed_program const& p, std::uint32_t at, rank_grid const& grid,
                                 rank_id here) {
  auto a = activity_of(p, at);
  auto const place = grid[here];
  for (auto& peer : a.peers)
    peer = grid[rank_coordinates{.pipe = index(peer), .data = place.data, .model = place.model}];
  bool const all_meet = at == program_replaying || at == program_reducing;
  for (std::uint32_t d = 0; all_meet && d < grid.size(rank_axis::data); ++d)
    if (d != place.data)
      a.peers.push_back(grid[rank_coordinates{.pipe = place.pipe, .data = d, .model = place.model}]);
  return a;
}

}  // namespace cleave::detail
