// SPDX-License-Identifier: MIT
#include "cleave/engine/make_pipeline.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cleave/graph/interpreter.hpp"
#include "cleave/pipe/module_pipe.hpp"
#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/families/gpipe.hpp"
#include "cleave/schedule/families/one_f_one_b.hpp"
#include "cleave/schedule/families/zbv.hpp"
#include "cleave/schedule/memory/limit_saved_activations.hpp"
#include "support/rng.hpp"
#include "support/table_operators.hpp"

using namespace cleave;
using namespace cleave::detail;
using namespace cleave::testing;

namespace {

using weights = std::map<std::string, matrix>;
using inputs = model_inputs<matrix_framework::tensor>;
constexpr auto positional = [](auto... values) {
  return positional_inputs<matrix_framework::tensor>(std::move(values)...);
};

/// Returns what a graph returns for positional matrices, evaluated as a whole.
matrix_value run_whole(module_graph const& g, weights const& w, std::vector<matrix> const& given) {
  auto table = matrix_operators();
  stage_state const state(g);
  auto const state_of = [&](std::uint32_t n) { return w.at(state.tensors()[n].names.front()); };
  stage_interpretation i(table, state, state_of);
  return evaluate(g, std::vector<matrix_value>(given.begin(), given.end()), i);
}

/// Returns the loss, which is the last tensor that the graph returns.
double loss_of(module_graph const& g, weights const& w, std::vector<matrix> const& given) {
  return run_whole(g, w, given).tensors().back().data.at(0);
}

/// Returns the derivative of the weighted sum of losses by each weight, by finite differences.
weights differences(module_graph const& g, weights w, std::vector<std::vector<matrix>> const& given,
                    std::vector<double> const& factors) {
  auto const total = [&] {
    double sum = 0;
    for (std::size_t m = 0; m < given.size(); ++m) sum += factors[m] * loss_of(g, w, given[m]);
    return sum;
  };
  weights made = w;
  constexpr double step = 1e-5;
  for (auto& [name, value] : w)
    for (std::size_t i = 0; i < value.data.size(); ++i) {
      double const x = value.data[i];
      value.data[i] = x + step;
      double const above = total();
      value.data[i] = x - step;
      double const below = total();
      value.data[i] = x;
      made[name].data[i] = (above - below) / (2 * step);
    }
  return made;
}

/// Writes a program of `stages` stages with skips, lists and shared weights.
module_graph random_program(rng& random, std::uint32_t stages, weights& w) {
  matrix_program p;
  std::vector<module_argument> made{p.input("x")};
  std::vector<module_argument> lists;
  auto const any = [&] { return made[random.one_in(2) ? made.size() - 1 : random.below(made.size())]; };
  for (std::uint32_t s = 0; s < stages; ++s) {
    if (s > 0) p.cut();
    for (auto n = 1 + random.below(3); n > 0; --n) {
      switch (random.below(6)) {
        case 0:
          made.push_back(p.call("tanh", {any()}));
          break;
        case 1:
          made.push_back(p.call("add", {any(), any()}));
          break;
        case 2:
          made.push_back(p.call("mul", {any(), any()}));
          break;
        case 3:
          lists.push_back(p.call("both", {any()}));
          made.push_back(p.call(
              "getitem", {lists[random.below(lists.size())], {static_cast<std::int64_t>(random.below(2))}}));
          break;
        default: {
          auto const path = "w" + std::to_string(random.below(3));
          if (!w.contains(path)) w[path] = random_matrix(random, 2, 2);
          made.push_back(p.call("matmul", {any(), p.weight(path)}));
        }
      }
    }
  }
  p.output(p.call("sum_squares", {made.back()}));
  return std::move(p.g);
}

/// Returns microbatches of one random matrix each.
std::vector<std::vector<matrix>> random_microbatches(rng& random, std::size_t count) {
  std::vector<std::vector<matrix>> given;
  while (given.size() < count) given.push_back({random_matrix(random, 2, 2)});
  return given;
}

std::vector<inputs> batch_of(std::vector<std::vector<matrix>> const& given) {
  std::vector<inputs> batch;
  for (auto const& m : given) batch.push_back(positional(m[0]));
  return batch;
}

/// Checks gradients and losses of a step against the whole.
template <class Pipeline>
void check_step(Pipeline& run, module_graph const& g, weights const& w,
                std::vector<std::vector<matrix>> const& given, std::vector<double> const& factors) {
  run.step(batch_of(given), {.weights = factors});
  for (std::uint32_t m = 0; m < given.size(); ++m) {
    auto const loss = run.loss(microbatch_id{m});
    REQUIRE(loss);
    CHECK(*static_cast<double const*>(loss->data) == doctest::Approx(loss_of(g, w, given[m])));
  }
  auto const wanted = differences(g, w, given, factors);
  for (std::uint32_t s = 0; s < run.plan().order().place.stages(); ++s)
    for (auto const& p : run.stages_with(stage_id{s}).trained(stage_id{s})) {
      auto const& expected = wanted.at(p.names.front());
      for (std::size_t i = 0; i < expected.data.size(); ++i)
        CHECK(static_cast<double const*>(p.gradient.data)[i] ==
              doctest::Approx(expected.data[i]).epsilon(1e-4).scale(1));
    }
}

}  // namespace

