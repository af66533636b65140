// SPDX-License-Identifier: MIT
// Assigns numbered buffers (slots) to the activations of forward passes, and counts the slots of a rank. A
// pass holds its slot from its forward cell to its backward cell.
#include <cleave/schedule.hpp>
#include <iostream>
#include <vector>

int main() {
  auto const order = cleave::make_schedule(cleave::schedule_family::interleaved_1f1b,
                                           {.ranks = 2, .stages_per_rank = 2, .microbatches = 4});
  std::cout << cleave::row_text(order.ranks[0]) << '\n';

  // [slots]
  std::vector const stages{cleave::stage_id{0}, cleave::stage_id{2}};  // those of rank 0
  auto const each = slots_of_activations(order, cleave::rank_id{0}, stages);
  auto const shared = slots_of_activations(order, cleave::rank_id{0}, stages, cleave::slot_grain::microbatch);
  std::cout << each.count << " slots with one for each forward pass, " << shared.count
            << " with one for each microbatch\n";
  for (auto const& p : each.passes)
    std::cout << stage_text(p.pass.stage) << ", microbatch " << index(p.pass.microbatch) << ": slot "
              << p.slot << ", cells " << p.pass.alive.first << " to " << p.pass.alive.last << '\n';
  // [slots]

  // [wrong]
  auto broken = order;
  broken.ranks[0].pop_back();
  if (auto const fault = find_lifetime_fault(broken, cleave::rank_id{0}, stages))
    std::cout << describe(*fault) << '\n';
  // [wrong]
}

// It prints:
//
//   0F0,0F1,2F0,2F1,,,0F2,2B0,0F3,2B1,2F2,0B0,2F3,0B1,,2B2,,2B3,,0B2,,0B3
//   5 slots with one for each forward pass, 4 with one for each microbatch
//   stage 0, microbatch 0: slot 0, cells 0 to 11
//   stage 0, microbatch 1: slot 1, cells 1 to 13
//   stage 0, microbatch 2: slot 4, cells 6 to 19
//   stage 0, microbatch 3: slot 2, cells 8 to 21
//   stage 2, microbatch 0: slot 2, cells 2 to 7
//   stage 2, microbatch 1: slot 3, cells 3 to 9
//   stage 2, microbatch 2: slot 3, cells 10 to 15
//   stage 2, microbatch 3: slot 0, cells 12 to 17
//   rank 0: '0B3' is missing, and so is W; add B, or I and W
