// SPDX-License-Identifier: MIT
// Adds messages to a schedule of four stages with a skip connection from the first to the last. The schedule
// finishes on every transport. Messages that begin together, and their ranks, are plain data for your
// runtime.
#include <cleave/schedule.hpp>
#include <iostream>

int main() {
  using cleave::stage_id, cleave::the_caller;

  // [messages]
  cleave::dataflow const values{.stages = 4,
                                .edges = {{the_caller, 0, stage_id{0}, 0},
                                          {stage_id{0}, 0, stage_id{1}, 0, 0, 4096},
                                          {stage_id{1}, 0, stage_id{2}, 0, 0, 4096},
                                          {stage_id{2}, 0, stage_id{3}, 0, 0, 4096},
                                          {stage_id{0}, 0, stage_id{3}, 1, 0, 512},  // a skip
                                          {stage_id{3}, 0, the_caller, 0}}};
  auto const passes = cleave::connect_stages(cleave::one_f_one_b(4, 4), values);
  auto const lowered =
      cleave::lower(passes, {.times = {.costs = {{.forward = 1, .backward = 2}}, .base_latency = 0.25},
                             .grouping = cleave::message_grouping::adjacent});
  // [messages]

  cleave::each_cell(lowered.ranks[3], [](cleave::action const& head, auto parts) {
    if (head.kind == cleave::action_kind::exchange) std::cout << cleave::cell_text(head, parts) << '\n';
  });
  for (auto const& m : cleave::stage_messages(values))
    std::cout << "stage " << index(m.edge.from) << " to stage " << index(m.edge.to) << ": " << m.bytes
              << " bytes\n";
  for (auto const d : {cleave::delivery::buffered, cleave::delivery::rendezvous, cleave::delivery::async,
                       cleave::delivery::pair_stream})
    std::cout << cleave::deadlock_verdict(lowered, d) << '\n';

  // [rounds]
  for (auto const& round : cleave::directed_rounds(lowered.place)) {
    std::cout << "round:";
    for (auto const e : round) std::cout << ' ' << index(e.from) << "->" << index(e.to);
    std::cout << '\n';
  }
  // [rounds]
}

// It prints:
//
//   (3RECV_F0@0;3RECV_F1@0;3RECV_F2@0;3RECV_F0)EXCHANGE
//   (3RECV_F3@0;3RECV_F1)EXCHANGE
//   (3SEND_B0@0;3SEND_B0)EXCHANGE
//   (3SEND_B1@0;3SEND_B1;3RECV_F2)EXCHANGE
//   (3SEND_B2@0;3SEND_B2;3RECV_F3)EXCHANGE
//   (3SEND_B3@0;3SEND_B3)EXCHANGE
//   stage 0 to stage 1: 4096 bytes
//   stage 0 to stage 3: 512 bytes
//   stage 1 to stage 2: 4096 bytes
//   stage 2 to stage 3: 4096 bytes
//   finishes
//   finishes
//   finishes
//   finishes
//   round: 0->1 2->3
//   round: 1->0 3->2
//   round: 0->3 1->2
//   round: 3->0 2->1