TEST_CASE(
    "make_pipeline: random programs have the gradients of finite differences, in every kind of schedule") {
  rng random(11);
  for (int i = 0; i < 60; ++i) {
    CAPTURE(i);
    weights w;
    auto const ranks = static_cast<std::uint32_t>(1 + random.below(3));
    auto const microbatches = static_cast<std::uint32_t>(2 * ranks + random.below(2));
    bool const in_halves = random.one_in(2);
    auto const order = in_halves ? zbv(ranks, microbatches) : one_f_one_b(ranks, microbatches);
    auto const g = random_program(random, order.place.stages(), w);
    auto const pipe = make_module_pipe(g);
    auto const given = random_microbatches(random, microbatches);
    std::vector<double> factors(microbatches);
    for (double& f : factors) f = 0.5 + random.unit();
    stage_engine engine(pipe, matrix_framework(matrix_operators()), w, batch_of(given));
    auto run = make_pipeline(engine, order);
    check_step(run, g, w, given, factors);
    CHECK(run.stages_with(stage_id{0}).open_passes() == 0);
  }
}

TEST_CASE("make_pipeline: trains as the whole does, step after step, with shared weights") {
  rng random(5);
  weights w{{"a", random_matrix(random, 2, 2)}, {"b", random_matrix(random, 2, 2)}};
  matrix_program p;
  auto const x = p.input("x");
  auto h = p.call("tanh", {p.call("matmul", {x, p.weight("a")})});
  p.cut();
  h = p.call("matmul", {h, p.weight("b")});
  p.cut();
  h = p.call("matmul", {h, p.weight("a")});  // the weight of stage 0 again
  p.output(p.call("sum_squares", {h}));
  auto const pipe = make_module_pipe(p.g);

  auto const given = random_microbatches(random, 4);
  auto const batch = batch_of(given);
  constexpr double rate = 0.05;
  stage_engine engine(pipe, matrix_framework(matrix_operators()), w, batch, gradient_descent{rate});
  CHECK(engine.ties() == std::vector<tied_gradients>{{{stage_id{0}, 0}, {stage_id{2}, 0}}});
  auto run = make_pipeline(engine, one_f_one_b(3, 4));
  for (int step = 0; step < 5; ++step) {
    CAPTURE(step);
    check_step(run, p.g, w, given, {1, 1, 1, 1});
    auto const gradient = differences(p.g, w, given, {1, 1, 1, 1});
    run.update();
    for (auto& [name, value] : w)
      for (std::size_t i = 0; i < value.data.size(); ++i) value.data[i] -= rate * gradient.at(name).data[i];
    run.evaluate(batch);
    double loss = 0, whole = 0;
    for (std::uint32_t m = 0; m < 4; ++m) {
      loss += *static_cast<double const*>(run.loss(microbatch_id{m})->data);
      whole += loss_of(p.g, w, given[m]);
    }
    CHECK(loss == doctest::Approx(whole).epsilon(1e-6));
  }
  auto const state = run.stages_with(stage_id{1}).state(stage_id{1});
  REQUIRE(state.size() == 1);
  CHECK(state[0].names == std::vector<std::string>{"b"});
}

