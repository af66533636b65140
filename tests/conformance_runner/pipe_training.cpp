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
  auto const engine = testing::toy_engine_of(pipe, state, how.batches);
  testing::toy_pipeline run(engine, {how.batches}, order,
                            {.program = {.saved_activations = {{.saved = 24, .saved_for_weights = 40}}}});
  for (std::size_t step = 0; step < how.steps; ++step) {
    std::vector<testing::tensor> outputs;
    made.losses.emplace_back();
    for (auto const& given : run.run_step(how.weights)) {
      outputs.push_back(given[0]);
      made.losses.back().push_back(given[*engine.wiring().loss].data[0]);
    }
    auto const gradients = run.gradients();
    if (step == 0) made.first_output = testing::merged(outputs);
    if (step == 0) made.first_gradients = gradients;
    for (std::uint32_t s = 0; s < pipe.paths.size(); ++s)
      run.stages_with(stage_id{s}).descend(stage_id{s}, how.rate);
  }
  for (auto const& [path, own] : made.first_gradients)
    for (auto const& [holder, g] : own) made.first_sums[holder] = g;
  for (std::uint32_t s = 0; s < pipe.paths.size(); ++s) {
    auto const after =
        run.stages_with(stage_id{s}).parameters_by_holder(stage_id{s}, engine.wiring().parameters[s]);
    for (auto const& a : pipe.program.whole().attributes())
      if (auto const at = after.find(testing::holder_of(a)); at != after.end())
        made.after[pipe.paths[s]][a.path] = at->second;
  }
  return made;
}

}  // namespace cleave::conformance
