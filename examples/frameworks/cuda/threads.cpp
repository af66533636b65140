// SPDX-License-Identifier: MIT
// Trains two stages on one GPU, with one thread per rank:
//
//   nvcc -std=c++20 -arch=native --expt-relaxed-constexpr -Iinclude examples/frameworks/cuda/{threads.cpp,kernels.cu,library.cu}
#include <cleave/cuda.hpp>
#include <cstdint>
#include <iomanip>
#include <iostream>

#include "stages.hpp"

int main() {
  // [run]
  auto const plan = example::plan_of_two();
  cleave::cuda::device gpu;
  example::small_batch const batch(gpu);
  using stages = cleave::cuda::callable_stage<example::small_stages>;
  cleave::cuda::thread_pipeline<stages> run(
      plan, [](cleave::rank_id, cleave::cuda::device& d) { return stages(example::small_stages(d)); });
  for (int step = 0; step < 5; ++step) {
    run.run_step(batch.values());
    double loss = 0;
    for (std::uint32_t m = 0; m < 4; ++m)
      loss += 0.25 * example::number_of(*run.result(cleave::microbatch_id{m}, 0));
    auto const done = run.update({.most_norm = 10});
    std::cout << "loss " << std::setprecision(4) << loss << ", norm of the gradient " << done.norm << '\n';
  }
  // [run]
  return 0;
}

// It prints:
//
//   loss 37.5, norm of the gradient 21.21
//   loss 28.44, norm of the gradient 23.7
//   loss 18.89, norm of the gradient 23.57
//   loss 10.01, norm of the gradient 20.26
//   loss 3.185, norm of the gradient 13.18