TEST_CASE("make_pipeline: replicas sum their gradients; kept gradients add up") {
  rng random(6);
  weights const w{{"a", random_matrix(random, 2, 2)}};
  matrix_program p;
  auto const x = p.input("x");
  auto const h = p.call("matmul", {x, p.weight("a")});
  p.cut();
  p.output(p.call("sum_squares", {h}));
  auto const pipe = make_module_pipe(p.g);
  auto const given = random_microbatches(random, 4);
  auto const batch = batch_of(given);
  auto const half = std::vector<inputs>(batch.begin(), batch.begin() + 2);
  stage_engine engine(pipe, matrix_framework(matrix_operators()), w, half);
  auto run = make_pipeline(engine, gpipe(2, 2), on_threads{.run = {.replicas = 2}});
  run.step(batch);
  auto const expected = differences(p.g, w, given, {1, 1, 1, 1}).at("a");
  auto const check = [&](double times) {
    for (std::uint32_t r = 0; r < 2; ++r) {
      auto const& a = run.stages_with(stage_id{0}, r).trained(stage_id{0})[0];
      for (std::size_t i = 0; i < 4; ++i)
        CHECK(static_cast<double const*>(a.gradient.data)[i] ==
              doctest::Approx(times * expected.data[i]).epsilon(1e-5).scale(1));
    }
  };
  check(1);
  auto alone = make_pipeline(engine, gpipe(2, 2));
  alone.step(half, {.gradients = gradient_end::kept});
  alone.step(std::span(batch).subspan(2));
  auto const& a = alone.stages_with(stage_id{0}).trained(stage_id{0})[0];
  for (std::size_t i = 0; i < 4; ++i)
    CHECK(static_cast<double const*>(a.gradient.data)[i] ==
          doctest::Approx(expected.data[i]).epsilon(1e-5).scale(1));
}

namespace {

/// Writes the program x w0 w1 ... with `weights` weights, and the sum of squares of the result.
module_graph chain_program(std::uint32_t count, rng& random, weights& w) {
  matrix_program p;
  auto h = p.input("x");
  for (std::uint32_t i = 0; i < count; ++i) {
    auto const path = "w" + std::to_string(i);
    w[path] = random_matrix(random, 2, 2);
    h = p.call("matmul", {h, p.weight(path)});
  }
  p.output(p.call("sum_squares", {h}));
  return std::move(p.g);
}

/// What stages report in a backward pass: each gradient, and its value and that of the first at that time.
struct reports {
  struct one {
    std::uint32_t number;
    double own, first;
  };
  std::vector<one> all;
  std::vector<double const*> elements;

  static void take(void* to, stage_id, std::uint32_t n) {
    auto& self = *static_cast<reports*>(to);
    self.all.push_back({n, *self.elements.at(n), *self.elements.front()});
  }
};

}  // namespace

TEST_CASE("make_pipeline: the last backward pass reports each gradient as soon as it is complete") {
  rng random(12);
  weights w;
  auto const g = chain_program(4, random, w);
  auto const pipe = make_module_pipe(g);
  auto const given = random_microbatches(random, 1);
  stage_engine engine(pipe, matrix_framework(matrix_operators()), w, batch_of(given));
  auto const expected = differences(g, w, given, {1});
  for (bool const in_halves : {false, true}) {
    CAPTURE(in_halves);
    host_memory memory;
    schedule const one{{1, {rank_id{0}}, {}}, 1, {{}}};
    auto stages = engine.make_stages<host_device>(one, rank_id{0}, memory);
    reports seen;
    for (auto const& t : stages.trained(stage_id{0}))
      seen.elements.push_back(static_cast<double const*>(t.gradient.data));
    host_device::stream s;
    matrix x = given[0][0];
    double loss = 0;
    tensor_view const in[] = {{x.data.data(), element_type::f64, {2, 2}}}, at_result[] = {{}},
                      at_input[] = {{}};
    tensor_view out[] = {{&loss, element_type::f64, {}}};
    stage_pass pass{.stage = stage_id{0}, .microbatch = microbatch_id{0}};
    stages.forward(s, pass, in, out);
    pass.ready = {&reports::take, &seen, stage_id{0}};
    if (in_halves) {
      stages.backward_input(s, pass, at_result, at_input);
      CHECK(seen.all.empty());
      stages.backward_weight(s, pass);
    } else {
      stages.backward(s, pass, at_result, at_input);
    }
    REQUIRE(seen.all.size() == 4);
    for (std::uint32_t i = 0; i < 4; ++i) {
      auto const& r = seen.all[i];
      if (!in_halves) CHECK(r.number == 3 - i);
      CHECK(r.own == doctest::Approx(expected.at("w" + std::to_string(r.number)).data[0]).epsilon(1e-4));
      if (!in_halves) CHECK((r.first == 0) == (i < 3));
    }
  }
}

