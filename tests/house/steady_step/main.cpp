// SPDX-License-Identifier: MIT
// A step allocates nothing, from the second on: neither for passes and messages nor for sums of gradients. A
// run of many stages and microbatches takes little memory for each, from its schedule to the end of a step.
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "cleave/run/program/make_rank_program.hpp"
#include "cleave/run/threads/thread_pipeline.hpp"
#include "cleave/schedule/families/generate.hpp"

extern std::atomic<std::size_t> allocations;  // so far, of the program
extern std::atomic<std::size_t> most_bytes;   // in use at a time, since it was last set

namespace {

/// Does nothing to its input, a single number.
struct idle_stages {
  using views = std::span<cleave::tensor_view const>;
  using stream = cleave::host_device::stream;

  void forward(stream&, cleave::stage_pass const&, views, std::span<cleave::tensor_view>) {}
  void backward(stream&, cleave::stage_pass const&, views, views) {}
  void backward_input(stream&, cleave::stage_pass const&, views, views) {}
  void backward_weight(stream&, cleave::stage_pass const&) {}
  std::span<cleave::region const> gradients(cleave::stage_id) {
    region = {&gradient, 1, cleave::element_type::f64};
    return {&region, 1};
  }

  double gradient = 0;
  cleave::region region = {};
};

/// Allocations of the third step.
std::size_t allocations_of(cleave::schedule_family family, std::uint32_t stages_per_rank) {
  auto const s = make_schedule(family, {2, stages_per_rank, 8});
  cleave::dataflow t{.stages = s.place.stages(), .edges = {{cleave::the_caller, 0, cleave::stage_id{0}, 0}}};
  for (auto const& e : s.place.edges) t.edges.push_back({e.from, 0, e.to, 0});
  cleave::edge_layout const number{.type = cleave::element_type::f64, .shape = {1}};
  cleave::step_plan const plan(s, t, {std::vector(t.edges.size(), number), {}});
  std::vector<cleave::tied_gradients> const ties{{{cleave::stage_id{0}, 0}, {cleave::stage_id{1}, 0}}};
  cleave::thread_pipeline<idle_stages> run(plan, std::vector<idle_stages>(4), {.replicas = 2, .ties = ties});
  double x = 0;
  std::vector<cleave::tensor_view> const inputs(8, {&x, cleave::element_type::f64, {1}});
  std::vector<cleave::step_values> const values(2, {.inputs = inputs, .inputs_of_each = 1});
  run.run_step(values);
  run.run_step(values);
  std::size_t const before = allocations;
  run.run_step(values);
  return allocations - before;
}

/// Most bytes in use at a time for each stage and microbatch, from the schedule to the end of a step.
std::size_t bytes_of(std::uint32_t ranks, std::uint32_t microbatches) {
  most_bytes = 0;
  auto s = make_schedule(cleave::schedule_family::one_f_one_b, {ranks, 1, microbatches});
  cleave::dataflow t{.stages = s.place.stages(), .edges = {{cleave::the_caller, 0, cleave::stage_id{0}, 0}}};
  for (auto const& e : s.place.edges) t.edges.push_back({e.from, 0, e.to, 0});
  cleave::edge_layout const number{.type = cleave::element_type::f64, .shape = {1}};
  cleave::step_plan const plan(s, t, {std::vector(t.edges.size(), number), {}});
  cleave::thread_pipeline<idle_stages> run(plan, std::vector<idle_stages>(ranks));
  double x = 0;
  std::vector<cleave::tensor_view> const inputs(microbatches, {&x, cleave::element_type::f64, {1}});
  run.run_step({.inputs = inputs, .inputs_of_each = 1});
  return most_bytes / ranks / microbatches;
}

}  // namespace

int main() {
  std::size_t wrong = 0;
  for (auto const& [family, stages] : {std::pair(cleave::schedule_family::one_f_one_b, 1u),
                                       std::pair(cleave::schedule_family::interleaved_1f1b, 2u),
                                       std::pair(cleave::schedule_family::zbv, 2u)}) {
    auto const n = allocations_of(family, stages);
    std::printf("%s: %zu allocations in a step\n", std::string(cleave::name_of(family)).c_str(), n);
    wrong += n > 0;
  }
  auto const bytes = bytes_of(60, 600);
  std::printf("60 stages, 600 microbatches: %zu bytes for each\n", bytes);
  wrong += bytes > 550;
  return wrong == 0 && allocations > 0 ? 0 : 1;
}
