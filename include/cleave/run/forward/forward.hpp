// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/transport.hpp"
#include "cleave/run/forward/forward_run.hpp"
#include "cleave/run/forward/host_clock.hpp"
#include "cleave/run/model/ports.hpp"

/// Microbatches through stages on host threads, forward only: one thread a stage, bounded queues between
/// them.
namespace cleave {

/// - `f(mb, in)`  the results of a stage that are read, from its inputs (a span it may move from), both in
///                the order of the transport.
/// Each function is called from one thread, for microbatch 0, 1, … in order.
template <class F, class Value>
concept forward_function = stage_value<Value> && requires(F& f, microbatch_id mb, std::span<Value> in) {
  { f(mb, in) } -> std::convertible_to<std::vector<Value>>;
};

struct forward_options {
  std::size_t capacity = 2;  ///< values that may wait on each edge between stages; at least 1
};

}  // namespace cleave

namespace cleave::detail {

/// Functions, one a stage, as a model of `stage` on the host.
template <class Value, forward_function<Value> F>
class function_stages {
 public:
  explicit function_stages(std::span<F> functions) : functions_(functions) {}

  void forward(host_clock::stream&, stage_id i, microbatch_id mb, std::span<Value> in, std::span<Value> out) {
    std::vector<Value> made = functions_[index(i)](mb, in);
    if (made.size() != out.size())
      throw error("returned " + std::to_string(made.size()) + " results, but the transport takes " +
                  std::to_string(out.size()));
    std::ranges::move(made, out.begin());
  }

 private:
  std::span<F> functions_;
};

/// How many inputs of the caller a transport names. O(edges).
inline std::uint64_t caller_inputs(transport const& t) {
  std::uint64_t n = 0;
  for (auto const& e : t.edges)
    if (e.from == the_caller) n = (std::max)(n, std::uint64_t{e.output} + 1);
  return n;
}

/// The first microbatch without all inputs that the transport names, or nothing. O(edges + microbatches).
template <class Value>
std::optional<microbatch_id> find_short_microbatch(transport const& t,
                                                   std::vector<std::vector<Value>> const& microbatches) {
  auto const needed = caller_inputs(t);
  for (std::size_t m = 0; m < microbatches.size(); ++m)
    if (microbatches[m].size() < needed) return microbatch_id{static_cast<std::uint32_t>(m)};
  return std::nullopt;
}

/// Begins a run of `stages`, which must outlive it, over `microbatches`: the caller's inputs of each, in the
/// order that the transport numbers them; more are ignored. A value with several readers is copied for all
/// but one, and a copy may be read while others are written: where copies share memory, stages write to new
/// memory.
/// \throws transport_error, error where the counts do not fit together.
template <stage_value Value, forward_function<Value> F>
forward_run<Value> start_forward(std::vector<F>& stages, transport const& t,
                                 std::vector<std::vector<Value>> microbatches,
                                 forward_options const& options = {}) {
  expects(microbatches.size() < index(the_caller), "start_forward: microbatches that an id can number");
  if (auto const f = find_transport_fault(t)) throw transport_error(*f);
  auto const number = [](auto n) { return std::to_string(n); };
  if (stages.empty()) throw error("forward run: there are no stages; give at least one");
  if (stages.size() != t.stages)
    throw error("forward run: " + number(stages.size()) + " stages are given, but the transport has " +
                number(t.stages));
  if (options.capacity == 0)
    throw error("forward run: capacity is 0; each edge needs room for one value at least");
  if constexpr (!std::copyable<Value>)
    if (auto const e = find_shared_edge(t))
      throw error("forward run: result #" + number(t.edges[*e].output) + " of " +
                  stage_text(t.edges[*e].from) +
                  " has several readers, but its type cannot be copied; stream a shared pointer to it");
  if (auto const m = find_short_microbatch(t, microbatches))
    throw error("forward run: microbatch " + number(index(*m)) + " has " +
                number(microbatches[index(*m)].size()) + " values, but the transport takes " +
                number(caller_inputs(t)));
  return forward_run<Value>(t, std::move(microbatches), options.capacity, function_stages<Value, F>(stages));
}

struct no_observer {
  void operator()(forward_progress const&) const {}
};

}  // namespace cleave::detail

namespace cleave {

/// Runs `stages` over `microbatches` to the end. Tells `observe` how far it is, on the calling thread: ten
/// times a second and once at the end, or at once when a stage has failed; the error itself leaves when the
/// stage calls that go on have ended. \throws as start_forward and forward_run::wait.
template <stage_value Value, forward_function<Value> F,
          std::invocable<forward_progress const&> Observe = detail::no_observer>
forward_report<Value> run_forward(std::vector<F>& stages, transport const& t,
                                  std::vector<std::vector<Value>> microbatches,
                                  forward_options const& options = {}, Observe observe = {}) {
  auto run = detail::start_forward(stages, t, std::move(microbatches), options);
  while (!run.wait_for(std::chrono::milliseconds(100))) observe(run.progress());
  observe(run.progress());
  return run.wait();
}

}  // namespace cleave
