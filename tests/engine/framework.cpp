// SPDX-License-Identifier: MIT
#include "cleave/engine/framework.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/engine/make_pipeline.hpp"
#include "cleave/pipe/module_pipe.hpp"
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

/// A framework with the least possible interface, which infers only. Tensors cannot be made without a number.
class least_framework {
 public:
  class tensor {
   public:
    explicit tensor(double x) : x_(x) {}
    double number() const { return x_; }

   private:
    double x_;
  };

  tensor_view view(tensor const& t) {
    at_ = t.number();
    return {&at_, element_type::f64, {}};
  }
  tensor wrap(tensor_view const& v) { return tensor(*static_cast<double*>(v.data)); }
  tensor copy(tensor const& t) { return t; }
  void write(tensor const& t, tensor_view const& v) { *static_cast<double*>(v.data) = t.number(); }
  void add(tensor const& t, tensor_view const& v, double x) {
    *static_cast<double*>(v.data) += x * t.number();
  }
  void fill(tensor_view const& v, double x) { *static_cast<double*>(v.data) = x; }
  tensor call(operator_call<tensor> const& c) { return tensor(c.tensor(0).number() + c.tensor(1).number()); }

 private:
  double at_ = 0;
};
static_assert(tensor_framework<least_framework>);
static_assert(!differentiating_framework<least_framework>);

/// Matrices that are differentiated as a whole alone, with an operator that draws random numbers. Counts the
/// calls of `gradients`.
class drawing_framework {
 public:
  using tensor = matrix_framework::tensor;

  explicit drawing_framework(int* asked) : inner_(matrix_operators()), asked_(asked) {}

  tensor_view view(tensor const& t) { return inner_.view(t); }
  tensor wrap(tensor_view const& v) { return inner_.wrap(v); }
  tensor copy(tensor const& t) { return inner_.copy(t); }
  tensor filled(tensor const& t, double x) { return inner_.filled(t, x); }
  void write(tensor const& t, tensor_view const& v) { inner_.write(t, v); }
  void add(tensor const& t, tensor_view const& v, double x) { inner_.add(t, v, x); }
  void fill(tensor_view const& v, double x) { inner_.fill(v, x); }
  void begin(stage_pass const& p) { inner_.begin(p); }
  model_value<tensor> call(operator_call<tensor> const& c) {
    if (c.target() != "drop") return inner_.call(c);
    auto mask = c.tensor(0);
    std::vector<model_value<tensor>> args{c.args[0]};
    matrix drawn(mask.value.shape);
    for (double& x : drawn.data) x = random_.one_in(2) ? 0.0 : 2.0;
    args.emplace_back(tensor(drawn));
    module_node n = c.node;
    n.target = "mul";
    kept_.push_back(std::make_unique<module_node>(std::move(n)));
    return inner_.call({*kept_.back(), args, {}, {}});
  }
  tensor leaf(tensor const& t) { return inner_.leaf(t); }
  bool needs_gradient(tensor const& t) { return inner_.needs_gradient(t); }
  std::vector<std::optional<tensor>> gradients(std::vector<tensor> const& results,
                                               std::vector<tensor> const& at_results,
                                               std::vector<tensor> const& wanted, bool keep) {
    ++*asked_;
    return inner_.gradients(results, at_results, wanted, keep);
  }
  rng random_state() const { return random_; }
  void set_random_state(rng const& r) { random_ = r; }

  drawing_framework(drawing_framework const& other) : inner_(other.inner_), asked_(other.asked_) {}
  drawing_framework& operator=(drawing_framework const& other) {
    inner_ = other.inner_;
    asked_ = other.asked_;
    return *this;
  }

 private:
  matrix_framework inner_;
  int* asked_;
  rng random_{1};
  std::vector<std::unique_ptr<module_node>> kept_;  // nodes of tapes
};
static_assert(differentiating_framework<drawing_framework>);

/// Selects whether each stage of a program ends with a random mask.
enum class masks : std::uint8_t { none, random };

