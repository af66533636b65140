// SPDX-License-Identifier: MIT
#include "support/toy_staged.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "cleave/backward/with_backward.hpp"
#include "cleave/pipe/module_pipe.hpp"
#include "support/random_toy_model.hpp"
#include "support/rng.hpp"
#include "support/toy_batches.hpp"

using namespace cleave;
using namespace cleave::testing;

namespace {

double difference(parameter_gradients const& a, parameter_gradients const& b) {
  double most = 0;
  for (auto const& [holder, g] : a) {
    auto const other = b.find(holder);
    REQUIRE(other != b.end());
    most = std::max(most, g && other->second   ? largest_difference(*g, *other->second)
                          : g || other->second ? 1.0
                                               : 0.0);
  }
  return most;
}

struct both_runs {
  parameter_gradients whole, staged;
  double loss, loss_difference;
};

both_runs run_both(module_graph const& g, module_graph const& root, state_values const& state,
                   std::vector<tape_values> const& microbatches, std::vector<double> const& weights,
                   tape_value const& all) {
  tape t;
  toy_autograd whole(t, state);
  auto const loss = evaluate(g, tape_values{all}, whole);
  t.backward({{loss.node.value(), {{}, {1}}}});
  auto const step = run_step(root, microbatches, weights, state);
  double sum = 0;
  for (auto const& o : step.outputs) sum += o.get().data[0];
  return {whole.gradients(), sum_of_copies(step.gradients), loss.get().data[0],
          std::abs(loss.get().data[0] - sum)};
}

}  // namespace

TEST_CASE("run_step: stages give the gradients of the whole, with replicated and transmitted state") {
  rng random(3);
  std::size_t sums = 0, sent = 0;
  for (int i = 0; i < 60; ++i) {
    state_values state;
    auto const g = random_model(random, 2 + random.below(6), state);
    for (auto const shared : {shared_state::replicate, shared_state::transmit}) {
      CAPTURE(i);
      auto const pipe = make_module_pipe(g, {.state = {.shared = shared}});
      auto const root = with_backward(pipe.outer, pipe.outer.outputs().front());
      for (auto const& n : root.list()) sums += n.target == "null_coalesce_accumulate";
      sent += pipe.state.sent.size();

      auto const all = random_batch(random, 4);
      auto const parts = divided({all.get()}, 3).values;
      auto const r = run_both(g, root, state, parts, std::vector<double>(3, 1), all);
      CHECK(r.loss_difference <= 1e-12 * (1 + r.loss));
      CHECK(difference(r.whole, r.staged) <= 1e-12 * (1 + r.loss));
    }
  }
  CHECK(sums > 20);
  CHECK(sent > 20);
}

TEST_CASE("run_step: a lost gradient changes the gradients of the stages") {
  rng random(4);
  std::size_t lost = 0;
  for (int i = 0; i < 60; ++i) {
    state_values state;
    auto const g = random_model(random, 5, state);
    auto const pipe = make_module_pipe(g);
    auto const root = with_backward(pipe.outer, pipe.outer.outputs().front());
    for (auto const n : gradient_edges(root)) {
      auto const all = random_batch(random, 2);
      auto const r = run_both(g, without_gradient(root, n), state, {{all}}, {1}, all);
      CHECK(r.loss_difference <= 1e-12 * (1 + r.loss));
      CHECK(difference(r.whole, r.staged) > 1e-6 * (1 + r.loss));
      ++lost;
    }
  }
  CHECK(lost > 20);
}
