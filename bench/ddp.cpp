// SPDX-License-Identifier: MIT
// Measures how much of the sum of gradients over replicas is hidden behind the backward pass. Each MPI
// process is a replica of a model of equal layers. The backward pass of a layer takes a given time, on the
// processor or on a device that leaves the processor idle; then the gradient of the layer is complete.
//
//   mpirun -n RANKS bench_ddp [LAYERS [MEBIBYTES [MILLISECONDS]]]   of a layer: its gradient, its backward pass
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "busy_stages.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/mpi/environment.hpp"
#include "cleave/mpi/pipeline.hpp"
#include "cleave/partition/buckets/module_buckets.hpp"
#include "cleave/run/program/make_rank_program.hpp"
#include "cleave/schedule/families/gpipe.hpp"
#include "measure.hpp"
#include "slowest_rank.hpp"

namespace {

using namespace cleave;
using namespace cleave::detail;
using buckets = std::vector<gradient_bucket>;

enum class computes : std::uint8_t { on_processor, on_device };

struct model_size {
  std::uint32_t layers = 24;
  double mebibytes = 0.5, milliseconds = 6;

  std::size_t bytes() const { return static_cast<std::size_t>(mebibytes * (1 << 18)) * sizeof(float); }
};

/// One stage of equal layers. It reports the gradient of each layer, the last one first.
class layered_stage {
 public:
  layered_stage(model_size const& m, computes where)
      : model_(m), where_(where), numbers_(m.layers * m.bytes() / sizeof(float)) {
    auto const each = m.bytes() / sizeof(float);
    for (std::size_t n = 0; n < m.layers; ++n)
      regions_.push_back({&numbers_[n * each], each, element_type::f32});
  }
  void forward(mpi::device::stream&, stage_pass const&, std::span<tensor_view const>,
               std::span<tensor_view> out) {
    for (auto const& v : out) *static_cast<double*>(v.data) = 0;
  }
  void backward(mpi::device::stream&, stage_pass const& p, std::span<tensor_view const>,
                std::span<tensor_view const>) {
    for (auto n = model_.layers; n-- > 0;) {
      compute(model_.milliseconds / 1e3);
      p.ready(n);
    }
  }
  std::span<region const> gradients(stage_id) const { return regions_; }

 private:
  void compute(double seconds) const {
    if (where_ == computes::on_processor) return bench::compute(seconds);
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  }

