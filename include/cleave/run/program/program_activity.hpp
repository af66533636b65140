// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/core/rank_grid.hpp"
#include "cleave/run/model/wait_chain.hpp"
#include "cleave/run/program/rank_program.hpp"
#include "cleave/schedule/calls/rank_calls.hpp"

namespace cleave::detail {

/// Returns the activity of a rank at instruction `at` of its program, or at one of the three special
/// positions such as `program_done`. A replaying rank counts as waiting for all others, since its position in
/// the step is unknown.
inline rank_activity activity_of(rank_program const& p, std::uint32_t at) {
  if (at == program_done) return {.kind = activity_kind::done};
  if (at >= p.instructions.size()) {  // all ranks take part in these
    rank_activity all{.kind = activity_kind::waiting};
    all.operation = at == program_replaying ? "a replayed step" : "sums of gradients";
    for (std::uint32_t r = 0; r < p.ranks; ++r)
      if (rank_id{r} != p.rank) all.peers.push_back(rank_id{r});
    return all;
  }
  auto const& i = p.instructions[at];
  rank_activity a{.kind = activity_kind::computing, .operation = call_text(i.call)};
  auto const& of =
      i.call.kind == call_kind::custom && i.call.parts > 0 ? p.instructions[at + 1].call.of : i.call.of;
  if (has_microbatch(of.kind)) a.at = stage_call{of.stage, of.microbatch};
  auto const wait_for = [&](rank_instruction const& m) {
    a.kind = activity_kind::waiting;
    if (std::ranges::find(a.peers, m.peer) == a.peers.end()) a.peers.push_back(m.peer);
  };
  auto const kind = i.call.kind;
  if (kind == call_kind::wait_send || kind == call_kind::wait_receive) wait_for(p.instructions[i.call.begun]);
  if (kind == call_kind::send || kind == call_kind::receive) wait_for(i);
  if (kind == call_kind::exchange)
    for (std::uint32_t n = 1; n <= i.call.parts; ++n) wait_for(p.instructions[at + n]);
  return a;
}

/// Returns the activity of rank `here` in a grid of replicas of the pipeline. Its peers are ranks of the
/// grid. In reductions and replays, which all ranks run together, the replicas of `here` are peers too.
inline rank_activity activity_of(rank_program const& p, std::uint32_t at, rank_grid const& grid,
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
