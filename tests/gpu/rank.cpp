// SPDX-License-Identifier: MIT
// One process of a run over NCCL, started as torchrun would: the environment says which rank it is.
//
//   gpu_rank SCHEDULE [FILE]   with FILE: steps without end; FILE is written once they go on
//   gpu_rank messages          of two: measures the host's time of a message
//
// It ends with 0 where all is equal to what the host makes, with 3 where another rank was lost, which it
// says.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>
#include <string_view>

#include "gpu/rank.hpp"

int main(int count, char** arguments) try {
  using namespace cleave;
  using namespace cleave::detail;
  if (count > 1 && std::string_view(arguments[1]) == "messages")
    return testing::measure_messages(read_process_start()), 0;
  auto const family = count > 1 ? find_schedule_family(arguments[1]) : std::nullopt;
  if (!family) return std::fprintf(stderr, "usage: gpu_rank SCHEDULE [FILE]\n       gpu_rank messages\n"), 2;
  testing::rank_task task{.family = *family};
  if (count > 2) {
    task.steps = std::numeric_limits<std::size_t>::max();
    task.running_file = arguments[2];
  }
  auto const start = read_process_start();
  try {
    auto const different = testing::run_rank(start, task);
    std::printf("rank %u: %zu results and gradients differ\n", index(start.rank), different);
    return different == 0 ? 0 : 1;
  } catch (run_error const& e) {
    auto const now = std::chrono::system_clock::now().time_since_epoch();
    std::printf("at %lld ms: %s\n",
                static_cast<long long>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count()),
                e.what());
    return e.info.code == failure_code::peer_lost ? 3 : 1;
  }
} catch (std::exception const& e) {
  return std::fprintf(stderr, "gpu_rank: %s\n", e.what()), 1;
}
