// SPDX-License-Identifier: MIT
// Trains the stages of processes.cpp in steps that are recorded once, with the update of the weights, and
// then replayed. It is built and run like that, and prints the same.
#include <cleave/cuda.hpp>
#include <cleave/processes.hpp>
#include <cstdint>
#include <exception>
#include <iomanip>
#include <iostream>

#include "stages.hpp"

// [update]
class replayed_stages : public example::small_stages {
 public:
  using small_stages::small_stages;
  using small_stages::update;
  void update(cudaStream_t s, cleave::stage_id, cleave::device_update const* u) {
    example::launch_update(s, at(0), at(1), u);
  }
};
// [update]

void train_replayed(cleave::process_start const& start) {
  auto const plan = example::plan_of_two();
  using stages = cleave::cuda::callable_stage<replayed_stages>;
  cleave::cuda::pipeline_options options;
  options.run.steps = cleave::step_mode::replayed;
  cleave::cuda::pipeline<stages> run(
      plan, [](cleave::cuda::device& d) { return stages(replayed_stages(d)); }, options, start);
  example::small_batch const batch(run.own_device());
  for (int step = 0; step < 5; ++step) {
    // [run]
    auto const done = run.run_step_and_update(batch.values(), {.most_norm = 10});
    // [run]
    double loss = 0;
    for (std::uint32_t m = 0; m < 4; ++m)
      if (auto const made = run.result(cleave::microbatch_id{m}, 0)) loss += 0.25 * example::number_of(*made);
    if (run.rank() == cleave::rank_id{1})
      std::cout << "loss " << std::setprecision(4) << loss << ", norm of the gradient " << done.norm << '\n';
  }
}

int main() try {
  train_replayed(cleave::read_process_start());
  return 0;
} catch (std::exception const& e) {
  std::cerr << e.what() << '\n';
  return 1;
}
