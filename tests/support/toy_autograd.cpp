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
  std::vector<toy_shape> operands;  ///< operands whose gradients are checked
  std::vector<tape_value> rest{};   ///< other operands
};

tape_value number(std::int64_t n) { return {tape_value::kind::constant, token(n)}; }
tape_value const nothing{};
tape_value const yes{tape_value::kind::constant, token(true)};
tape_value numbers(std::vector<std::int64_t> const& list, container::kind what = container::kind::list) {
  tape_values items;
  for (auto const n : list) items.push_back(number(n));
  return composite_of(what, std::move(items));
}
tape_value slice(tape_value const& from, tape_value const& to, tape_value const& by = {}) {
  return composite_of(container::kind::slice, {from, to, by});
}

/// Returns the weighted sum of all elements of the tensors that an operator returns. With a tape, also runs
/// the backward pass of that sum.
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

/// Returns the largest error of the tape's gradients against finite differences. The error is relative where
/// slopes are steep.
double largest_error(operator_case const& c, rng& random) {
  auto const& f = toy_operators().find(c.name)->second;
  std::vector<tensor> at;
  for (auto const& shape : c.operands) at.push_back(random_tensor(random, shape));
  std::vector<double> const weights{0.3, -1.1, 0.7, 1.9, -0.4};

  auto const give = [&](tape& t, std::vector<tensor> const& operands) {
    tape_values values;
    for (auto const& o : operands) values.push_back(t.leaf("x", o));
    if (c.name == "broadcast_tensors" || c.name == "cat" || c.name == "stack")
      values = {composite_of(container::kind::list, values)};
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
    {"getitem", {{4, 3}}, {number(-1)}},
    {"getitem", {{5, 3}}, {slice(number(1), number(-1), number(2))}},
    {"getitem",
     {{4, 3, 2}},
     {composite_of(container::kind::tuple,
                   {slice(nothing, nothing), number(1), slice(number(-1), nothing)})}},
    {"getitem", {{4, 3}}, {composite_of(container::kind::tuple, {nothing, number(2), nothing})}},
    {"transpose", {{2, 3, 4}}, {number(0), number(-1)}},
    {"t", {{2, 3}}},
    {"mm", {{4, 3}, {3, 2}}},
    {"bmm", {{2, 4, 3}, {2, 3, 2}}},
    {"addmm", {{2}, {4, 3}, {3, 2}}},
    {"div", {{4, 3}, {3}}},
    {"neg", {{4, 3}}},
    {"exp", {{4, 3}}},
    {"abs", {{4, 3}}},
    {"tanh", {{4, 3}}},
    {"sigmoid", {{4, 3}}},
    {"silu", {{4, 3}}},
    {"softmax", {{4, 3}}, {number(0)}},
    {"softmax", {{2, 4, 3}}, {number(-2)}},
    {"log_softmax", {{4, 3}}, {number(1)}},
    {"log_softmax", {{4, 3, 2}}, {number(0)}},
    {"layer_norm", {{4, 3}}, {numbers({3})}},
    {"sum", {{4, 3, 2}}, {number(1)}},
    {"sum", {{4, 3, 2}}, {numbers({0, -1}), yes}},
    {"mean", {{4, 3, 2}}, {numbers({-1})}},
    {"mean", {{4, 3}}, {number(0), yes}},
    {"cat", {{2, 3}, {4, 3}}},
    {"cat", {{2, 3, 2}, {2, 1, 2}, {2, 2, 2}}, {number(-2)}},
    {"stack", {{2, 3}, {2, 3}}},
    {"stack", {{2, 3}, {2, 3}}, {number(-1)}},
    {"split", {{5, 3}}, {number(2)}},
    {"split", {{4, 3}}, {numbers({1, 2}), number(1)}},
    {"split_with_sizes", {{4, 3}}, {numbers({1, 3})}},
    {"chunk", {{5, 3}}, {number(2)}},
    {"chunk", {{2, 6}}, {number(4), number(-1)}},
    {"unbind", {{2, 3}}, {number(1)}},
    {"slice", {{5, 3}}, {number(0), number(1), number(9), number(2)}},
    {"select", {{2, 3, 2}}, {number(1), number(-1)}},
    {"narrow", {{5, 3}}, {number(0), number(1), number(3)}},
    {"permute", {{2, 3, 4}}, {numbers({2, 0, -2})}},
    {"permute", {{2, 3}}, {number(1), number(0)}},
    {"reshape", {{4, 3}}, {numbers({2, -1})}},
    {"view", {{4, 3}}, {number(3), number(4)}},
    {"flatten", {{2, 3, 4}}, {number(1)}},
    {"unsqueeze", {{2, 3}}, {number(-1)}},
    {"squeeze", {{2, 1, 3, 1}}},
    {"squeeze", {{2, 1, 3, 1}}, {number(1)}},
    {"expand", {{3, 1}}, {numbers({2, -1, 4})}},
    {"contiguous", {{2, 3}}},
};

}  // namespace

