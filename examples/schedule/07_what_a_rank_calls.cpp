// SPDX-License-Identifier: MIT
// Lists the calls, messages and waits of a rank in order, as plain data. Also lists the actions of all ranks
// in each step, if every action takes one step.
#include <cleave/schedule.hpp>
#include <iostream>
#include <utility>

int main() {
  // [calls]
  auto const order = cleave::one_f_one_b(2, 2);
  auto const program = send_at_use(order, cleave::send_pairing::with_next_receive);
  auto const calls = rank_calls(program, cleave::rank_id{0});
  for (auto const& line : cleave::call_lines(calls)) std::cout << line << '\n';
  // [calls]

  // [steps]
  auto const steps = simulate_steps(program);
  for (auto const& row : step_rows(program, steps)) std::cout << cleave::row_text(row) << '\n';
  // [steps]

  // A schedule that cannot proceed is an error.
  auto crossed = program;
  std::swap(crossed.ranks[1][0], crossed.ranks[1][1]);
  if (auto const fault = find_call_fault(crossed, cleave::rank_id{1})) std::cout << describe(*fault) << '\n';
  if (auto const fault = find_step_fault(crossed)) std::cout << describe(*fault) << '\n';
}

// It prints:
//
//   forward 0 0
//   send F0 stage 0->1
//   forward 0 1
//   wait send F0 stage 0->1
//   release 0 0
//   batch[send F1 stage 0->1; recv B0 stage 0<-1]
//   wait send F1 stage 0->1
//   wait recv B0 stage 0<-1
//   release 0 1
//   backward 0 0
//   recv B1 stage 0<-1
//   wait recv B1 stage 0<-1
//   backward 0 1 last
//   0F0,0SEND_F0,0F1,0WAIT_SEND_F0,(0SEND_F1;0RECV_B0)EXCHANGE,0WAIT_SEND_F1,0B0,,0RECV_B1,0B1
//   ,1RECV_F0,1F0,1B0,(1SEND_B0;1RECV_F1)EXCHANGE,1WAIT_SEND_B0,1F1,1B1,1SEND_B1,1WAIT_SEND_B1
//   rank 1, action #0: '1F0' needs a value from another rank; put '1RECV_F0' before it
//   no rank can continue: rank 0 at 0WAIT_SEND_F0, rank 1 at 1F0; list the actions that they wait for earlier
