// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/core/one_or_each.hpp"
#include "cleave/run/host/host_device.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/tensor_view.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/simulate_options.hpp"
#include "cleave/schedule/model/stage_cost.hpp"

namespace cleave::inline v0_2 {

/// A stage whose passes take at least given times, to try a plan for slower machines on this one: each call
/// of `S` is followed by a sleep for the rest of its time. Calls of `custom` and `overlapped` are not.
template <class S>
  requires stage<S, host_device>
class paced_stage : public S {
 public:
  /// Takes the costs of `timing`, whose unit of time has the length `unit`. Costs that `timing` has no entry
  /// for add no time.
  paced_stage(S s, simulate_options const& timing,
              std::chrono::duration<double> unit = std::chrono::seconds(1))
      : S(std::move(s)), costs_(timing.costs), unit_(unit) {}

  void forward(host_device::stream& s, stage_pass const& p, std::span<tensor_view const> in,
               std::span<tensor_view> out) {
    pace const until(*this, action_kind::forward, p);
    S::forward(s, p, in, out);
  }
  void backward(host_device::stream& s, stage_pass const& p, std::span<tensor_view const> gradients,
                std::span<tensor_view const> in)
    requires detail::trained_stage<S, host_device>
  {
    pace const until(*this, action_kind::backward, p);
    S::backward(s, p, gradients, in);
  }
  void backward_input(host_device::stream& s, stage_pass const& p, std::span<tensor_view const> gradients,
                      std::span<tensor_view const> in)
    requires detail::split_backward_stage<S, host_device>
  {
    pace const until(*this, action_kind::input_gradient, p);
    S::backward_input(s, p, gradients, in);
  }
  void backward_weight(host_device::stream& s, stage_pass const& p)
    requires detail::split_backward_stage<S, host_device>
  {
    pace const until(*this, action_kind::weight_gradient, p);
    S::backward_weight(s, p);
  }
  void recompute(host_device::stream& s, stage_pass const& p, std::span<tensor_view const> in)
    requires detail::recomputed_stage<S, host_device>
  {
    pace const until(*this, action_kind::recompute, p);
    S::recompute(s, p, in);
  }

 private:
  using clock = std::chrono::steady_clock;

  /// Sleeps at its end until the time of a pass has passed.
  class pace {
   public:
    pace(paced_stage const& of, action_kind what, stage_pass const& p)
        : until_(clock::now() + of.time(what, p)) {}
    pace(pace const&) = delete;
    ~pace() { std::this_thread::sleep_until(until_); }

   private:
    clock::time_point until_;
  };

  clock::duration time(action_kind what, stage_pass const& p) const {
    if (costs_.empty()) return {};
    auto const units = detail::one_or_each(costs_).of(index(p.stage)).of(what);
    return std::chrono::duration_cast<clock::duration>(unit_ * units);
  }

  std::vector<stage_cost> costs_;
  std::chrono::duration<double> unit_;
};

}  // namespace cleave
