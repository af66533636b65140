// SPDX-License-Identifier: MIT
// Makes a schedule, simulates it with unequal costs, draws it and verifies it.
#include <cleave/draw.hpp>
#include <cleave/schedule.hpp>
#include <fstream>
#include <iostream>
#include <utility>
#include <vector>

int main(int argc, char** argv) {
  // [draw]
  auto const order = cleave::make_schedule(cleave::schedule_family::one_f_one_b,
                                           {.ranks = 3, .stages_per_rank = 1, .microbatches = 5});
  std::vector<cleave::stage_cost> const costs = {{1, 2}, {1.5, 3}, {1, 2}};  // F and B of each stage
  auto const times = simulate(order, {.costs = costs, .base_latency = 0.5});
  cleave::timed_schedule const timed{.name = "a slow stage in the middle",
                                     .order = order,
                                     .times = times,
                                     .time_unit = "ms",
                                     .memory = memory_over_time(order, times, {})};
  std::cout << schedule_chart(timed);
  if (argc > 1) std::ofstream(argv[1]) << schedule_page(timed);  // for a browser
  // [draw]

  // [wrong]
  auto wrong = order;
  std::swap(wrong.ranks[2][0], wrong.ranks[2][1]);
  for (auto const& fault : schedule_faults(wrong))
    std::cout << code_of(fault.what) << ": " << describe(fault) << '\n';
  // [wrong]
}

// It prints:
//
//   rank 0  F0F1F2···············B0--F3···B1--F4···B2--·····B3--····B4--
//   rank 1  ···F0-F1-·····B0----F2-B1----F3-B2----F4-B3----··B4----·····
//   rank 2  ·······F0B0--F1B1--·····F2B2--···F3B3--···F4B4--············
//           0         5         10        15        20        25        30 ms
//
//   peak memory 3 passes
//   rank 0  ▃▃▃▆▆▆████████████████████████████████████████████████████████████▆▆▆▆▆▆▆▆▆▆▆▆▆▆▃▃▃▃▃▃▃▃▃▃▃▃
//   rank 1      ▃▃▃▃▃▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▃▃▃▃▃▃▃▃▃▃▃▃
//   rank 2            ▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃      ▃▃▃▃▃▃▃▃▃▃▃   ▃▃▃▃▃▃▃▃▃▃    ▃▃▃▃▃▃▃▃▃▃
//   out-of-order: rank 2, action #0: '2B0' comes before '2F0', which it needs
