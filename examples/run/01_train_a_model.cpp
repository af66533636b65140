// SPDX-License-Identifier: MIT
// Cuts a model into two stages and trains them on threads, in the order of 1F1B. The model is
// loss = sum((tanh(x w1) w2 - y)^2).
#include <cleave/engine.hpp>
#include <cleave/partition.hpp>
#include <cleave/pipe.hpp>
#include <cleave/schedule.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iomanip>
#include <iostream>
#include <map>
#include <string>
#include <utility>
#include <vector>

using tensor = cleave::host_tensor<double>;
using gradients = cleave::operand_gradients<tensor>;
using framework = cleave::taped_operators<cleave::operator_table<cleave::host_tensors<double>>>;

// [operators]
/// Returns the product of two matrices, each transposed or not.
tensor product(tensor const& a, tensor const& b, bool transpose_a = false, bool transpose_b = false) {
  auto const rows = a.shape.extents[transpose_a ? 1 : 0], inner = a.shape.extents[transpose_a ? 0 : 1];
  auto const columns = b.shape.extents[transpose_b ? 0 : 1];
  auto const at = [](tensor const& t, bool transposed, std::int64_t row, std::int64_t column) {
    if (transposed) std::swap(row, column);
    return t.data[static_cast<std::size_t>(row * t.shape.extents[1] + column)];
  };
  tensor p(cleave::tensor_shape{rows, columns});
  for (std::int64_t i = 0; i < rows * columns; ++i)
    for (std::int64_t k = 0; k < inner; ++k)
      p.data[static_cast<std::size_t>(i)] +=
          at(a, transpose_a, i / columns, k) * at(b, transpose_b, k, i % columns);
  return p;
}

/// Returns `f` of each pair of elements.
template <class F>
tensor zipped(tensor a, tensor const& b, F f) {
  for (std::size_t i = 0; i < a.data.size(); ++i) a.data[i] = f(a.data[i], b.data[i]);
  return a;
}

/// The operators of the model, each with its backward function.
framework make_framework() {
  cleave::operator_table<cleave::host_tensors<double>> table;
  table.define(
      "matmul", [](auto const& c) { return cleave::model_value(product(c.tensor(0), c.tensor(1))); },
      [](auto const& b) -> gradients {
        return {product(b.gradient(), b.forward.tensor(1), false, true),
                product(b.forward.tensor(0), b.gradient(), true, false)};
      });
  table.define(
      "tanh",
      [](auto const& c) {
        auto const& x = c.tensor(0);
        return cleave::model_value(zipped(x, x, [](double a, double) { return std::tanh(a); }));
      },
      [](auto const& b) -> gradients {
        return {zipped(b.gradient(), b.results[0], [](double g, double y) { return g * (1 - y * y); })};
      });
  table.define(
      "squared_error",
      [](auto const& c) {
        tensor loss;
        for (double const d : zipped(c.tensor(0), c.tensor(1), [](double z, double y) { return z - y; }).data)
          loss.data[0] += d * d;
        return cleave::model_value(loss);
      },
      [](auto const& b) -> gradients {
        auto const twice = [g = 2 * b.gradient().data[0]](double z, double y) { return g * (z - y); };
        return {zipped(b.forward.tensor(0), b.forward.tensor(1), twice), {}};
      });
  return framework(table);
}
// [operators]

/// The model as a graph. `graph_from_json` reads one that a framework has written.
cleave::module_graph make_model() {
  using enum cleave::node_kind;
  cleave::module_graph g;
  auto const add = [&](cleave::node_kind kind, std::string const& name, std::string const& target,
                       std::vector<std::uint32_t> const& reads = {}) {
    cleave::module_node n;
    n.kind = kind;
    n.name = name;
    n.target = target;
    for (auto const r : reads) n.args.push_back(cleave::node_argument(r));
    return g.add(std::move(n));
  };
  for (auto const path : {"w1", "w2"})
    g.add_attribute({path, cleave::module_attribute::kind::parameter, {}, {}, {}, {}});
  auto const x = add(placeholder, "x", "x"), y = add(placeholder, "y", "y");
  auto const h = add(call_function, "h", "matmul", {x, add(get_attr, "w1", "w1")});
  auto const t = add(call_function, "t", "tanh", {h});
  auto const z = add(call_function, "z", "matmul", {t, add(get_attr, "w2", "w2")});
  add(output, "output", "output", {add(call_function, "loss", "squared_error", {z, y})});
  return g;
}

int main() {
  // [train]
  auto const model = make_model();
  auto const pipe = cleave::make_module_pipe(model, {}, [](auto const& s) { return cleave::balance(s, 2); });

  std::map<std::string, tensor> const weights{{"w1", {{2, 3}, {0.5, -0.2, 0.1, 0.3, 0.8, -0.5}}},
                                              {"w2", {{3, 1}, {0.4, -0.6, 0.9}}}};
  std::vector<cleave::model_inputs<framework::tensor>> batch;  // four microbatches of two rows: y = x0 - x1
  for (double const a : {0.1, 0.4, 0.7, 1.0})
    batch.push_back(cleave::positional_inputs<framework::tensor>(tensor({2, 2}, {a, 0.5, -a, 0.2}),
                                                                 tensor({2, 1}, {a - 0.5, -a - 0.2})));

  cleave::stage_engine engine(pipe, make_framework(), weights, batch, cleave::gradient_descent{.rate = 0.05});
  auto run = cleave::make_pipeline(engine, cleave::one_f_one_b(2, 4));
  for (int step = 0; step < 32; ++step) {
    run.step(batch);
    run.update();
    double loss = 0;
    for (std::uint32_t m = 0; m < 4; ++m)
      loss += *static_cast<double*>(run.loss(cleave::microbatch_id{m})->data);
    if ((step & (step + 1)) == 0)
      std::cout << "step " << step << ": loss " << std::setprecision(3) << loss << '\n';
  }
  // [train]
}

// It prints:
//
//   step 0: loss 1.12
//   step 1: loss 0.333
//   step 3: loss 0.0448
//   step 7: loss 0.0058
//   step 15: loss 0.0019
//   step 31: loss 0.00185
