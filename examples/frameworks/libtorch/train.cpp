// SPDX-License-Identifier: MIT
// Trains a small GPT in libtorch as a whole and, with three schedules, in stages; losses and parameters must
// be equal in double precision. The stages run on threads, or in four processes: mpirun -n 4 libtorch_train
// mpi

#include <cleave/run.hpp>
#include <cleave/schedule.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

#if __has_include(<mpi.h>)
#include <cleave/mpi.hpp>
#endif

#include "training.hpp"

namespace {

using cleave::microbatch_id, cleave::rank_id;

example::difference train_on_threads(example::gpt_size const& size, cleave::schedule const& s,
                                     example::whole_training const& whole) {
  // [threads]
  example::gpt_pieces pieces(size, s);
  std::vector<example::torch_engine> engines;
  for (std::uint32_t r = 0; r < s.place.ranks; ++r) engines.push_back(pieces.engine_of(rank_id{r}));

  cleave::thread_pipeline pipeline(plan_for(size, s), std::move(engines), {.ties = example::ties_of(s)});
  pipeline.add_plan(plan_for(size, example::evaluation(s)));
  auto const loss = [&](microbatch_id m, std::size_t plan) { return pipeline.result(m, 0, 0, plan); };
  auto const off = train(pipeline, size, whole, loss);
  // [threads]
  return {off, pieces.difference(*whole.model)};
}

#if __has_include(<mpi.h>)
example::difference train_in_processes(example::gpt_size const& size, cleave::schedule const& s,
                                       example::whole_training const& whole, rank_id rank) {
  // [mpi]
  example::gpt_pieces pieces(size, s);
  cleave::mpi::pipeline pipeline(plan_for(size, s), pieces.engine_of(rank),
                                 {.run = {.ties = example::ties_of(s)}});
  pipeline.add_plan(plan_for(size, example::evaluation(s)));
  auto const loss = [&](microbatch_id m, std::size_t plan) { return pipeline.result(m, 0, plan); };
  auto const off = train(pipeline, size, whole, loss);
  // [mpi]
  return {off, pieces.difference(*whole.model)};
}
#endif

/// Trains with all schedules. `train_by(size, s, whole)` trains with one; `tells(s)` is true if this process
/// prints its result.
template <class Train, class Tells>
int compare(Train train_by, Tells tells) {
  at::set_num_threads(1);  // each rank is one thread; more threads of libtorch would compete with them
  example::gpt_size const size;
  auto const whole = example::train_whole(size);
  if (tells(example::schedules().front().second))
    std::printf("whole model, %u steps of %u microbatches: the loss goes from %.4f to %.4f\n", example::steps,
                example::microbatches, whole.losses.front(), whole.losses.back());
  bool equal = true;
  for (auto const& [name, s] : example::schedules()) {
    auto const off = train_by(size, s, whole);
    if (tells(s) || !off.is_small()) print_row(name, s, off);
    equal = equal && off.is_small();
  }
  return equal ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace

int main(int count, char** words) {
#if __has_include(<mpi.h>)
  if (count > 1 && std::string_view(words[1]) == "mpi") {
    cleave::mpi::environment mpi;
    auto const train_by = [&](auto const& size, auto const& s, auto const& whole) {
      return train_in_processes(size, s, whole, mpi.rank());
    };
    auto const has_loss = [&](auto const& s) { return s.place.rank_of.back() == mpi.rank(); };
    return mpi.run([&] { return compare(train_by, has_loss); });
  }
#endif
  if (count == 1) return compare(train_on_threads, [](auto const&) { return true; });
  std::fprintf(stderr, "usage: %s, or with MPI: mpirun -n 4 %s mpi\n", words[0], words[0]);
  return EXIT_FAILURE;
}
