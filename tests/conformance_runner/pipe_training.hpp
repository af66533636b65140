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

/// The parameters of training steps.
struct training {
  std::size_t steps;
  double rate;
  testing::toy_batches batches;
  std::vector<double> weights;  ///< per microbatch, of its gradients
};

/// The results of training. Gradients and parameters are by stage; the whole model has the key "".
struct history {
  testing::tensor first_output;
  std::vector<std::vector<double>> losses;  ///< by step and microbatch
  std::map<std::string, testing::parameter_gradients> first_gradients;
  testing::parameter_gradients first_sums;  ///< sums over all copies of shared state
  std::map<std::string, testing::state_values> after;
};

/// Trains by the executor in the order of a schedule, which also sums the gradients of shared state. A stage
/// has only the state that it holds.
history train_by_executor(module_pipe const& pipe, schedule const& order, testing::state_values const& state,
                          training const& how);

}  // namespace cleave::conformance
