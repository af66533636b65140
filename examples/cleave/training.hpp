// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cleave/draw/stage_graph.hpp>
#include <cleave/pipe/module_pipe.hpp>
#include <cleave/run/batch/loss_weights.hpp>
#include <cleave/schedule/families/generate.hpp>
#include <cleave/schedule/simulate/simulate.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gpt.hpp"
#include "support/toy_batches.hpp"
#include "support/toy_pipeline.hpp"

namespace tool {

/// Parameters of the training: steps of gradient descent, each over one batch.
struct training {
  std::vector<cleave::testing::tensor> batch;
  std::uint32_t steps = 20, microbatches = 4;
  double rate = 0.05;
};

/// Results by step. The loss of a step is over all its microbatches.
struct history {
  std::vector<double> losses;
  std::vector<cleave::testing::parameter_gradients> gradients;
};

/// A cut of the model and the training of its stages.
struct staged_training {
  std::string how;  ///< kind of cut: "by markers"
  cleave::quotient cut;
  std::size_t gradients_sent = 0;  ///< number sent between stages, for each microbatch
  history made;
  cleave::schedule order;  ///< the schedule of each step
  /// Times in microseconds: measured in the last step, and simulated with the shortest pass of each stage.
  cleave::schedule_times measured, simulated;
};

inline history train_whole(gpt model, training const& t) {
  history made;
  for (std::uint32_t step = 0; step < t.steps; ++step) {
    cleave::testing::tape tape;
    cleave::testing::toy_autograd run(tape, model.state);
    auto const loss = cleave::evaluate(model.graph, cleave::testing::divided(t.batch, 1).values.front(), run);
    tape.backward({{loss.node.value(), {{}, {1}}}});
    made.losses.push_back(loss.get().data[0]);
    made.gradients.push_back(run.gradients());
    descend(model.state, model.graph, made.gradients.back(), t.rate);
  }
  return made;
}

/// Returns a schedule with one rank per stage: 1F1B if there are enough microbatches, since it keeps few.
inline cleave::schedule order_of(std::uint32_t stages, std::uint32_t microbatches) {
  return microbatches < stages ? cleave::gpipe(stages, microbatches)
                               : cleave::one_f_one_b(stages, microbatches);
}

/// Returns the costs of each stage: the shortest times of its passes.
inline std::vector<cleave::stage_cost> costs_of(cleave::schedule const& s, cleave::schedule_times const& t) {
  std::vector<cleave::stage_cost> costs(s.place.stages(), {.forward = HUGE_VAL, .backward = HUGE_VAL});
  for (std::size_t r = 0; r < s.ranks.size(); ++r)
    for (std::size_t i = 0; i < s.ranks[r].size(); ++i) {
      auto const& a = s.ranks[r][i];
      if (!is_compute(a.kind)) continue;
      auto& cost = costs[index(a.stage)];
      auto& least = a.kind == cleave::action_kind::forward ? cost.forward : cost.backward;
      least = std::min(least, t.spans[r][i].end - t.spans[r][i].begin);
    }
  return costs;
}

/// Trains the stages with the executor, each on its own thread and with its own copy of the parameters that
/// it reads. Copies of one parameter receive the sum of their gradients. `lost` is the index of a gradient
/// between stages to drop, if any.
inline staged_training train_pipe(std::string how, gpt const& model, cleave::module_pipe const& pipe,
                                  training const& t, std::optional<std::size_t> lost) {
  auto const parts = cleave::testing::divided(t.batch, t.microbatches);
  auto const weights = cleave::loss_weights_for({}, parts.rows);
  auto const engine = cleave::testing::toy_engine_of(pipe, model.state, parts);
  auto const& wiring = engine.wiring();
  cleave::testing::toy_pipeline run(engine, {parts}, order_of(wiring.edges.stages, t.microbatches));
  std::vector<cleave::dataflow::edge> sent;
  for (std::size_t e = 0; e < wiring.edges.edges.size(); ++e)
    if (wiring.layouts.edges[e].gradient == cleave::gradient_use::wanted)
      sent.push_back(wiring.edges.edges[e]);
  if (lost && !sent.empty()) {
    auto const& e = sent[*lost % sent.size()];
    run.stages_with(e.to).lose_gradient(e.to, e.input);
  }
  history made;
  for (std::uint32_t step = 0; step < t.steps; ++step) {
    std::vector<double> losses;
    for (auto const& results : run.run_step(weights.losses)) losses.push_back(results[*wiring.loss].data[0]);
    made.losses.push_back(cleave::batch_loss(losses, weights));
    auto& all = made.gradients.emplace_back();
    for (std::uint32_t i = 0; auto const& path : pipe.paths) {
      auto const own = run.gradients().at(path);
      run.stages_with(cleave::stage_id{i}).descend(cleave::stage_id{i}, t.rate);
      all.insert(own.begin(), own.end());
      ++i;
    }
  }
  auto const& order = run.plan().order();
  auto const measured = run.times();
  auto const simulated = simulate(order, {.costs = costs_of(order, measured)});
  return {std::move(how), quotient_of(pipe.program.s, pipe.plan.plan),
          sent.size(),    std::move(made),
          order,          measured,
          simulated};
}

/// The largest differences between the staged and the whole training, over all steps.
struct training_difference {
  double loss = 0, gradient = 0;
  std::map<std::string, double> by_parameter{};  ///< by the owner of the parameter

  bool within(double most) const { return loss <= most && gradient <= most; }
};

inline training_difference difference_of(history const& whole, history const& staged) {
  training_difference d;
  for (std::size_t i = 0; i < whole.losses.size(); ++i) {
    d.loss = std::max(d.loss, std::abs(whole.losses[i] - staged.losses.at(i)));
    for (auto const& [holder, g] : whole.gradients[i]) {
      auto const& other = staged.gradients.at(i).at(holder);
      auto& most = d.by_parameter[holder];
      if (g || other) most = std::max(most, g && other ? largest_difference(*g, *other) : HUGE_VAL);
      d.gradient = std::max(d.gradient, most);
    }
  }
  return d;
}

}  // namespace tool
