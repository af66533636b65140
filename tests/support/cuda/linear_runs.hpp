// SPDX-License-Identifier: MIT
#pragma once
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/cuda/device.hpp"
#include "cleave/cuda/threads.hpp"
#include "cleave/run/program/make_rank_program.hpp"
#include "cleave/run/program/step_plan.hpp"
#include "cleave/run/program/step_values.hpp"
#include "support/cuda/linear_bodies.hpp"
#include "support/linear_chain.hpp"
#include "support/linear_engine.hpp"

namespace cleave::testing {

using namespace detail;

/// The caller's inputs of a step, in GPU memory.
class cuda_step {
 public:
  cuda_step(cleave::cuda::device& d, step_values const& on_host) : values_(on_host) {
    for (auto const& v : on_host.inputs) {
      auto const r = v.elements();
      auto& b = memory_.emplace_back(d.allocate(r.bytes()));
      cleave::cuda::check(cudaMemcpy(b.data(), r.data, r.bytes(), cudaMemcpyHostToDevice), "cudaMemcpy");
      inputs_.push_back({b.data(), v.type, v.shape});
    }
    values_.inputs = inputs_;
  }
  step_values const& values() const { return values_; }

 private:
  std::vector<cleave::cuda::buffer> memory_;
  std::vector<tensor_view> inputs_;
  step_values values_;
};

/// Returns the elements of a GPU tensor.
inline std::vector<double> numbers_on_host(tensor_view const& v) {
  std::vector<double> n(v.elements().count);
  cleave::cuda::check(cudaMemcpy(n.data(), v.data, v.elements().bytes(), cudaMemcpyDeviceToHost),
                      "cudaMemcpy");
  return n;
}

/// The outcome of a step: all results by microbatch and number (empty if no stage makes one), and all
/// gradients.
struct linear_outcome {
  std::vector<std::vector<std::optional<std::vector<double>>>> results;
  std::vector<linear_gradient> gradients;

  bool operator==(linear_outcome const&) const = default;
};

inline std::uint32_t results_of(dataflow const& t) {
  std::uint32_t n = 0;
  for (auto const& e : t.edges)
    if (e.to == the_caller) n = std::max(n, e.input + 1);
  return n;
}

/// Returns the outcome of a run that has just made a step. `read(view)` returns the elements of a tensor.
template <class Run, class Read, class Gradient>
linear_outcome outcome_of(Run& run, step_plan const& p, linear_model const& m, Read read, Gradient gradient) {
  linear_outcome made;
  for (std::uint32_t i = 0; i < m.rows.size(); ++i) {
    auto& of = made.results.emplace_back();
    for (std::uint32_t n = 0; n < results_of(m.t); ++n) {
      auto const v = run.result(microbatch_id{i}, n);
      of.push_back(v ? std::optional(read(*v)) : std::nullopt);
    }
  }
  for (std::uint32_t s = 0; s < m.t.stages; ++s)
    made.gradients.push_back(gradient(run.stages_of(p.rank_of(stage_id{s})), stage_id{s}));
  return made;
}

/// Returns the outcome of the same steps on the host, which a GPU must match bit by bit.
inline linear_outcome outcome_on_host(step_plan const& p, linear_model const& m, std::size_t steps = 1,
                                      pipeline_options const& options = {}) {
  std::vector<linear_engine> engines(p.order().ranks.size() * options.replicas, linear_engine(m.stages, {}));
  thread_pipeline<linear_engine> run(p, std::move(engines), options);
  std::vector<step_values> const values(options.replicas, m.values());
  while (steps-- > 0) run.run_step(values);
  return outcome_of(
      run, p, m,
      [](tensor_view const& v) {
        auto const* const n = static_cast<double const*>(v.data);
        return std::vector(n, n + v.elements().count);
      },
      [](linear_engine& e, stage_id s) { return e.gradient(s); });
}

using cuda_linear_run = cleave::cuda::thread_pipeline<cuda_linear_engine>;

inline auto linear_engines(linear_model const& m, std::function<void(stage_pass const&)> prepare = {}) {
  return [&m, prepare](rank_id, cleave::cuda::device& d) {
    return cuda_linear_engine(linear_bodies(d, m.stages, prepare));
  };
}

inline linear_outcome outcome_of(cuda_linear_run& run, step_plan const& p, linear_model const& m) {
  return outcome_of(run, p, m, numbers_on_host,
                    [](cuda_linear_engine& e, stage_id s) { return e.bodies().gradient(s); });
}

}  // namespace cleave::testing