TEST_CASE("make_pipeline: replicas with buckets have the gradients of random programs on all samples") {
  rng random(13);
  for (int i = 0; i < 25; ++i) {
    CAPTURE(i);
    weights w;
    auto const ranks = static_cast<std::uint32_t>(1 + random.below(2)), microbatches = 2 * ranks;
    auto const order = random.one_in(2) ? zbv(ranks, microbatches) : one_f_one_b(ranks, microbatches);
    auto const g = random_program(random, order.place.stages(), w);
    auto const pipe = make_module_pipe(g);
    auto const given = random_microbatches(random, std::size_t{2} * microbatches);
    auto const batch = batch_of(given);
    stage_engine engine(pipe, matrix_framework(matrix_operators()), w,
                        std::vector<inputs>(batch.begin(), batch.begin() + microbatches));
    std::vector<std::vector<std::string>> names(1);
    for (auto const& [name, value] : w) {
      if (random.one_in(3)) continue;
      if (random.one_in(2)) names.emplace_back();
      names.back().push_back(name);
    }
    auto run = make_pipeline(
        engine, order,
        on_threads{
            .run = {.replicas = 2, .buckets = engine.buckets(names), .bucket_bytes = 16 * random.below(5)}});
    for (int step = 0; step < 2; ++step) {
      run.step(batch);
      auto const wanted = differences(g, w, given, std::vector<double>(given.size(), 1));
      for (std::uint32_t r = 0; r < 2; ++r)
        for (std::uint32_t s = 0; s < order.place.stages(); ++s)
          for (auto const& p : run.stages_with(stage_id{s}, r).trained(stage_id{s})) {
            auto const& expected = wanted.at(p.names.front());
            for (std::size_t k = 0; k < expected.data.size(); ++k)
              CHECK(static_cast<double const*>(p.gradient.data)[k] ==
                    doctest::Approx(expected.data[k]).epsilon(1e-4).scale(1));
          }
      for (std::uint32_t r = 0; r < 2; ++r)
        for (std::uint32_t s = 0; s < order.place.stages(); ++s)
          run.stages_with(stage_id{s}, r).clear_gradients(stage_id{s});
    }
  }
}

TEST_CASE("stage_engine: buckets of parameters by name, in every stage that has them") {
  rng random(14);
  weights w{{"a", random_matrix(random, 2, 2)}, {"b", random_matrix(random, 2, 2)}};
  matrix_program p;
  auto h = p.call("matmul", {p.call("matmul", {p.input("x"), p.weight("a")}), p.weight("b")});
  p.cut();
  p.output(p.call("sum_squares", {p.call("matmul", {h, p.weight("a")})}));
  auto const pipe = make_module_pipe(p.g);
  stage_engine engine(pipe, matrix_framework(matrix_operators()), w,
                      batch_of(random_microbatches(random, 2)));
  using buckets = std::vector<gradient_bucket>;
  CHECK(engine.buckets({}) == buckets{});
  CHECK(engine.buckets({{"b"}, {"a"}}) ==
        buckets{{stage_id{0}, {1}}, {stage_id{0}, {0}}, {stage_id{1}, {0}}});
  CHECK(engine.buckets({{"a", "b"}, {"a"}}) == buckets{{stage_id{0}, {0, 1}}, {stage_id{1}, {0}}});
  CHECK_THROWS_WITH_AS(
      engine.buckets({{"a"}, {"c", "a"}}),
      "engine: bucket #1 has 'c', which is not a parameter that gets gradients; nearest: 'a', 'b'",
      engine_error);
}

