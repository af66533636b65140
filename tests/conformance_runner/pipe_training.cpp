// SPDX-License-Identifier: MIT
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "conformance_runner/pipe_training.hpp"
#include "support/toy_pipeline.hpp"

/// Training steps on the executor; ranks are threads.
namespace cleave::conformance {

history train_by_executor(module_pipe const& pipe, schedule const& order, testing::state_values const& state,
                          training const& how) {
  history made;
  auto const wiring = testing::wiring_of(pipe, state, how.batches);
  testing::toy_pipeline run(pipe, wiring, state, {how.batches}, order,
                            {.program = {.saved_activations = {{.saved = 24, .saved_for_weights = 40}}}});
  for (std::size_t step = 0; step < how.steps; ++step) {
    std::vector<testing::tensor> outputs;
    made.losses.emplace_back();
    for (auto const& given : run.run_step(how.weights)) {
      outputs.push_back(given[0]);
      made.losses.back().push_back(given[wiring.loss_result].data[0]);
    }
    auto const gradients = run.gradients();
    if (step == 0) made.first_output = testing::merged(outputs);
    if (step == 0) made.first_gradients = gradients;
    for (std::uint32_t s = 0; s < pipe.paths.size(); ++s)
      descend(run.engine_of(stage_id{s}).state(stage_id{s}), pipe.program.whole(),
              gradients.at(pipe.paths[s]), how.rate);
  }
  for (auto const& [path, own] : made.first_gradients)
    for (auto const& [holder, g] : own) made.first_sums[holder] = g;
  for (std::uint32_t s = 0; s < pipe.paths.size(); ++s)
    for (auto const& a : pipe.program.whole().attributes())
      if (made.first_gradients[pipe.paths[s]].contains(testing::holder_of(a)))
        made.after[pipe.paths[s]][a.path] = run.engine_of(stage_id{s}).state(stage_id{s}).at(a.path);
  return made;
}

}  // namespace cleave::conformance
