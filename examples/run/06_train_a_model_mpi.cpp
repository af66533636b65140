// SPDX-License-Identifier: MIT
// Cuts a model into two stages and trains them on two MPI processes:
// mpirun -n 2 example_run_06_train_a_model_mpi
// The model is loss = (x a b - y)^2, as a graph.
#include <cleave/engine.hpp>
#include <cleave/mpi.hpp>
#include <cleave/pipe.hpp>
#include <cleave/schedule.hpp>
#include <cstdint>
#include <iomanip>
#include <iostream>
#include <map>
#include <string>
#include <vector>

using tensor = cleave::host_tensor<double>;
using gradients = cleave::operand_gradients<tensor>;
using framework = cleave::taped_operators<cleave::operator_table<cleave::host_tensors<double>>>;

double number(tensor const& t) { return t.data[0]; }

framework make_framework() {
  cleave::operator_table<cleave::host_tensors<double>> table;
  table.define(
      "mul",
      [](auto const& c) { return cleave::model_value(tensor(number(c.tensor(0)) * number(c.tensor(1)))); },
      [](auto const& b) -> gradients {
        double const g = number(b.gradient());
        return {tensor(g * number(b.forward.tensor(1))), tensor(g * number(b.forward.tensor(0)))};
      });
  table.define(
      "squared_error",
      [](auto const& c) {
        double const d = number(c.tensor(0)) - number(c.tensor(1));
        return cleave::model_value(tensor(d * d));
      },
      [](auto const& b) -> gradients {
        double const d = number(b.forward.tensor(0)) - number(b.forward.tensor(1));
        return {tensor(2 * d * number(b.gradient())), {}};
      });
  return framework(table);
}

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
  for (auto const path : {"a", "b"})
    g.add_attribute({path, cleave::module_attribute::kind::parameter, {}, {}, {}, {}});
  auto const x = add(placeholder, "x", "x"), y = add(placeholder, "y", "y");
  auto const h = add(call_function, "h", "mul", {x, add(get_attr, "a", "a")});
  add(call_function, "cut", "pipe_split");
  auto const z = add(call_function, "z", "mul", {h, add(get_attr, "b", "b")});
  add(output, "output", "output", {add(call_function, "loss", "squared_error", {z, y})});
  return g;
}

void train() {
  auto const model = make_model();
  auto const pipe = cleave::make_module_pipe(model);
  std::map<std::string, tensor> const weights{{"a", tensor(1)}, {"b", tensor(1)}};
  std::vector<cleave::model_inputs<framework::tensor>> batch;
  for (double const x : {1.0, 2.0, -1.0, 0.5})
    batch.push_back(cleave::positional_inputs<framework::tensor>(tensor(x), tensor(6 * x)));

  // [run]
  cleave::stage_engine engine(pipe, make_framework(), weights, batch,
                              cleave::gradient_descent{.rate = 0.005});
  auto run = cleave::make_pipeline(engine, cleave::one_f_one_b(2, 4), cleave::mpi::on_processes{});
  for (int step = 0; step < 5; ++step) {
    run.step(batch);
    run.update();
    double loss = 0;
    for (std::uint32_t m = 0; m < 4; ++m)
      if (auto const made = run.loss(cleave::microbatch_id{m}))  // on the rank of the last stage
        loss += *static_cast<double*>(made->data);
    if (run.pipeline().rank() == cleave::rank_id{1})
      std::cout << "loss " << std::setprecision(4) << loss << '\n';
  }
  // [run]
}

int main() {
  cleave::mpi::environment mpi;
  return mpi.run([] { return train(), 0; });
}

// It prints:
//
//   loss 156.2
//   loss 114.3
//   loss 65.33
//   loss 25.05
//   loss 5.51
