// SPDX-License-Identifier: MIT
#include "support/toy_autograd.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "support/rng.hpp"
#include "support/toy_formula.hpp"

using namespace cleave;
using namespace cleave::testing;

namespace {

tensor random_tensor(rng& random, toy_shape shape) {
  auto t = tensor::filled(std::move(shape), 0);
  // Not near 0, where relu has no derivative.
  for (double& x : t.data) x = (0.1 + random.unit()) * (random.one_in(2) ? 1 : -1);
  return t;
}

struct operator_case {
  std::string name;
  std::vector<toy_shape> operands;  ///< whose gradients are checked …
  std::vector<tape_value> rest{};   ///< … and what the operator is given besides
};

tape_value number(std::int64_t n) { return {tape_value::kind::constant, token(n)}; }

/// Each tensor in what an operator gives, times weights of its own, all summed: one number.
double weighted(tape_value const& v, std::vector<double> const& weights, tape* t = nullptr) {
  std::vector<tape_value> parts{v};
  if (v.items) parts = *v.items;
  double sum = 0;
  std::size_t k = 0;
  gradient_seeds seeds;
  for (auto const& part : parts) {
    auto seed = part.get();
    for (std::size_t i = 0; i < seed.data.size(); ++i, ++k) {
      double const weight = weights[k % weights.size()];
      sum += weight * seed.data[i];
      seed.data[i] = weight;
    }
    if (part.node) seeds.emplace_back(*part.node, seed);
  }
  if (t) t->backward(seeds);
  return sum;
}

/// The largest error, relative where slopes are steep, of the gradients on the tape, against differences of
/// what the operator gives.
double largest_error(operator_case const& c, rng& random) {
  auto const& f = toy_operators().find(c.name)->second;
  std::vector<tensor> at;
  for (auto const& shape : c.operands) at.push_back(random_tensor(random, shape));
  std::vector<double> const weights{0.3, -1.1, 0.7, 1.9, -0.4};

  auto const give = [&](tape& t, std::vector<tensor> const& operands) {
    tape_values values;
    for (auto const& o : operands) values.push_back(t.leaf("x", o));
    if (c.name == "broadcast_tensors") return f(t, {composite_of(container::kind::list, values)});
    if (c.name == "embedding") return f(t, {c.rest[0], values[0]});
    values.insert(values.end(), c.rest.begin(), c.rest.end());
    return f(t, values);
  };
  tape t;
  weighted(give(t, at), weights, &t);

  double most = 0;
  for (std::uint32_t o = 0; o < at.size(); ++o)
    for (std::size_t i = 0; i < at[o].data.size(); ++i) {
      auto const moved = [&](double by) {
        auto there = at;
        there[o].data[i] += by;
        tape aside;
        return weighted(give(aside, there), weights);
      };
      double const h = 1e-4;
      double const slope = (8 * (moved(h) - moved(-h)) - (moved(2 * h) - moved(-2 * h))) / (12 * h);
      auto const got = t.gradient(o);
      most = std::max(most, std::abs((got ? got->data[i] : 0) - slope) / (1 + std::abs(slope)));
    }
  return most;
}

std::vector<operator_case> const cases = {
    {"linear", {{4, 3}, {2, 3}, {2}}},
    {"linear", {{2, 4, 3}, {2, 3}}},
    {"matmul", {{4, 3}, {3, 2}}},
    {"matmul", {{2, 4, 3}, {3, 2}}},
    {"matmul", {{2, 4, 3}, {2, 3, 2}}},
    {"transpose", {{2, 3, 4}}},
    {"add", {{4, 3}, {3}}},
    {"add", {{4, 3}}, {number(2)}},
    {"sub", {{4, 1}, {1, 3}}},
    {"mul", {{4, 3}, {4, 3}}},
    {"mul", {{3}, {2, 3}}},
    {"relu", {{4, 3}}},
    {"pow", {{4, 3}}, {number(3)}},
    {"gelu", {{4, 3}}},
    {"softmax", {{4, 3}}},
    {"causal_softmax", {{2, 3, 3}}},
    {"layer_norm", {{4, 3}, {3}, {3}}},
    {"embedding", {{4, 3}}, {constant_of({{2, 2}, {0, 3, 3, 1}})}},
    {"sum", {{4, 3}}},
    {"mean", {{4, 3}}},
    {"rowmean", {{4, 3}}},
    {"mse_loss", {{4, 3}, {4, 3}}},
    {"mse_loss", {{4, 3}, {4, 3}}, {number(0)}},
    {"mse_loss", {{4, 3}, {4, 3}}, {number(2)}},
    {"cross_entropy", {{4, 3}}, {constant_of({{4}, {2, 0, 1, 1}})}},
    {"broadcast_tensors", {{4, 1}, {3}}},
    {"getitem", {{4, 3}}, {number(2)}},
};

}  // namespace

TEST_CASE("toy autograd: the gradients of every operator are its slopes") {
  rng random(7);
  std::set<std::string> checked{"pipe_split"};  // gives nothing
  for (auto const& c : cases) {
    CAPTURE(c.name);
    for (int i = 0; i < 3; ++i) CHECK(largest_error(c, random) < 1e-6);
    checked.insert(c.name);
  }
  for (auto const& [name, f] : toy_operators()) CHECK_MESSAGE(checked.contains(name), name);
}

