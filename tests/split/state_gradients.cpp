// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cleave/backward/loss.hpp"
#include "cleave/backward/with_backward.hpp"
#include "cleave/backward/with_loss.hpp"
#include "cleave/graph/interpreter.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/pipe/module_pipe.hpp"
#include "support/toy_autograd.hpp"
#include "support/toy_staged.hpp"

using namespace cleave;
using namespace cleave::testing;

namespace {

using position = module_graph::position;

/// Three stages. The first and the last multiply by the same matrix under two names, the last one twice.
module_graph tied_model() {
  module_graph g;
  auto const add = [&](node_kind kind, std::string const& target, std::vector<position> const& reads = {}) {
    module_node n;
    n.kind = kind;
    n.target = target;
    n.name = target + std::to_string(g.list().size());
    for (auto const v : reads) n.args.push_back(node_argument(v));
    return g.add(std::move(n));
  };
  using enum module_attribute::kind;
  g.add_attribute({"first.weight", parameter, "w", {}, {}, {}});
  g.add_attribute({"middle.weight", parameter, "", {}, {}, {}});
  g.add_attribute({"last.weight", parameter, "w", {}, {}, {}});
  auto const x = add(node_kind::placeholder, "x");
  auto const w = add(node_kind::get_attr, "first.weight"), m = add(node_kind::get_attr, "middle.weight"),
             u = add(node_kind::get_attr, "last.weight");
  auto y = add(node_kind::call_function, "matmul", {x, w});
  add(node_kind::call_function, "pipe_split");
  y = add(node_kind::call_function, "gelu", {add(node_kind::call_function, "matmul", {y, m})});
  add(node_kind::call_function, "pipe_split");
  y = add(node_kind::call_function, "matmul", {add(node_kind::call_function, "matmul", {y, u}), u});
  add(node_kind::output, "output", {add(node_kind::call_function, "sum", {y})});
  return g;
}

/// Numbers of both signs; without std::sin, whose instructions qemu does not know on every processor.
tensor matrix(double from) {
  tensor t{{2, 2}, {}};
  for (int i = 0; i < 4; ++i) t.data.push_back(1 / (from + i) - 0.4);
  return t;
}

bool near(tensor const& a, tensor const& b) { return largest_difference(a, b) < 1e-12; }

/// Cuts the model and differentiates it stage by stage; returns the gradients by stage and storage.
std::map<std::string, parameter_gradients> staged_gradients(module_graph const& g, state_values const& state,
                                                            state_options const& options) {
  auto const pipe = make_module_pipe(g, {.state = options});
  auto const root = with_backward(pipe.outer, *loss_of(pipe.outer, sole_output()));
  tape t;
  staged_autograd run(t, root, state);
  run.run({constant_of(matrix(3))});
  return run.gradients();
}

}  // namespace

TEST_CASE("shared_state: each copy of a tied weight gets part of its gradient, a sole owner gets all of it") {
  auto const g = tied_model();
  auto const state = with_ties(g, {{"first.weight", matrix(1)}, {"middle.weight", matrix(2)}});
  tape t;
  toy_autograd whole(t, state);
  auto const loss = evaluate(g, tape_values{constant_of(matrix(3))}, whole);
  t.backward({{*loss.node, {{}, {1}}}});
  auto const expected = *whole.gradients().at("storage w");

  auto const copies = staged_gradients(g, state, {});
  CHECK(near(*sum_of_copies(copies).at("storage w"), expected));
  CHECK_FALSE(near(*copies.at("stage_0").at("storage w"), expected));
  CHECK_FALSE(near(*copies.at("stage_2").at("storage w"), expected));

  auto const owned = staged_gradients(g, state, {.shared = shared_state::transmit});
  CHECK(near(*owned.at("stage_0").at("storage w"), expected));
  CHECK_FALSE(owned.at("stage_2").contains("storage w"));
  CHECK(near(*owned.at("stage_1").at("path middle.weight"), *whole.gradients().at("path middle.weight")));
}
