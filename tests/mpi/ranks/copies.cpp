// SPDX-License-Identifier: MIT
#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "cleave/core/dataflow.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/mpi/device.hpp"
#include "cleave/mpi/pipeline.hpp"
#include "cleave/place/place_replicated.hpp"
#include "cleave/run/program/make_rank_program.hpp"
#include "cleave/run/program/step_plan.hpp"
#include "cleave/run/program/step_values.hpp"
#include "rank_case.hpp"

namespace cleave::testing {

namespace {

constexpr std::uint32_t layers = 5, microbatches = 12;

/// Layers that each multiply by a weight. The loss is the sum of all results. Numbers have so few digits in
/// two steps of training that nothing is rounded.
struct layer_weights {
  std::vector<double> weight = {1, 2, 1, 2, 1}, gradient = std::vector<double>(layers);

  /// Takes a step against the gradients, and clears them.
  void update() {
    for (std::uint32_t l = 0; l < layers; ++l) {
      weight[l] -= gradient[l] / 256;
      gradient[l] = 0;
    }
  }
};

/// The copy of a stage on a rank, which runs that stage for one or more chains.
class layer_stages {
 public:
  using stream = mpi::device::stream;
  using views = std::span<tensor_view const>;

  explicit layer_stages(replicated_placement const& p) : stages_(p.stages) {
    for (auto const& s : stages_) {
      auto& of = regions_.emplace_back();
      for (auto l = s.begin; l < s.end; ++l) of.push_back({&own.gradient[l], 1, element_type::f64});
    }
  }
  layer_stages(layer_stages&& other) = default;  // the gradients stay where they are

  void forward(stream&, stage_pass const& p, views in, std::span<tensor_view> out) {
    auto x = number(in[0]);
    for (auto l = stage(p).begin; l < stage(p).end; ++l) {
      kept_[{index(p.stage), index(p.microbatch), l}] = x;
      x *= own.weight[l];
    }
    number(out[0]) = x;
  }
  void backward(stream&, stage_pass const& p, views gradients, views in) {
    double g = p.from_loss ? 1 : number(gradients[0]);
    for (auto l = stage(p).end; l-- > stage(p).begin;) {
      own.gradient[l] += g * kept_[{index(p.stage), index(p.microbatch), l}];
      g *= own.weight[l];
    }
    if (in[0].data) number(in[0]) = g;
  }
  std::span<region const> gradients(stage_id s) { return regions_[index(s) % stages_.size()]; }

  layer_weights own;

 private:
  static double& number(tensor_view const& v) { return *static_cast<double*>(v.data); }
  replicated_stage const& stage(stage_pass const& p) const {
    return stages_[index(p.stage) % stages_.size()];
  }

  std::vector<replicated_stage> stages_;
  std::vector<std::vector<region>> regions_;
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, double> kept_;
};

/// Adds to the gradients of all layers those of a batch, one microbatch after the other.
void train_uncut(layer_weights& of, std::vector<double> const& batch) {
  for (auto x : batch) {
    std::vector<double> read;
    for (auto const w : of.weight) {
      read.push_back(x);
      x *= w;
    }
    double g = 1;
    for (auto l = layers; l-- > 0;) {
      of.gradient[l] += g * read[l];
      g *= of.weight[l];
    }
  }
}

/// Places layers of which the middle one takes long, and has little to sum.
replicated_placement place_layers(std::uint32_t devices) {
  placement_row row;
  row.units.cost = {{0, 0, 0, 0, 0}};
  row.units.resident = {0};
  for (std::uint32_t l = 0; l < layers; ++l) {
    auto sum = row.units.cost.back();
    sum.forward += l == 2 ? 18 : 2;
    sum.backward += l == 2 ? 18 : 2;
    row.units.cost.push_back(sum);
    row.units.resident.push_back(row.units.resident.back() + (l == 2 ? 100 : 100'000));
  }
  row.units.crossing.assign(layers + 1, {sizeof(double), sizeof(double)});
  row.units.crossing.front() = row.units.crossing.back() = {};
  return place_replicated(
      row, {.devices = devices, .link = {0.2, 1e3}, .microbatches = microbatches, .summed = 1});
}

/// The edges of the chains, each from the caller through all stages and back.
dataflow edges_of(replicated_placement const& p) {
  auto const stages = static_cast<std::uint32_t>(p.stages.size());
  dataflow made{.stages = stages * p.chains(), .edges = {}};
  for (std::uint32_t c = 0; c < p.chains(); ++c) {
    stage_id const first{c * stages}, last{c * stages + stages - 1};
    made.edges.push_back({the_caller, c, first, 0});
    for (auto s = index(first); s < index(last); ++s)
      made.edges.push_back({stage_id{s}, 0, stage_id{s + 1}, 0});
    made.edges.push_back({last, 0, the_caller, c});
  }
  return made;
}

}  // namespace

/// Trains a placement with copies for two steps, and compares the gradients of each with those of an uncut
/// run.
int train_copies(cleave::mpi::environment& mpi, rank_arguments) {
  auto const placed = place_layers(mpi.size());
  must(placed.stages.size() == 3 && placed.stages[1].width == 2 && placed.unused == 0, "widths of 1, 2, 1");
  auto const edges = edges_of(placed);
  step_plan const plan(schedule_of(placed), edges,
                       {.edges = {edges.edges.size(), {.type = element_type::f64, .shape = {1}}}});
  cleave::mpi::pipeline_options how;
  for (std::uint32_t s = 0; s < placed.stages.size(); ++s)
    for (auto l = placed.stages[s].begin; l < placed.stages[s].end && placed.stages[s].width > 1; ++l) {
      auto& tie = how.run.ties.emplace_back();
      for (auto const copy : copies_of(placed, s)) tie.push_back({copy, l - placed.stages[s].begin});
    }
  cleave::mpi::pipeline<layer_stages> run(plan, layer_stages(placed), how);

  std::vector<double> batch(microbatches);
  std::vector<tensor_view> inputs;
  for (auto& x : batch) {
    x = static_cast<double>(inputs.size());
    inputs.push_back({&x, element_type::f64, {1}});
  }
  layer_weights uncut;
  for (int step = 0; step < 2; ++step) {
    run.run_step({.inputs = inputs, .inputs_of_each = placed.chains()});
    train_uncut(uncut, batch);
    auto& own = run.stages().own;
    for (std::uint32_t s = 0; s < placed.stages.size(); ++s) {
      auto const& stage = placed.stages[s];
      auto const copy = index(mpi.rank()) - placed.first_rank(s);
      for (auto l = stage.begin; l < stage.end && copy < stage.width; ++l)
        must(own.gradient[l] == uncut.gradient[l], "the gradients of the uncut run");
    }
    own.update();
    uncut.update();
  }
  say("a copy trains");
  return 0;
}

}  // namespace cleave::testing