TEST_CASE("toy autograd: a value used twice gets both gradients, a leaf keeps what arrives") {
  tape t;
  auto const x = t.leaf("x", {{2}, {3, -1}}), w = t.leaf("w", {{2}, {2, 5}});
  auto const y = formula(t, {{"x", x}, {"w", w}}).evaluate("y = x * w + x").front();
  CHECK(y.get() == tensor{{2}, {9, -6}});
  for (int i = 1; i <= 2; ++i) {
    t.backward({{*y.node, tensor::filled({2}, 1)}});
    CHECK(*t.gradient_of(x) == i * tensor{{2}, {3, 6}});
    CHECK(*t.gradient_of(w) == i * tensor{{2}, {3, -1}});
  }
}

TEST_CASE("toy autograd: what needs no gradient is not on the tape") {
  tape t;
  auto const x = constant_of({{2}, {3, -1}}), w = t.leaf("w", {{2}, {2, 5}});
  auto const outputs = formula(t, {{"x", x}, {"w", w}}).evaluate("h = x * x; outputs h, h + w and h * 2");
  REQUIRE(outputs.size() == 3);
  CHECK(!outputs[0].node);
  CHECK(outputs[1].node);
  CHECK(!outputs[2].node);
  CHECK(t.nodes().size() == 2);
  CHECK(!t.nodes()[1].next[0]);
  CHECK(t.nodes()[1].next[1] == 0);
}

TEST_CASE("toy autograd: a flow goes only where it is let") {
  tape t;
  auto const x = t.leaf("x", {{1, 1}, {3}}), w = t.leaf("w", {{1, 1}, {2}});
  auto const y = formula(t, {{"x", x}, {"w", w}}).evaluate("y = (x @ w) @ w").front();
  auto const all = t.flow({{*y.node, {{1, 1}, {1}}}}, [](auto, auto) { return true; });
  CHECK(all.at(*w.node).data[0] == 12);
  CHECK(all.at(*x.node).data[0] == 4);
  auto const inputs = t.flow({{*y.node, {{1, 1}, {1}}}}, [&](auto, auto to) { return to != *w.node; });
  CHECK(!inputs.contains(*w.node));
  CHECK(inputs.at(*x.node).data[0] == 4);
}

TEST_CASE("toy autograd: shapes that do not fit, and formulas that are none, are errors that say so") {
  tape t;
  auto const x = t.leaf("x", {{2, 1}, {3, 1}});
  CHECK_THROWS_WITH_AS(formula(t, {{"x", x}}).evaluate("y = x @ x"), "no product of shapes [2, 1] and [2, 1]",
                       tensor_shape_error);
  CHECK_THROWS_WITH_AS(formula(t, {{"x", x}}).evaluate("y = sine(x)"),
                       "'y = sine(x)': nothing is called 'sine' before character 8", formula_error);
  CHECK_THROWS_AS(formula(t, {{"x", x}}).evaluate("y = (x"), formula_error);
  CHECK(fixed_names("y = (x @ w1) @ w2, w2 fixed") == std::set<std::string>{"w2"});
}

TEST_CASE("toy autograd: a module_graph is trained; state that shares storage is one leaf") {
  module_graph g;
  auto const add = [&](node_kind kind, std::string const& name, std::vector<module_argument> args) {
    module_node n;
    n.kind = kind;
    n.name = n.target = name;
    n.args = std::move(args);
    return g.add(n);
  };
  using enum node_kind;
  g.add_attribute({"a.weight", module_attribute::kind::parameter, "0", {}, {}, {}});
  g.add_attribute({"b.weight", module_attribute::kind::parameter, "0", {}, {}, {}});
  auto const x = add(placeholder, "x", {});
  auto const a = add(get_attr, "a.weight", {});
  auto const b = add(get_attr, "b.weight", {});
  auto const h = add(call_function, "mul", {node_argument(x), node_argument(a)});
  auto const y = add(call_function, "mul", {node_argument(h), node_argument(b)});
  add(output, "output", {node_argument(y)});

  auto state = with_ties(g, {{"b.weight", {{}, {3}}}});
  tape t;
  toy_autograd whole(t, state);
  auto const made = evaluate(g, std::vector{constant_of({{}, {2}})}, whole);
  CHECK(made.get().data[0] == 18);
  t.backward({{*made.node, {{}, {1}}}});
  auto const gradients = whole.gradients();
  REQUIRE(gradients.size() == 1);
  CHECK(gradients.at("storage 0")->data[0] == 12);  // 2·x·w
  descend(state, g, gradients, 0.5);
  CHECK(state.at("a.weight").data[0] == -3);
  CHECK(state.at("b.weight").data[0] == -3);

  module_node unknown;
  unknown.name = unknown.target = "sine";
  module_graph other;
  other.add(unknown);
  CHECK_THROWS_WITH_AS(evaluate(other, std::vector<tape_value>(), whole),
                       "node 'sine': the toy autograd has no operator 'sine'", unknown_target_error);
}