TEST_CASE("make_pipeline: keywords, defaults, *args, constants, called modules and nested results") {
  rng random(8);
  matrix_program p;
  p.g.add_attribute({"block", module_attribute::kind::module, {}, {}, {}, {}});
  p.g.add_attribute({"linear_module.weight", module_attribute::kind::parameter, {}, {}, {}, {}});
  auto const x = p.input("x"), rest = p.input("*rest");
  auto const factor = p.input("factor");
  auto const h = p.add(node_kind::call_module, "linear_module", {x});
  auto const y = p.call("scale", {h}, {{"by", factor}});
  p.cut();
  auto const z = p.call("add", {y, p.call("getitem", {rest, {std::int64_t{-1}}})});
  module_argument pair{container{container::kind::dict, 2}, std::string("middle"), y.front(),
                       std::string("loss"), p.call("sum_squares", {z}).front()};
  p.output(pair);
  auto const pipe = make_module_pipe(p.g);
  weights const w{{"linear_module.weight", random_matrix(random, 2, 2)}};

  using value = model_value<matrix_framework::tensor>;
  auto const a = random_matrix(random, 2, 2), b = random_matrix(random, 2, 2),
             c = random_matrix(random, 2, 2);
  auto given = positional(a, b, c);
  given.keywords = nested<value>::dict({{"factor", value(token(3.0))}});
  stage_engine engine(pipe, matrix_framework(matrix_operators()), w, {given});
  auto run = make_pipeline(engine, gpipe(2, 1));
  run.step(std::vector{given});
  auto const result = run.result(microbatch_id{0});
  REQUIRE(result);
  REQUIRE(result->outer());
  CHECK(*result->outer() == container{container::kind::dict, 2});
  auto const elements = result->elements();
  CHECK(*elements[0].constant() == token(std::string("middle")));
  auto const expected =
      zip_matrices(multiply(a, w.at("linear_module.weight")), a, [](double v, double) { return 3 * v; });
  CHECK(elements[1].tensor()->value == expected);
  double loss = 0;
  for (double const v : zip_matrices(expected, c, [](double s, double t) { return s + t; }).data)
    loss += v * v;
  CHECK(elements[3].tensor()->value.data[0] == doctest::Approx(loss));
  CHECK(run.stages_with(stage_id{0}).trained(stage_id{0}).size() == 1);

  auto other = given;
  other.keywords = nested<value>::dict({{"factor", value(token(4.0))}});
  CHECK_THROWS_WITH_AS(
      run.step(std::vector{other}),
      doctest::Contains("input #2 of the model does not have the form that it had in the trace"),
      engine_error);
  auto missing = positional(a, b);
  CHECK_THROWS_WITH(run.step(std::vector{missing}),
                    doctest::Contains("parameter 'factor' has neither an argument nor a default"));
  CHECK_THROWS_WITH_AS(run.step(std::vector{given, given}),
                       "engine: 2 microbatches are given, but the schedule has 1", engine_error);
}

TEST_CASE("make_pipeline: microbatches may differ in rows; dynamic values may be smaller than in the trace") {
  rng random(9);
  weights const w{{"a", random_matrix(random, 2, 2)}};
  matrix_program p;
  auto const x = p.input("x");
  auto const h = p.call("matmul", {x, p.weight("a")});
  p.cut();
  p.output(p.call("sum_squares", {p.call("tanh", {h})}));
  auto const pipe = make_module_pipe(p.g);
  std::vector<std::vector<matrix>> given{{random_matrix(random, 3, 2)}, {random_matrix(random, 2, 2)}};
  auto const batch = batch_of(given);

  stage_engine engine(pipe, matrix_framework(matrix_operators()), w, batch);
  CHECK(engine.wiring().layouts.rows == std::vector<std::int64_t>{3, 2});
  auto run = make_pipeline(engine, gpipe(2, 2));
  check_step(run, p.g, w, given, {1, 2});

  stage_engine dynamic(pipe, matrix_framework(matrix_operators()), w, batch, gradient_descent{},
                       {.extents = shape_kind::dynamic});
  for (auto const& e : dynamic.wiring().layouts.edges)
    CHECK((e.extents == shape_kind::dynamic) == (e.gradient == gradient_use::wanted));
  auto flexible = make_pipeline(dynamic, gpipe(2, 2));
  check_step(flexible, p.g, w, given, {1, 2});
}

TEST_CASE("make_pipeline: recomputed activations give the same gradients") {
  rng random(10);
  weights const w{{"a", random_matrix(random, 2, 2)}, {"b", random_matrix(random, 2, 2)}};
  matrix_program p;
  auto const x = p.input("x");
  auto const h = p.call("tanh", {p.call("matmul", {x, p.weight("a")})});
  p.cut();
  p.output(p.call("sum_squares", {p.call("tanh", {p.call("matmul", {h, p.weight("b")})})}));
  auto const pipe = make_module_pipe(p.g);
  auto const given = random_microbatches(random, 4);
  auto const batch = batch_of(given);
  stage_engine engine(pipe, matrix_framework(matrix_operators()), w, batch);
  auto const relieved = limit_saved_activations(
      one_f_one_b(2, 4), {.memory_limit = {2}, .relief = std::vector(2, saved_relief::recompute)});
  auto run = make_pipeline(engine, relieved);
  check_step(run, p.g, w, given, {1, 1, 1, 1});
}

