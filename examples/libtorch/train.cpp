// SPDX-License-Identifier: MIT
// A small GPT in libtorch, trained in one piece and, by three schedules, as stages on threads, in double
// precision: losses and parameters must be equal. train_mpi.cpp does the same with processes.
#include <algorithm>
#include <cleave/core/ids.hpp>
#include <cleave/run/thread_pipeline.hpp>
#include <cleave/schedule/schedule.hpp>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "gpt.hpp"
#include "training.hpp"

namespace {

using example::gpt_size, example::whole_training;

// [train]
example::difference train_on_threads(gpt_size const& size, cleave::schedule const& s,
                                     whole_training const& whole) {
  std::vector<example::rank_stages> trained;
  for (std::uint32_t r = 0; r < s.place.ranks; ++r) trained.emplace_back(size, s, cleave::rank_id{r});
  std::vector<example::torch_engine> engines;
  for (auto& rank : trained) engines.push_back(rank.engine());
  cleave::thread_pipeline pipeline(example::plan_for(size, s), std::move(engines),
                                   {.ties = example::ties_of(s)});

  example::difference off;
  for (std::uint32_t step = 0; step < example::steps; ++step) {
    example::lesson const given(size, step);
    pipeline.run_step(given.values());
    for (auto& rank : trained) rank.update();

    double loss = 0;
    for (std::uint32_t m = 0; m < example::microbatches; ++m)
      loss += *static_cast<double const*>(pipeline.result(cleave::microbatch_id{m}, 0)->data);
    off.loss = std::max(off.loss, std::abs(loss / example::microbatches - whole.losses[step]));
  }
  for (auto const& rank : trained) off.parameters = std::max(off.parameters, rank.difference(*whole.model));
  return off;
}
// [train]

}  // namespace

int main() {
  at::set_num_threads(1);  // each rank is a thread: more of libtorch's own would stand in their way
  gpt_size const size;
  auto const whole = example::train_whole(size);
  std::printf("%u steps of %u microbatches in one piece: the loss goes from %.4f to %.4f\n", example::steps,
              example::microbatches, whole.losses.front(), whole.losses.back());
  bool equal = true;
  for (auto const& [name, s] : example::schedules()) {
    auto const off = train_on_threads(size, s, whole);
    print_row(name, s, off);
    equal = equal && off.is_small();
  }
  return equal ? EXIT_SUCCESS : EXIT_FAILURE;
}
