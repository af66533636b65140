// SPDX-License-Identifier: MIT
#include <chrono>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "rank_case.hpp"

int main(int argc, char** argv) {
  using namespace cleave::testing;
  std::map<std::string, int (*)(cleave::mpi::environment&, rank_arguments)> const cases{
      {"messages", exchange_messages},
      {"reductions", reduce_everywhere},
      {"disagree", disagree},
      {"give up", give_up},
      {"end badly", end_badly},
      {"threads", need_threads},
      {"pipelines", run_pipelines},
      {"copies", train_copies},
      {"suffer", suffer},
      {"differ", differ},
      {"endless", run_endlessly},
#if __has_include(<xxhash.h>) && __has_include(<flatbuffers/flatbuffers.h>)
      {"save", save_until_killed},
      {"save next", save_next},
#endif
  };
  std::vector<std::string> const arguments(argv + 1, argv + argc);
  cleave::mpi::environment mpi(
      {.finalize_within = std::chrono::seconds(3), .linger = std::chrono::milliseconds(500)});
  return mpi.run([&] { return cases.at(arguments.at(0))(mpi, std::span(arguments).subspan(1)); });
}
