// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cleave/analysis/with_backward.hpp>
#include <cleave/io/quotient.hpp>
#include <cleave/run/loss_weights.hpp>
#include <cleave/split/module_pipe.hpp>
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
#include "support/toy_staged.hpp"

namespace tool {

/// How a model is trained: steps of gradient descent, each over one batch.
struct training {
  std::vector<cleave::testing::tensor> batch;
  std::uint32_t steps = 20, microbatches = 4;
  double rate = 0.05;
};

/// What came of it, by step. The loss of a stepped pipe is that of all its microbatches together.
struct history {
  std::vector<double> losses;
  std::vector<cleave::testing::parameter_gradients> gradients;
};

/// A cut of the model and what became of its stages.
struct staged_training {
  std::string how;  ///< it was cut: "by markers"
  cleave::quotient cut;
  std::size_t gradients_sent = 0;  ///< from stage to stage, for each microbatch
  history made;
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

/// Each stage has its own copy of the parameters that it reads. Gradients reach it through the backward pass
/// of the pipe alone; copies of one parameter receive the sum of what all of them got.
inline history train_stages(gpt const& model, cleave::module_pipe const& pipe,
                            cleave::module_graph const& root, training const& t) {
  auto const parts = cleave::testing::divided(t.batch, t.microbatches);
  auto const weights = cleave::loss_weights_for({}, parts.rows);
  std::map<std::string, cleave::testing::state_values> copies;
  for (auto const& path : pipe.paths) copies[path] = model.state;
  history made;
  for (std::uint32_t step = 0; step < t.steps; ++step) {
    auto const done = run_step(root, parts.values, weights.losses, model.state, &copies);
    std::vector<double> losses;
    for (auto const& loss : done.outputs) losses.push_back(loss.get().data[0]);
    made.losses.push_back(cleave::batch_loss(losses, weights));
    made.gradients.push_back(sum_of_copies(done.gradients));
    for (auto& [path, own] : copies) descend(own, model.graph, made.gradients.back(), t.rate);
  }
  return made;
}

/// `lost` says which of the gradients that stages send each other does not arrive, if any.
inline staged_training train_pipe(std::string how, gpt const& model, cleave::module_pipe const& pipe,
                                  training const& t, std::optional<std::size_t> lost) {
  auto root = cleave::with_backward(pipe.outer, pipe.outer.outputs().front());
  auto const edges = cleave::testing::gradient_edges(root);
  if (lost && !edges.empty()) root = cleave::testing::without_gradient(root, edges[*lost % edges.size()]);
  return {std::move(how), quotient_of(pipe.program.s, pipe.plan.plan), edges.size(),
          train_stages(model, pipe, root, t)};
}

/// The largest differences of a run in stages from that of the whole, over all steps.
struct training_difference {
  double loss = 0, gradient = 0;
  std::map<std::string, double> by_parameter{};  ///< by what holds it

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