/// A program of two or more stages, each a product with a weight.
module_graph product_program(std::uint32_t stages, masks m,
                             std::map<std::string, drawing_framework::tensor>& w) {
  rng random(2);
  matrix_program p;
  auto h = p.input("x");
  for (std::uint32_t s = 0; s < stages; ++s) {
    if (s > 0) p.cut();
    auto const path = "w" + std::to_string(s);
    w[path] = random_matrix(random, 2, 2);
    h = p.call("matmul", {h, p.weight(path)});
    if (m == masks::random) h = p.call("drop", {h});
  }
  p.output(p.call("sum_squares", {h}));
  return std::move(p.g);
}

/// Returns the gradients of all stages after a step.
std::vector<double> gradients_of(schedule const& order, masks m, int& asked) {
  std::map<std::string, drawing_framework::tensor> w;
  auto const g = product_program(order.place.stages(), m, w);
  auto const pipe = make_module_pipe(g);
  rng random(3);
  std::vector<model_inputs<drawing_framework::tensor>> batch;
  for (std::uint32_t i = 0; i < order.microbatches; ++i)
    batch.push_back(positional_inputs<drawing_framework::tensor>(random_matrix(random, 2, 2)));
  stage_engine engine(pipe, drawing_framework(&asked), w, batch);
  asked = 0;
  auto run = make_pipeline(engine, order);
  run.step(batch);
  std::vector<double> all;
  for (std::uint32_t s = 0; s < order.place.stages(); ++s)
    for (auto const& t : run.stages_with(stage_id{s}).trained(stage_id{s})) {
      auto const* const at = static_cast<double const*>(t.gradient.data);
      all.insert(all.end(), at, at + t.gradient.elements().count);
    }
  return all;
}

}  // namespace

TEST_CASE("framework: the least interface runs forward passes") {
  matrix_program p;
  auto const x = p.input("x");
  auto const h = p.call("add", {x, p.weight("w")});
  p.cut();
  p.output(p.call("add", {h, h}));
  auto const pipe = make_module_pipe(p.g);
  using tensor = least_framework::tensor;
  std::map<std::string, tensor> const w{{"w", tensor(2)}};
  std::vector<model_inputs<tensor>> const batch{positional_inputs<tensor>(tensor(3))};
  stage_engine engine(pipe, least_framework(), w, batch);
  for (auto const& e : engine.wiring().layouts.edges) CHECK(e.gradient == gradient_use::none);

  host_memory memory;
  schedule const one{{1, {rank_id{0}, rank_id{0}}, {}}, 1, {{}}};
  auto stages = engine.make_stages<host_device>(one, rank_id{0}, memory);
  double in = 3, middle = 0, out = 0;
  host_device::stream s;
  tensor_view const given[] = {{&in, element_type::f64, {}}}, between[] = {{&middle, element_type::f64, {}}};
  tensor_view made[] = {{&middle, element_type::f64, {}}}, last[] = {{&out, element_type::f64, {}}};
  stages.forward(s, {.stage = stage_id{0}, .microbatch = microbatch_id{0}, .trains = false}, given, made);
  stages.forward(s, {.stage = stage_id{1}, .microbatch = microbatch_id{0}, .trains = false}, between, last);
  CHECK(out == 10);
  CHECK(stages.open_passes() == 0);
}

TEST_CASE("framework: without `split`, both halves of a backward pass ask for gradients") {
  int asked = 0, asked_in_halves = 0;
  auto const in_halves = gradients_of(zbv(1, 2), masks::none, asked_in_halves);
  auto const whole = gradients_of(gpipe(2, 2), masks::none, asked);
  REQUIRE(whole.size() == in_halves.size());
  for (std::size_t i = 0; i < whole.size(); ++i) CHECK(in_halves[i] == doctest::Approx(whole[i]));
  CHECK(std::ranges::count(whole, 0.0) == 0);
  CHECK(asked == 4);
  CHECK(asked_in_halves == 8);
}

TEST_CASE("framework: recomputed passes draw the random numbers of the first pass") {
  int asked = 0;
  auto const kept = gradients_of(one_f_one_b(2, 4), masks::random, asked);
  auto const recomputed = gradients_of(
      limit_saved_activations(one_f_one_b(2, 4),
                              {.memory_limit = {2}, .relief = std::vector(2, saved_relief::recompute)}),
      masks::random, asked);
  CHECK(kept == recomputed);
}
