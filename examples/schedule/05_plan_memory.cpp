// SPDX-License-Identifier: MIT
// Plans the memory of a schedule before it runs: offloads stashes until they fit, makes messages wait for
// free slots, and assigns an offset to each value. Then it sums the gradients of a tied embedding while ranks
// idle.

#include <cleave/schedule.hpp>
#include <iostream>
#include <vector>

using namespace cleave::literals;

int main() {
  // [slots]
  auto const order = cleave::one_f_one_b(4, 8);
  cleave::schedule_bytes const bytes{.stages = {{.saved = 3_GiB}}, .edges = {{256_MiB, 256_MiB}}};

  auto const limited = limit_saved_activations(order, {.bytes = bytes, .memory_limit = {6_GiB}});
  auto const slots = fewest_receive_slots(limited);
  auto const sent = add_send_waits(send_into_slots(limited, {.slots = slots}));
  auto const plan = plan_memory(sent, bytes, {.memory_limit = {10_GiB}});
  for (auto const& rank : plan.ranks)
    std::cout << rank.values.size() << " values in " << cleave::format_bytes(rank.bytes) << " of at least "
              << cleave::format_bytes(rank.least_bytes) << '\n';
  for (auto const& v : plan.ranks[0].values)
    if (v.alive.first < 4)
      std::cout << slot_text(v) << ": cells " << v.alive.first << " to " << v.alive.last << ", at "
                << cleave::format_bytes(v.offset) << '\n';
  // [slots]

  // [ties]
  auto const waves = cleave::looped_bfs(2, 2, 1);
  std::vector<cleave::tied_stages> const ties{{{cleave::stage_id{2}, cleave::stage_id{3}}, 0.5}};
  auto const tied = reduce_ties(waves, ties, {.base_latency = 1});
  for (auto const& row : tied.ranks) std::cout << cleave::row_text(row) << '\n';
  // [ties]
}

// It prints:
//
//   29 values in 7.3 GiB of at least 7.3 GiB
//   44 values in 9.3 GiB of at least 9.3 GiB
//   40 values in 9 GiB of at least 9 GiB
//   24 values in 5.3 GiB of at least 5.3 GiB
//   the stash of stage 0, microbatch 0: cells 0 to 11, at 1.3 GiB
//   the sent activation of stage 0, microbatch 0 (other end: stage 1): cells 0 to 12, at 0 B
//   the stash of stage 0, microbatch 1: cells 2 to 3, at 4.3 GiB
//   the sent activation of stage 0, microbatch 1 (other end: stage 1): cells 2 to 19, at 256 MiB
//   0F0,2F0,,,2B0,2REDUCE_TIE@3,0B0,2WAIT_REDUCE_TIE@3
//   ,1F0,3F0,3B0,3REDUCE_TIE@2,1B0,3WAIT_REDUCE_TIE@2