namespace {

/// Operators with hooks of the whole model. Copies note calls in the same lists, one for each hook.
struct hooked_operators : matrix_table {
  std::shared_ptr<std::array<std::vector<stage_call>, 3>> noted =
      std::make_shared<std::array<std::vector<stage_call>, 3>>();

  explicit hooked_operators(matrix_table t) : matrix_table(std::move(t)) {}
  void before_forward(stage_pass const& p) { (*noted)[0].push_back({p.stage, p.microbatch}); }
  void after_forward(stage_pass const& p) { (*noted)[1].push_back({p.stage, p.microbatch}); }
  void after_backward(stage_pass const& p) { (*noted)[2].push_back({p.stage, p.microbatch}); }
};

}  // namespace

TEST_CASE("make_pipeline: a framework may have hooks, which run at the first and the last stage") {
  rng random(12);
  weights const w{{"a", random_matrix(random, 2, 2)}};
  matrix_program p;
  auto const h = p.call("matmul", {p.input("x"), p.weight("a")});
  p.cut();
  p.output(p.call("sum_squares", {h}));
  auto const pipe = make_module_pipe(p.g);
  using framework = taped_operators<hooked_operators>;
  hooked_operators const operators(matrix_operators());
  std::vector<model_inputs<framework::tensor>> batch;
  for (int m = 0; m < 2; ++m)
    batch.push_back(positional_inputs<framework::tensor>(random_matrix(random, 2, 2)));
  stage_engine engine(pipe, framework(operators), w, batch);
  auto run = make_pipeline(engine, gpipe(2, 2));
  CHECK(*operators.noted == std::array<std::vector<stage_call>, 3>());  // the trace runs none
  run.step(batch);
  auto const of = [](std::uint32_t stage) {
    return std::vector<stage_call>{{stage_id{stage}, microbatch_id{0}}, {stage_id{stage}, microbatch_id{1}}};
  };
  CHECK((*operators.noted)[0] == of(0));
  CHECK((*operators.noted)[1] == of(1));
  CHECK((*operators.noted)[2] == of(0));
}

TEST_CASE("make_pipeline: errors name the node, the operand or the parameter") {
  rng random(12);
  weights const w{{"weight", random_matrix(random, 2, 2)}};
  auto const one = [&] { return std::vector{positional(random_matrix(random, 2, 2))}; };
  auto const engine_for = [&](module_graph const& g, weights const& values) {
    auto const pipe = make_module_pipe(g);
    stage_engine engine(pipe, matrix_framework(matrix_operators()), values, one());
  };
  auto const program = [&](auto write) {
    matrix_program p;
    auto const x = p.input("x");
    p.output(write(p, p.call("matmul", {x, p.weight("weight")})));
    return std::move(p.g);
  };
  CHECK_THROWS_WITH_AS(engine_for(program([](auto& p, auto h) { return p.call("tanhh", {h}); }), w),
                       "node 'tanhh_3': there is no operator 'tanhh'; nearest: 'tanh', 'add', 'both'; add it",
                       operator_error);
  CHECK_THROWS_WITH_AS(engine_for(program([](auto& p, auto h) { return p.call("detach", {h}); }), w),
                       "node 'detach_3': operator 'detach' has no backward function, but a parameter needs a "
                       "gradient through it; add one",
                       operator_error);
  CHECK_THROWS_WITH_AS(
      engine_for(program([](auto& p, auto h) { return p.call("scale", {h, {std::string("x")}}); }), w),
      "node 'scale_3': operator 'scale': operand #1 (by) is not a number of the kind that is needed",
      operator_error);
  CHECK_THROWS_WITH_AS(engine_for(program([](auto& p, auto h) { return p.call("add", {h}); }), w),
                       "node 'add_3': operator 'add' lacks operand #1", operator_error);
  auto const whole = program([](auto&, auto h) { return h; });
  CHECK_THROWS_WITH_AS(engine_for(whole, {{"weihgt", w.at("weight")}}),
                       doctest::Contains("engine: parameter or buffer 'weight' has no value"), engine_error);
  auto const pipe = make_module_pipe(whole);
  CHECK_THROWS_WITH_AS(stage_engine(pipe, matrix_framework(matrix_operators()), w, std::vector<inputs>()),
                       "engine: there is no microbatch to trace; give the arguments of at least one",
                       engine_error);
  CHECK_THROWS_WITH_AS(
      stage_engine(pipe, matrix_framework(matrix_operators()), w, one(), gradient_descent{}, {.loss = 3}),
      "engine: result #3 is to be the loss, but the model returns 1 tensors", engine_error);
  stage_engine engine(pipe, matrix_framework(matrix_operators()), w, one());
  CHECK_THROWS_WITH(make_pipeline(engine, gpipe(2, 1)),
                    doctest::Contains("make the schedule for this number"));
}

