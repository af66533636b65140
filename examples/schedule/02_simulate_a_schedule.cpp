// SPDX-License-Identifier: MIT
// Simulates a schedule with a slow link, and prints the critical path and the memory of a rank over time.
#include <cleave/schedule.hpp>
#include <cmath>
#include <iostream>
#include <vector>

int main() {
  // [links]
  auto const order = cleave::one_f_one_b(3, 4);
  std::vector<cleave::rank_link> links(9, {.latency = 0.1, .bandwidth = 100});  // GB/s
  links[1 * 3 + 2] = {.latency = 0.5, .bandwidth = 10};                         // from rank 1 to rank 2
  cleave::simulate_options options{.links = links, .bytes = {{.activation = 5, .gradient = 5}}};
  auto const times = simulate(order, options);
  std::cout << "takes " << times.makespan << ", " << std::lround(100 * bubble_rate(times))
            << " % of it bubbles\nbecause of";
  for (auto const& step : critical_path(order, times)) std::cout << ' ' << action_text(step.what);
  options.messages = cleave::message_time::within;
  std::cout << "\nwithout overlap " << simulate(order, options).makespan << '\n';
  // [links]

  // [memory]
  auto const split = cleave::interleaved_zero_bubble(2, 1, 2);
  auto const kept =
      memory_over_time(split, simulate(split), {.stages = {{.saved = 10, .saved_for_weights = 4}}});
  for (auto const& [time, bytes] : kept[1]) std::cout << "from " << time << ": " << bytes << '\n';
  // [memory]
}

// It prints:
//
//   takes 20.9, 43 % of it bubbles
//   because of 0F0 1F0 2F0 2B0 1B0 0B0 0F3 1F3 2F3 2B3 1B3 0B3
//   without overlap 21.2
//   from 0: 0
//   from 1: 10
//   from 3: 4
//   from 3: 14
//   from 5: 8
//   from 6: 4
//   from 7: 0
