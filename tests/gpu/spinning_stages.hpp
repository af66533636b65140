// SPDX-License-Identifier: MIT
#pragma once
#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "cleave/core/dataflow.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/cuda/callable_stage.hpp"
#include "cleave/cuda/check.hpp"
#include "cleave/cuda/device.hpp"
#include "cleave/cuda/threads.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/edge_layout.hpp"
#include "cleave/run/program/make_rank_program.hpp"
#include "cleave/run/program/step_plan.hpp"
#include "cleave/run/program/step_values.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "gpu/spin.hpp"

namespace cleave::testing {

using namespace detail;

/// How long passes of a stage take on a GPU: a backward pass that is split takes half of it in each half.
struct pass_lengths {
  std::chrono::nanoseconds forward{0}, backward{0};
};

/// Stages that keep a GPU busy for as long as they are told, and compute nothing. Of no length, they are
/// empty kernels.
class spinning_bodies {
 public:
  using views = std::span<tensor_view const>;

  explicit spinning_bodies(pass_lengths l) : lengths_(l) {}

  void forward(cudaStream_t s, stage_pass const&, views, std::span<tensor_view>) {
    spin(s, lengths_.forward);
  }
  void backward(cudaStream_t s, stage_pass const&, views, views) { spin(s, lengths_.backward); }
  void backward_input(cudaStream_t s, stage_pass const&, views, views) { spin(s, lengths_.backward / 2); }
  void backward_weight(cudaStream_t s, stage_pass const&) { spin(s, lengths_.backward / 2); }
  bool records() const { return true; }

 private:
  static void spin(cudaStream_t s, std::chrono::nanoseconds length) {
    launch_spin(s, static_cast<std::uint64_t>(length.count()));
    cleave::cuda::check(cudaGetLastError(), "launch of spin_kernel");
  }

  pass_lengths lengths_;
};

using spinning_stages = cleave::cuda::callable_stage<spinning_bodies>;

/// What a schedule computes, with values of `bytes` between stages. A caller gives the first stage one, and
/// reads the last.
struct spinning_model {
  dataflow t;
  run_layouts layouts;

  spinning_model(schedule const& s, std::int64_t bytes) {
    t.stages = s.place.stages();
    t.edges.push_back({the_caller, 0, stage_id{0}, 0});
    for (auto const& e : s.place.edges) t.edges.push_back({e.from, 0, e.to, 0});
    t.edges.push_back({stage_id{t.stages - 1}, 0, the_caller, 0});
    for (auto const& e : t.edges)
      layouts.edges.push_back({.type = element_type::f32,
                               .shape = {bytes / 4},
                               .gradient = e.from == the_caller || e.to == the_caller
                                               ? gradient_use::none
                                               : gradient_use::wanted});
  }
};

/// A schedule that runs on one GPU with such stages.
class spinning_run {
 public:
  spinning_run(schedule const& s, pass_lengths l, std::int64_t bytes = 4096)
      : model_(s, bytes),
        plan_(s, model_.t, model_.layouts, options_),
        input_(device_.allocate(static_cast<std::size_t>(bytes))),
        inputs_(s.microbatches, {input_.data(), element_type::f32, {bytes / 4}}),
        run_(std::make_unique<runner>(
            plan_, [l](rank_id, cleave::cuda::device&) { return spinning_stages(spinning_bodies(l)); },
            pipeline_options{.watchdog = {.limit = std::chrono::seconds(60)}})) {}

  void step() { run_->run_step({inputs_, 1, {}}); }
  step_plan const& plan() const { return plan_; }
  cleave::cuda::thread_pipeline<spinning_stages>& run() { return *run_; }

 private:
  using runner = cleave::cuda::thread_pipeline<spinning_stages>;

  program_options options_;
  spinning_model model_;
  step_plan plan_;
  cleave::cuda::device device_;
  cleave::cuda::buffer input_;
  std::vector<tensor_view> inputs_;
  std::unique_ptr<runner> run_;
};

}  // namespace cleave::testing