TEST_CASE(
    "make_pipeline: results that are inputs, stages without parameters, and losses that nothing depends on") {
  rng random(13);
  matrix_program p;
  auto const x = p.input("x"), y = p.input("y");
  auto const h = p.call("tanh", {x});
  p.cut();
  auto const z = p.call("matmul", {h, p.weight("w")});
  p.cut();
  module_argument all{container{container::kind::tuple, 3}, y.front(), z.front(),
                      p.call("sum_squares", {h}).front()};
  p.output(all);  // no parameter influences the last result, which is the loss
  auto const pipe = make_module_pipe(p.g);
  weights const w{{"w", random_matrix(random, 2, 2)}};
  auto const a = random_matrix(random, 2, 2), b = random_matrix(random, 2, 2);
  auto const batch = std::vector{positional(a, b)};
  stage_engine engine(pipe, matrix_framework(matrix_operators()), w, batch);
  auto run = make_pipeline(engine, gpipe(3, 1));
  run.step(batch);
  auto const elements = run.result(microbatch_id{0})->elements();
  REQUIRE(elements.size() == 3);
  CHECK(elements[0].tensor()->value == b);
  CHECK(elements[1].tensor()->value == run_whole(p.g, w, {a, b}).tensors()[1]);
  auto const& gradient = run.stages_with(stage_id{1}).trained(stage_id{1})[0].gradient;
  for (std::size_t i = 0; i < 4; ++i) CHECK(static_cast<double const*>(gradient.data)[i] == 0);

  stage_engine second(pipe, matrix_framework(matrix_operators()), w, batch, gradient_descent{}, {.loss = 1});
  auto other = make_pipeline(second, gpipe(3, 1));  // the loss is the sum of a matrix
  other.step(batch);
  auto const& sum = other.stages_with(stage_id{1}).trained(stage_id{1})[0].gradient;
  for (std::size_t i = 0; i < 4; ++i)
    CHECK(static_cast<double const*>(sum.data)[i] ==
          doctest::Approx(std::tanh(a.data[i / 2]) + std::tanh(a.data[2 + i / 2])));
}

TEST_CASE("make_pipeline: an operator that fails in a step is named with its stage and microbatch") {
  rng random(14);
  matrix_program p;
  auto const x = p.input("x");
  auto const h = p.call("matmul", {x, p.weight("w")});
  p.cut();
  p.output(p.call("sum_squares", {p.call("fail_if_large", {h})}));
  auto const pipe = make_module_pipe(p.g);
  auto table = matrix_operators();
  table.define(
      "fail_if_large",
      [](operator_call<matrix> const& c) {
        if (c.tensor(0).data[0] > 100) throw std::runtime_error("too large");
        return matrix_value(c.tensor(0));
      },
      [](operator_backward<matrix> const& b) -> operand_gradients<matrix> { return {b.gradient()}; });
  weights const w{{"w", matrix({2, 2}, {1, 0, 0, 1})}};
  auto batch = std::vector{positional(random_matrix(random, 2, 2)), positional(random_matrix(random, 2, 2))};
  stage_engine engine(pipe, matrix_framework(table), w, batch);
  auto run = make_pipeline(engine, gpipe(2, 2));
  batch[1] = positional(matrix({2, 2}, {1000, 0, 0, 0}));
  CHECK_THROWS_WITH(
      run.step(batch),
      "rank 1, forward, stage 1, microbatch 1: node 'fail_if_large_4': operator 'fail_if_large' failed: "
      "too large");
}