TEST_CASE("toy_operators: the gradients of every operator equal its numerical slopes") {
  rng random(7);
  // The first two return no tensor. The others are not differentiable everywhere and have tests of their own.
  std::set<std::string> checked{"pipe_split", "size", "log", "sqrt", "rsqrt"};
  for (auto const& c : cases) {
    CAPTURE(c.name);
    for (int i = 0; i < 3; ++i) CHECK(largest_error(c, random) < 1e-6);
    checked.insert(c.name);
  }
  for (auto const& [name, f] : toy_operators()) CHECK_MESSAGE(checked.contains(name), name);
}

TEST_CASE("toy_operators: operators that move elements place them like PyTorch") {
  tape t;
  auto const x = constant_of({{2, 3}, {1, 2, 3, 4, 5, 6}});
  auto const given = [&](std::string const& name, tape_values rest) {
    rest.insert(rest.begin(), x);
    return toy_operators().find(name)->second(t, rest);
  };
  CHECK(given("permute", {numbers({1, 0})}).get() == tensor{{3, 2}, {1, 4, 2, 5, 3, 6}});
  CHECK(given("reshape", {numbers({-1, 2})}).get() == tensor{{3, 2}, {1, 2, 3, 4, 5, 6}});
  CHECK(given("sum", {number(0)}).get() == tensor{{3}, {5, 7, 9}});
  CHECK(given("mean", {number(-1), yes}).get() == tensor{{2, 1}, {2, 5}});
  CHECK(given("getitem", {slice(number(1), nothing)}).get() == tensor{{1, 3}, {4, 5, 6}});
  CHECK(given("select", {number(1), number(-1)}).get() == tensor{{2}, {3, 6}});
  CHECK(given("expand", {numbers({2, -1, -1})}).get().data.size() == 12);
  CHECK(given("size", {number(-1)}).text == token(std::int64_t{3}));
  CHECK(given("size", {}).items->size() == 2);
  auto const chunks = given("chunk", {number(2), number(1)});
  REQUIRE(chunks.items->size() == 2);
  CHECK(chunks.items->at(0).get() == tensor{{2, 2}, {1, 2, 4, 5}});
  CHECK(chunks.items->at(1).get() == tensor{{2, 1}, {3, 6}});
  auto const list = composite_of(container::kind::list, {x, x});
  CHECK(toy_operators().at("cat")(t, {list, number(1)}).get() ==
        tensor{{2, 6}, {1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}});
  CHECK(toy_operators().at("stack")(t, {list, number(1)}).get() ==
        tensor{{2, 2, 3}, {1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}});
  CHECK_THROWS_AS(given("split", {numbers({1, 2})}), tensor_shape_error);
  CHECK_THROWS_AS(given("view", {number(4), number(2)}), tensor_shape_error);
  CHECK_THROWS_AS(given("getitem", {number(2)}), tensor_shape_error);
  for (std::string const name : {"log", "sqrt", "rsqrt"}) {
    auto const leaf = t.leaf("x", {{1}, {4}});
    auto const y = toy_operators().find(name)->second(t, {leaf});
    t.backward({{*y.node, {{1}, {1}}}});
    double const slope = name == "log" ? 0.25 : name == "sqrt" ? 0.25 : -0.0625;
    CHECK(t.gradient_of(leaf)->data[0] == doctest::Approx(slope));
  }
}

TEST_CASE("toy_autograd: keyword arguments fill their positions") {
  module_graph g;
  module_node x, cat;
  x.kind = node_kind::placeholder;
  x.name = x.target = "x";
  g.add(x);
  cat.name = cat.target = "cat";
  cat.args = {{container{container::kind::list, 2}, node_ref{0}, node_ref{0}}};
  cat.kwargs = {{"dim", {std::int64_t{1}}}};
  g.add(cat);
  module_node output;
  output.kind = node_kind::output;
  output.args = {node_argument(1)};
  g.add(output);
  tape t;
  state_values const state;
  toy_autograd meaning(t, state);
  auto const made = evaluate(g, std::vector{constant_of({{2, 1}, {1, 2}})}, meaning);
  CHECK(made.get() == tensor{{2, 2}, {1, 1, 2, 2}});
}

TEST_CASE("tape: a value used twice gets both gradients, and a leaf accumulates them") {
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

TEST_CASE("tape: values that need no gradient are not recorded") {
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

TEST_CASE("tape: flow() passes only along edges that the filter allows") {
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

TEST_CASE("formula: rejects shapes that do not fit and invalid formulas") {
  tape t;
  auto const x = t.leaf("x", {{2, 1}, {3, 1}});
  CHECK_THROWS_WITH_AS(formula(t, {{"x", x}}).evaluate("y = x @ x"), "no product of shapes [2, 1] and [2, 1]",
                       tensor_shape_error);
  CHECK_THROWS_WITH_AS(formula(t, {{"x", x}}).evaluate("y = sine(x)"),
                       "'y = sine(x)': nothing is called 'sine' before character 8", formula_error);
  CHECK_THROWS_AS(formula(t, {{"x", x}}).evaluate("y = (x"), formula_error);
  CHECK(fixed_names("y = (x @ w1) @ w2, w2 fixed") == std::set<std::string>{"w2"});
}

TEST_CASE("toy_autograd: trains a module_graph, and state that shares storage is one leaf") {
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
