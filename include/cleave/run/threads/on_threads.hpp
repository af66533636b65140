// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <utility>

#include "cleave/core/ids.hpp"
#include "cleave/run/executor/pipeline_options.hpp"
#include "cleave/run/host/host_threads.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/threads/thread_pipeline.hpp"

namespace cleave::inline v0_2 {

/// Where the ranks of a pipeline run, for `make_pipeline`: threads, MPI processes or GPUs.
/// - `P::device`: the device of a rank.
/// - `p.local_replicas()`: returns the number of replicas whose inputs this process gives to a step.
/// - `p.rules(o)`: returns the options of a plan, with what this transport requires.
/// - `p.make<S>(plan, options, make_stages)`: returns a pipeline. `options` is a function that adds to
///   `pipeline_options`, and `make_stages(rank, memory)` returns the stages of a rank of the plan.
template <class P>
concept pipeline_place = device<typename P::device> && requires(P const& p) {
  { p.local_replicas() } -> std::same_as<std::uint32_t>;
};

/// Runs the ranks of a pipeline as threads of this process.
template <thread_backend Backend>
struct on_threads_of {
  using device = typename Backend::device;

  pipeline_options run = {};
  Backend backend = {};

  std::uint32_t local_replicas() const { return run.replicas; }
  template <class Options>
  Options rules(Options o) const {
    return o;
  }
  template <class S, planned_step P, class Add, class F>
  auto make(P const& p, Add add, F make_stages) const {
    auto options = run;
    add(options);
    auto const ranks = static_cast<std::uint32_t>(p.order().ranks.size());
    return thread_pipeline<S, Backend>(
        p, [&](rank_id r, device& d) { return make_stages(rank_id{index(r) % ranks}, d); },
        std::move(options), backend);
  }
};

/// Runs the ranks as threads that compute on the host.
using on_threads = on_threads_of<host_threads>;

static_assert(pipeline_place<on_threads>);

}  // namespace cleave
