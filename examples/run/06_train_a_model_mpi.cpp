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

#include "scalar_framework.hpp"

cleave::module_graph make_model() {
  using enum cleave::node_kind;
  cleave::module_graph g;
  for (auto const path : {"a", "b"})
    g.add_attribute({path, cleave::module_attribute::kind::parameter, {}, {}, {}, {}});
  auto const x = add_node(g, placeholder, "x", "x"), y = add_node(g, placeholder, "y", "y");
  auto const h = add_node(g, call_function, "h", "mul", {x, add_node(g, get_attr, "a", "a")});
  add_node(g, call_function, "cut", "pipe_split");
  auto const z = add_node(g, call_function, "z", "mul", {h, add_node(g, get_attr, "b", "b")});
  add_node(g, output, "output", "output", {add_node(g, call_function, "loss", "squared_error", {z, y})});
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
