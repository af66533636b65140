// SPDX-License-Identifier: MIT
// cleave simulate FILE.csv --costs COSTS: simulates a schedule from a file.
#include <cleave/core/error.hpp>
#include <cleave/schedule/lower/lower.hpp>
#include <cleave/schedule/model/schedule.hpp>
#include <cleave/schedule/verify/verify.hpp>
#include <span>
#include <string>
#include <utility>

#include "schedule_file.hpp"
#include "schedule_run.hpp"
#include "subcommands.hpp"

namespace tool {

int simulate(std::span<std::string const> words) {
  cleave::row_counts counts;
  time_options timing;
  schedule_output output;
  command c{"simulate",
            "FILE.csv | FILE.json",
            "Simulates a schedule and draws or writes it. FILE is PyTorch's CSV, compute only or with "
            "communication,\n"
            "or the output of cleave schedule --json. FILE - is standard input.",
            {}};
  add_count_options(c, counts);
  add_time_options(c, timing);
  add_output_options(c, output);
  auto file = read_schedule(only_schedule(read_options(c, words).operands), counts);

  auto const passes = cleave::passes_of(file.order);
  if (auto const f =
          find_schedule_fault(file.order, {.matching = cleave::message_matching::by_name, .passes = passes}))
    throw cleave::infeasible_error(place_text(file, place_of(file.order, *f)) + ": " +
                                   std::string(code_of(f->what)) + ": " + sentence_of(*f) +
                                   "; cleave verify shows more");
  require_memory(count_actions(file.order));
  require_drawable(file.order, output);
  write_run(run_in_time(is_standard(file.path) ? input_name(file.path) : file.path.stem().string(),
                        std::move(file.order), timing),
            output);
  return 0;
}

}  // namespace tool
