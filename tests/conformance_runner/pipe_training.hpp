// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "cleave/pipe/module_pipe.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "support/toy_autograd.hpp"
#include "support/toy_batches.hpp"

namespace cleave::conformance {

/// How steps are taken.
struct training {
  std::size_t steps;
  double rate;
  testing::toy_batches batches;
  std::vector<double> weights;  ///< of the gradients of a microbatch
};

/// What became of the whole or of a pipe. Gradients and parameters are by stage, of the whole by "".
struct history {
  testing::tensor first_output;
  std::vector<std::vector<double>> losses;  ///< by step and microbatch
  std::map<std::string, testing::parameter_gradients> first_gradients;
  testing::parameter_gradients first_sums;  ///< of all copies of what stages share
  std::map<std::string, testing::state_values> after;
};

/// By the executor, in the order of a schedule; it also sums the gradients of what stages share. A stage has
/// what it holds.
history train_by_executor(module_pipe const& pipe, schedule const& order, testing::state_values const& state,
                          training const& how);

}  // namespace cleave::conformance
