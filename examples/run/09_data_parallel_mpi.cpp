// SPDX-License-Identifier: MIT
// Trains a model on several MPI processes, each on its own samples (DDP):
// mpirun -n 2 example_run_09_data_parallel_mpi
// Gradients are summed in buckets, while the backward pass goes on. The model is loss = (x a b c - y)^2, as a
// graph.
#include <cleave/engine.hpp>
#include <cleave/modules.hpp>
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
  auto x = add_node(g, placeholder, "x", "x");
  auto const y = add_node(g, placeholder, "y", "y");
  for (std::string const path : {"a", "b", "c"}) {
    g.add_attribute({path, cleave::module_attribute::kind::parameter, {}, {}, {}, {}});
    x = add_node(g, call_function, "times_" + path, "mul", {x, add_node(g, get_attr, path, path)});
  }
  add_node(g, output, "output", "output", {add_node(g, call_function, "loss", "squared_error", {x, y})});
  return g;
}

void train(cleave::mpi::environment const& mpi) {
  auto const model = make_model();
  auto const pipe = cleave::make_module_pipe(model);  // one stage
  std::map<std::string, tensor> const weights{{"a", tensor(1)}, {"b", tensor(1)}, {"c", tensor(1)}};
  using batch = std::vector<cleave::model_inputs<framework::tensor>>;
  double const x = 1 + 0.5 * static_cast<double>(index(mpi.rank()));  // each process has its own samples
  batch const first{cleave::positional_inputs<framework::tensor>(tensor(x), tensor(6 * x))},
      second{cleave::positional_inputs<framework::tensor>(tensor(-x), tensor(-6 * x))};

  // [buckets]
  cleave::stage_engine engine(pipe, make_framework(), weights, first,
                              cleave::gradient_descent{.rate = 0.002});
  auto const parameters = cleave::parameters_of(model, [](auto const&) { return sizeof(double); });
  auto const plan = cleave::fill_buckets(model, parameters, {.caps = {.cap = 16, .first_cap = 8}});

  cleave::mpi::on_processes place;
  place.options.run.replicas = mpi.size();
  place.options.run.buckets = engine.buckets(cleave::sent_parameters(plan, parameters));
  place.options.progress = cleave::mpi::progress::thread;
  auto run = cleave::make_pipeline(engine, cleave::gpipe(1, 1), place);
  // [buckets]
  // [steps]
  for (int step = 0; step < 5; ++step) {
    run.step(first, {.gradients = cleave::gradient_end::kept});  // no_sync
    run.step(second);                                            // sums the gradients of both
    auto const done = run.update();
    if (mpi.rank() == cleave::rank_id{0})
      std::cout << "loss " << std::setprecision(4)
                << *static_cast<double*>(run.loss(cleave::microbatch_id{0})->data)
                << ", norm of the gradient " << done.norm << '\n';
  }
  // [steps]
}

int main() {
  cleave::mpi::environment mpi;
  return mpi.run([&] { return train(mpi), 0; });
}

// It prints:
//
//   loss 25, norm of the gradient 112.6
//   loss 20.77, norm of the gradient 131
//   loss 15.18, norm of the gradient 144
//   loss 8.8, norm of the gradient 140
//   loss 3.359, norm of the gradient 106.9
