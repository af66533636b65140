// SPDX-License-Identifier: MIT
// Cuts a transformer's graph into stages, and trains them in libtorch with three schedules; then trains four
// copies of the whole graph, each on its own samples (DDP). Losses must equal those of the same model written
// in libtorch and trained as a whole. The stages run on threads, or in four processes:
// mpirun -n 4 libtorch_train_graph mpi
#include <torch/torch.h>

#include <algorithm>
#include <cleave/engine.hpp>
#include <cleave/modules.hpp>
#include <cleave/partition.hpp>
#include <cleave/pipe.hpp>
#include <cleave/schedule.hpp>
#include <cleave/torch.hpp>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#if __has_include(<mpi.h>)
#include <cleave/mpi.hpp>
#endif

namespace {

constexpr std::int64_t vocabulary = 32, width = 32, blocks = 8, context = 16, rows = 2;
constexpr std::uint32_t ranks = 4, microbatches = 8, steps = 20;
constexpr double learning_rate = 3e-3, most_difference = 1e-9;

using weights = std::map<std::string, torch::Tensor>;
using inputs = cleave::model_inputs<torch::Tensor>;

weights random_weights() {
  torch::manual_seed(1);
  auto const random = [](std::vector<std::int64_t> const& shape) {
    return torch::randn(shape, torch::kFloat64) / std::sqrt(static_cast<double>(width));
  };
  weights w{{"table", random({vocabulary, width})}, {"head", random({vocabulary, width})}};
  for (std::int64_t i = 0; i < blocks; ++i) {
    auto const block = "block" + std::to_string(i) + ".";
    w[block + "norm"] = torch::ones({width}, torch::kFloat64);
    w[block + "up"] = random({4 * width, width});
    w[block + "bias"] = random({4 * width});
    w[block + "down"] = random({width, 4 * width});
  }
  return w;
}

// [graph]
/// The model as torch.export would write it.
cleave::module_graph make_graph(weights const& w) {
  using enum cleave::node_kind;
  cleave::module_graph g;
  auto const add = [&](cleave::node_kind kind, std::string const& target,
                       std::vector<cleave::module_argument> args = {}) {
    cleave::module_node n;
    n.kind = kind;
    n.target = target;
    n.name = target + "_" + std::to_string(g.list().size());
    n.args = std::move(args);
    return cleave::node_argument(g.add(std::move(n)));
  };
  auto const call = [&](std::string const& target, std::vector<cleave::module_argument> args) {
    return add(call_function, "aten." + target, std::move(args));
  };
  for (auto const& [path, value] : w)
    g.add_attribute({path, cleave::module_attribute::kind::parameter, {}, {}, {}, {}});
  cleave::module_argument const by_width{cleave::container{cleave::container::kind::list, 1}, width};
  cleave::module_argument const in_a_row{cleave::container{cleave::container::kind::list, 1},
                                         std::int64_t{-1}};

  auto const characters = add(placeholder, "characters"), next = add(placeholder, "next");
  auto h = call("embedding.default", {add(get_attr, "table"), characters});
  for (std::int64_t i = 0; i < blocks; ++i) {
    auto const block = "block" + std::to_string(i) + ".";
    auto const n = call("layer_norm.default", {h, by_width, add(get_attr, block + "norm")});
    auto const u = call("linear.default", {n, add(get_attr, block + "up"), add(get_attr, block + "bias")});
    auto const d = call("linear.default", {call("gelu.default", {u}), add(get_attr, block + "down")});
    h = call("add.Tensor", {h, d});
  }
  auto const logits =
      call("flatten.using_ints",
           {call("linear.default", {h, add(get_attr, "head")}), {std::int64_t{0}}, {std::int64_t{1}}});
  add(output, "output",
      {call("cross_entropy_loss.default", {logits, call("reshape.default", {next, in_a_row})})});
  return g;
}
// [graph]

/// The same model in libtorch's own words.
torch::Tensor loss_of(weights const& w, torch::Tensor const& characters, torch::Tensor const& next) {
  auto h = torch::embedding(w.at("table"), characters);
  for (std::int64_t i = 0; i < blocks; ++i) {
    auto const block = "block" + std::to_string(i) + ".";
    auto const n = torch::layer_norm(h, {width}, w.at(block + "norm"));
    h = h + torch::linear(torch::gelu(torch::linear(n, w.at(block + "up"), w.at(block + "bias"))),
                          w.at(block + "down"));
  }
  return torch::cross_entropy_loss(torch::linear(h, w.at("head")).flatten(0, 1), next.reshape({-1}));
}

/// The microbatches of a step: rows that count up by one, two or three.
std::vector<std::pair<torch::Tensor, torch::Tensor>> lesson(std::uint32_t step) {
  std::vector<std::pair<torch::Tensor, torch::Tensor>> made;
  for (std::int64_t m = 0; m < microbatches; ++m) {
    auto const first = m + static_cast<std::int64_t>(step);
    auto const by = 1 + (torch::arange(rows, torch::kInt64) + first) % 3;
    auto const all = (torch::arange(context + 1, torch::kInt64) * by.unsqueeze(1) + 7 * first) % vocabulary;
    made.emplace_back(all.narrow(1, 0, context).contiguous(), all.narrow(1, 1, context).contiguous());
  }
  return made;
}
/// Returns the arguments of the model for `count` of these microbatches.
std::vector<inputs> inputs_of(std::uint32_t step, std::uint32_t first, std::uint32_t count) {
  std::vector<inputs> made;
  auto const all = lesson(step);
  for (auto m = first; m < first + count; ++m)
    made.push_back(cleave::positional_inputs<torch::Tensor>(all[m].first, all[m].second));
  return made;
}

/// Returns the losses of the whole model: by step, then by microbatch.
std::vector<std::vector<double>> train_whole(weights w) {
  std::vector<torch::Tensor> parameters;
  for (auto& [name, t] : w) parameters.push_back(t.requires_grad_());
  torch::optim::Adam adam(parameters, torch::optim::AdamOptions(learning_rate));
  std::vector<std::vector<double>> losses(steps);
  for (std::uint32_t step = 0; step < steps; ++step) {
    adam.zero_grad();
    for (auto const& [characters, next] : lesson(step)) {
      auto const loss = loss_of(w, characters, next);
      (loss / static_cast<double>(microbatches)).backward();
      losses[step].push_back(loss.item<double>());
    }
    adam.step();
  }
  return losses;
}

cleave::pipeline_options& options_of(cleave::on_threads& place) { return place.run; }
#if __has_include(<mpi.h>)
cleave::pipeline_options& options_of(cleave::mpi::on_processes& place) { return place.options.run; }
#endif

/// Returns the largest number that any process has.
double largest(cleave::on_threads const&, double here) { return here; }
#if __has_include(<mpi.h>)
double largest(cleave::mpi::on_processes const& place, double here) {
  MPI_Allreduce(MPI_IN_PLACE, &here, 1, MPI_DOUBLE, MPI_MAX, place.ranks);
  return here;
}
#endif

// [train]
/// Trains in stages, with as many copies of the pipeline as there are ranks for. Returns how far losses are
/// from those of the whole, at most; -1 if this process has none.
template <class Place>
double train_stages(cleave::schedule const& s, weights const& w,
                    std::vector<std::vector<double>> const& whole, Place place) {
  auto const graph = make_graph(w);
  auto const pipe = cleave::make_module_pipe(
      graph, {}, [&](auto const& nodes) { return cleave::balance(nodes, s.place.stages()); });
  cleave::torch::optimiser<torch::optim::Adam> adam(torch::optim::AdamOptions{learning_rate});
  auto const each = s.microbatches;
  cleave::stage_engine engine(pipe, cleave::torch::framework(), w, inputs_of(0, 0, each), adam);
  auto& options = options_of(place);
  options.replicas = ranks / s.place.ranks;
  auto const parameters = cleave::parameters_of(graph, [&](auto const& a) { return w.at(a.path).nbytes(); });
  auto const buckets =
      cleave::fill_buckets(graph, parameters, {.caps = {.cap = 100'000, .first_cap = 20'000}});
  options.buckets = engine.buckets(cleave::sent_parameters(buckets, parameters));
  auto run = cleave::make_pipeline(engine, s, place);
  std::uint32_t first = 0, here = place.local_replicas();
  if constexpr (requires { run.pipeline().place(); }) first = run.pipeline().place().data;
  std::vector<double> const equal(each, 1.0 / microbatches);
  double off = -1;
  for (std::uint32_t step = 0; step < steps; ++step) {
    run.step(inputs_of(step, first * each, here * each), {.weights = equal});
    run.update();
    for (std::uint32_t r = 0; r < here; ++r)
      for (std::uint32_t m = 0; m < each; ++m)
        if (auto const loss = run.loss(cleave::microbatch_id{m}, r)) {  // otherwise another process has it
          auto const by =
              std::abs(*static_cast<double const*>(loss->data) - whole[step][(first + r) * each + m]);
          off = std::isnan(by) ? HUGE_VAL : std::max(off, by);
        }
  }
  return off;
}
// [train]

template <class Place>
int compare(Place const& place, bool prints) {
  at::set_num_threads(1);  // each rank is one thread; more threads of libtorch would compete with them
  auto const w = random_weights();
  weights copies;
  for (auto const& [name, t] : w) copies[name] = t.clone();
  auto const whole = train_whole(copies);
  if (prints)
    std::printf("whole model, %u steps of %u microbatches: the loss goes from %.4f to %.4f\n", steps,
                microbatches, whole.front().front(), whole.back().front());
  bool equal = whole.back().front() < whole.front().front();
  for (auto const& [name, s] :
       {std::pair("1F1B", cleave::one_f_one_b(ranks, microbatches)),
        std::pair("Interleaved1F1B", cleave::interleaved_1f1b(ranks, 2, microbatches)),
        std::pair("ZBV", cleave::zbv(ranks, microbatches)),
        std::pair("DDP", cleave::gpipe(1, microbatches / ranks)),
        std::pair("DDP of 1F1B", cleave::one_f_one_b(ranks / 2, microbatches / 2))}) {
    double const off = largest(place, train_stages(s, w, whole, place));
    if (prints)
      std::printf("%-16s %u stages on %u ranks, %u copies   losses off by %.1e\n", name, s.place.stages(),
                  s.place.ranks, ranks / s.place.ranks, off);
    equal = equal && off >= 0 && off <= most_difference;
  }
  return equal ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace

int main(int count, char** words) {
#if __has_include(<mpi.h>)
  if (count > 1 && std::string_view(words[1]) == "mpi") {
    cleave::mpi::environment mpi;
    return mpi.run(
        [&] { return compare(cleave::mpi::on_processes{}, mpi.rank() == cleave::rank_id{ranks - 1}); });
  }
#endif
  if (count == 1) return compare(cleave::on_threads{}, true);
  std::fprintf(stderr, "usage: %s, or with MPI: mpirun -n 4 %s mpi\n", words[0], words[0]);
  return EXIT_FAILURE;
}