  model_size model_;
  computes where_;
  std::vector<float> numbers_;
  std::vector<region> regions_;
};

/// The model as a graph, with a parameter `layerN.weight` for each layer.
module_graph graph_of(model_size const& m) {
  module_graph g;
  module_node n;
  n.kind = node_kind::placeholder;
  n.name = n.target = "x";
  auto x = g.add(n);
  for (std::uint32_t i = 0; i < m.layers; ++i) {
    n.kind = node_kind::call_module;
    n.name = n.target = "layer" + std::to_string(i);
    n.args = {node_argument(x)};
    g.add_attribute({n.target, module_attribute::kind::module, {}, {}, {}, {}});
    g.add_attribute({n.target + ".weight", module_attribute::kind::parameter, {}, {}, {}, {}});
    x = g.add(n);
  }
  n.kind = node_kind::output;
  n.name = n.target = "output";
  n.args = {node_argument(x)};
  g.add(n);
  return g;
}

/// The buckets of a plan for the graph.
buckets buckets_of(std::vector<module_bucket> const& plan, model_parameters const& parameters) {
  buckets made;
  for (auto const& names : sent_parameters(plan, parameters)) {
    auto& b = made.emplace_back(gradient_bucket{stage_id{0}, {}});
    for (auto const& name : names)
      b.gradients.push_back(static_cast<std::uint32_t>(std::stoul(name.substr(std::string("layer").size()))));
  }
  return made;
}

/// Seconds of a step on the slowest rank.
bench::spread step_seconds(layered_stage const& stage, mpi::pipeline_options how, gradient_end end,
                           buckets plan) {
  auto const s = gpipe(1, 1);
  auto const t = bench::chain_dataflow(s.place);
  program_options const options;
  step_plan const step(s, t, bench::one_number(t), options);
  how.run.buckets = std::move(plan);
  mpi::pipeline<layered_stage> run(step, stage, how);
  double number = 1;
  tensor_view const inputs[] = {{&number, element_type::f64, {1}}};
  step_values const values{.inputs = inputs, .inputs_of_each = 1, .gradients = end};
  run.run_step(values);
  return bench::slowest_rank_seconds(9, [&] { run.run_step(values); });
}

void print_rows(mpi::environment const& mpi, model_size const& m, computes where, mpi::progress progress) {
  layered_stage const stage(m, where);
  mpi::pipeline_options how;
  how.run.replicas = mpi.size();
  how.progress = progress;
  auto const time = [&](gradient_end end, buckets plan) {
    return step_seconds(stage, how, end, std::move(plan));
  };
  buckets all{{stage_id{0}, {}}};
  for (std::uint32_t n = 0; n < m.layers; ++n) all[0].gradients.push_back(n);

  auto const without = time(gradient_end::kept, {}), at_end = time(gradient_end::reduced, all);
  double const sum = at_end.median - without.median;
  double const could = std::min(sum, without.median * (m.layers - 1) / m.layers);
  auto const print = [&](std::string const& plan, std::size_t count, bench::spread const& t, bool hides) {
    if (mpi.rank() != rank_id{0}) return;
    std::printf("| %s | %s | %s | %zu | %.1f (%.1f to %.1f) |",
                where == computes::on_processor ? "processor" : "device",
                progress == mpi::progress::calls ? "calls" : "thread", plan.c_str(), count, 1e3 * t.median,
                1e3 * t.least, 1e3 * t.most);
    if (hides)
      std::printf(" %.1f | %.2f |\n", 1e3 * (at_end.median - t.median), (at_end.median - t.median) / could);
    else
      std::printf(" – | – |\n");
  };
  print("no sum", 0, without, false);
  print("one sum after the pass", 1, at_end, false);

  auto const g = graph_of(m);
  auto const parameters = parameters_of(g, [&](auto const&) { return m.bytes(); });
  double latency = 2e-4;
  double speed = static_cast<double>(m.layers * m.bytes()) / sum;
  // All ranks need the same plan.
  check_mpi(MPI_Bcast(&speed, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD));
  auto const print_plan = [&](std::string const& name, std::vector<module_bucket> const& plan) {
    auto const made = buckets_of(plan, parameters);
    print(name, made.size(), time(gradient_end::reduced, made), true);
  };
  print_plan("filled: 1 MiB, then 25 MiB", fill_buckets(g, parameters));
  print_plan("optimal for the link",
             fill_optimal_buckets(
                 g, parameters, [&](auto) { return m.milliseconds / 1e3; }, link_speed{speed, latency}));
  module_bucket_options each;
  each.caps = {.cap = 1, .first_cap = 1};
  print_plan("one for each layer", fill_buckets(g, parameters, each));
}

}  // namespace

int main(int count, char** arguments) {
  cleave::mpi::environment mpi;
  model_size m;
  if (count > 1) m.layers = static_cast<std::uint32_t>(std::strtoul(arguments[1], nullptr, 10));
  if (count > 2) m.mebibytes = std::strtod(arguments[2], nullptr);
  if (count > 3) m.milliseconds = std::strtod(arguments[3], nullptr);
  if (m.layers < 2 || m.bytes() == 0 || m.milliseconds <= 0) {
    std::fputs("bench_ddp: needs at least two layers, with gradients and time\n", stderr);
    return 1;
  }
  return mpi.run([&] {
    if (mpi.rank() == rank_id{0})
      std::printf(
          "%u replicas of %u layers, of %.2f MiB and %.1f ms each\n\n| the stage computes on a | messages "
          "progress "
          "by | buckets | number | step, ms: median (least to most) | hidden, ms | of what could be hidden "
          "|\n|---|---|---|---|---|---|---|\n",
          mpi.size(), m.layers, m.mebibytes, m.milliseconds);
    for (auto const where : {computes::on_device, computes::on_processor})
      for (auto const progress : {mpi::progress::calls, mpi::progress::thread})
        print_rows(mpi, m, where, progress);
    return 0;
  });
}
