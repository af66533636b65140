// SPDX-License-Identifier: MIT
#include "support/toy_staged.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "cleave/analysis/with_backward.hpp"
#include "cleave/split/module_pipe.hpp"
#include "support/rng.hpp"
#include "support/toy_batches.hpp"

using namespace cleave;
using namespace cleave::testing;

namespace {

/// A program of layers with a marker between any two, where each layer may also read an earlier result, some
/// layers share weights, and the loss is the sum of squares.
module_graph random_model(rng& random, std::size_t layers, state_values& state) {
  module_graph g;
  auto const add = [&](node_kind kind, std::string const& target, std::vector<module_argument> args) {
    module_node n;
    n.kind = kind;
    n.name = target + "_" + std::to_string(g.list().size());
    n.target = target;
    n.args = std::move(args);
    return g.add(std::move(n));
  };
  std::vector<std::uint32_t> made{add(node_kind::placeholder, "x", {})};
  for (std::size_t i = 0; i < layers; ++i) {
    auto const path = "w" + std::to_string(random.below(layers));
    if (!g.find_attribute(path)) {
      g.add_attribute({path, module_attribute::kind::parameter, {}, {}, {}, {}});
      state[path] = tensor::filled({2, 2}, 0);
      for (double& x : state[path].data) x = (0.5 + random.unit()) * (random.one_in(2) ? 1 : -1);
    }
    auto const w = add(node_kind::get_attr, path, {});
    auto h = add(node_kind::call_function, "linear", {node_argument(made.back()), node_argument(w)});
    auto const& other = made[random.below(made.size())];
    h = add(node_kind::call_function, random.one_in(2) ? "add" : "sub",
            {node_argument(h), node_argument(other)});
    made.push_back(h);
    if (!random.one_in(3)) add(node_kind::call_function, "pipe_split", {});
  }
  auto const squares = add(node_kind::call_function, "pow", {node_argument(made.back()), {std::int64_t{2}}});
  auto const loss = add(node_kind::call_function, "sum", {node_argument(squares)});
  add(node_kind::output, "output", {node_argument(loss)});
  return g;
}

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

tape_value random_batch(rng& random, std::size_t rows) {
  auto x = tensor::filled({rows, 2}, 0);
  for (double& v : x.data) v = (0.5 + random.unit()) / 2;
  return constant_of(x);
}

}  // namespace

TEST_CASE("toy staged: stages give the gradients of the whole, whether they copy or send what they share") {
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

TEST_CASE("toy staged: a gradient that is lost on its way is noticed") {
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
