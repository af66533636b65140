// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cleave/draw/quotient.hpp"
#include "cleave/partition/slices/unpriced.hpp"
#include "cleave/run/forward/timeline.hpp"

namespace cleave {

/// How even a cut is: what `balance` minimised, and how little it could be.
struct report_balance {
  std::string objective = "cost";  ///< what the numbers count, as a noun: `cost plus transfer`
  std::vector<double> load;        ///< of a stage
  double bound = 0;      ///< no cut into as many stages has a smaller largest load, of what has a price
  unpriced lacking{};    ///< what has none; where that is much, the page states no bound
  std::string advice{};  ///< what would price most, as a sentence without an end; or nothing
};

/// A measured run.
struct report_run {
  std::vector<interval> timeline;
  std::uint32_t microbatches = 0;
  std::int64_t whole_ns = 0;  ///< the uncut model over the same microbatches, one after the other
  std::optional<double> largest_difference;  ///< between the results of both
  std::string engine, machine;
};

/// All that a report shows. What is absent is left out of the page.
struct report {
  struct fact {
    std::string what, value;
  };
  std::string title;        ///< of the model: any bytes
  std::vector<fact> facts;  ///< what the model is
  quotient cut;
  std::string cost_unit;           ///< `FLOP`; empty where costs have none
  std::vector<std::string> files;  ///< of a stage: where it was written
  std::vector<byte_sum> memory;    ///< of a stage: the most it needs while it runs
  std::optional<report_balance> balance;
  std::optional<report_run> run;
};
}  // namespace cleave
