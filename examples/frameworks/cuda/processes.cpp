// SPDX-License-Identifier: MIT
// Trains the stages of threads.cpp with one process per GPU, connected by NCCL:
//
//   nvcc -std=c++20 -arch=native --expt-relaxed-constexpr -Iinclude examples/frameworks/cuda/{processes.cpp,kernels.cu,library.cu}
//     -lnccl -lsodium -o train
//   CLEAVE_KEY=$(openssl rand -hex 16) torchrun --no-python --nproc-per-node 2 ./train     or mpirun -n 2, srun -n 2
#include <cleave/cuda.hpp>
#include <cleave/processes.hpp>
#include <cstdint>
#include <exception>
#include <iomanip>
#include <iostream>

#include "stages.hpp"

// [run]
void train(cleave::process_start const& start) {
  auto const plan = example::plan_of_two();
  using stages = cleave::cuda::callable_stage<example::small_stages>;
  cleave::cuda::pipeline<stages> run(
      plan, [](cleave::cuda::device& d) { return stages(example::small_stages(d)); }, {}, start);
  example::small_batch const batch(run.own_device());
  for (int step = 0; step < 5; ++step) {
    run.run_step(batch.values());
    double loss = 0;
    for (std::uint32_t m = 0; m < 4; ++m)
      if (auto const made = run.result(cleave::microbatch_id{m}, 0))  // on the rank of the last stage
        loss += 0.25 * example::number_of(*made);
    auto const done = run.update({.most_norm = 10});
    if (run.rank() == cleave::rank_id{1})
      std::cout << "loss " << std::setprecision(4) << loss << ", norm of the gradient " << done.norm << '\n';
  }
}
// [run]

// [main]
int main() try {
  train(cleave::read_process_start());
  return 0;
} catch (std::exception const& e) {
  std::cerr << e.what() << '\n';
  return 1;
}
// [main]

// It prints the same as threads.cpp.
