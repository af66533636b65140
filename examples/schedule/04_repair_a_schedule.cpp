// SPDX-License-Identifier: MIT
// Repairs a schedule that deadlocks: two ranks send to each other before they receive, which fails if sends
// block. The example prints the cycle of waits, and moves as few actions as possible.
#include <cleave/schedule.hpp>
#include <iostream>

int main() {
  // [repair]
  auto const crossed =
      cleave::schedule_from_rows({cleave::read_row("0F0,0SEND_F0,0F1,0SEND_F1,2RECV_F0,2F0,2RECV_F1,2F1"),
                                  cleave::read_row("1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1,1SEND_F1")},
                                 cleave::row_contents::with_communication);
  std::cout << "one buffer: " << deadlock_verdict(crossed, {.buffers = 1}) << '\n';
  auto const stuck = find_deadlock(crossed, cleave::delivery::one_queue);
  std::cout << "one queue: " << wait_text(stuck->cycle) << '\n';
  auto const repaired = fix_deadlock(crossed, {.delivery = cleave::delivery::one_queue});
  for (auto const& m : repaired.moved) std::cout << "moved, " << describe(m) << '\n';
  // [repair]
  std::cout << deadlock_verdict(repaired.order, cleave::serial_device) << '\n';
}

// It prints:
//
//   one buffer: finishes
//   one queue: rank 0 at '0SEND_F1' waits for '1RECV_F1' of rank 1; rank 1 at '1SEND_F0' waits for '2RECV_F0' of rank 0
//   moved, rank 1: '1RECV_F1' from #3 to #2
//   finishes
