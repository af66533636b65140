// SPDX-License-Identifier: MIT
// cleave simulate FILE.csv --costs COSTS: an order from a file in time.
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
  command c{
      "simulate",
      "FILE.csv | FILE.json",
      "Runs an order of actions in time, and draws it or writes it: PyTorch's CSV, compute only or with\n"
      "communication, or what cleave schedule --json writes.",
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
                                   "; cleave verify says more");
  require_memory(count_actions(file.order));
  require_drawable(file.order, output);
  write_run(run_in_time(file.path.stem().string(), std::move(file.order), timing), output);
  return 0;
}

}  // namespace tool
