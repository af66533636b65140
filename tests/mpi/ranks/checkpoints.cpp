// SPDX-License-Identifier: MIT
#include <mpi.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "cleave/checkpoint/checkpoint_ranks.hpp"
#include "cleave/mpi/rendezvous.hpp"
#include "rank_case.hpp"

namespace cleave::testing {

using namespace detail;

/// Arguments: a folder, and the microseconds after which rank 2 is killed. All write one checkpoint after the
/// other, whose tensors are filled with the number of the step.
int save_until_killed(cleave::mpi::environment& mpi, rank_arguments arguments) {
  auto rendezvous = make_mpi_rendezvous(MPI_COMM_WORLD, {});
  std::vector<double> weights(2000);
  named_tensor const weight{{"layer" + std::to_string(index(mpi.rank()))},
                            {weights.data(), element_type::f64, {2000}}};
  if (mpi.rank() == rank_id{2})
    std::thread([after = std::stoul(arguments[1])] {
      std::this_thread::sleep_for(std::chrono::microseconds(after));
      ::kill(::getpid(), SIGKILL);
    }).detach();
  for (std::uint64_t step = 1;; ++step) {
    weights.assign(weights.size(), static_cast<double>(step));
    write_checkpoint(rendezvous, arguments[0], {.step = step, .notes = {}}, std::span(&weight, 1),
                     std::chrono::steady_clock::now() + std::chrono::seconds(20));
    if (mpi.rank() == rank_id{0}) say("acknowledged " + std::to_string(step));
  }
}

/// Argument: a folder. The ranks share twelve tensors, filled with the number of the step. They load the
/// newest checkpoint, check it, and write that of the next step; any number of ranks may do so.
int save_next(cleave::mpi::environment& mpi, rank_arguments arguments) {
  auto rendezvous = make_mpi_rendezvous(MPI_COMM_WORLD, {});
  auto const until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  std::vector<std::vector<double>> memory(12, std::vector<double>(1000));
  std::vector<named_tensor> mine;
  for (std::uint32_t i = index(mpi.rank()); i < memory.size(); i += mpi.size())
    mine.push_back({{"layer" + std::to_string(i)}, {memory[i].data(), element_type::f64, {1000}}});
  auto const saved = resume_from_checkpoint(rendezvous, arguments[0], mine, until);
  auto const step = saved ? saved->step() : 0;
  for (std::uint32_t i = index(mpi.rank()); i < memory.size(); i += mpi.size())
    must(memory[i] == std::vector<double>(1000, static_cast<double>(step)), "what was saved is loaded");
  for (auto& m : memory) m.assign(m.size(), static_cast<double>(step + 1));
  write_checkpoint(rendezvous, arguments[0], {.step = step + 1, .notes = {}}, mine, until);
  if (mpi.rank() == rank_id{0})
    say(std::to_string(mpi.size()) + " ranks loaded step " + std::to_string(step) + " and saved the next");
  return 0;
}

}  // namespace cleave::testing
