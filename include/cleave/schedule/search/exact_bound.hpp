// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <vector>

#include "cleave/schedule/list/backward_choice.hpp"
#include "cleave/schedule/list/pass_timer.hpp"
#include "cleave/schedule/list/placed_step.hpp"
#include "cleave/schedule/search/exact_state.hpp"

namespace cleave::detail {

/// The time before which no end of a beginning is over.
class exact_bound {
 public:
  exact_bound(placed_step const& step, backward_choice form)
      : step_(step), back_(step.stages.size()), up_(step.stages.size()), down_(step.stages.size()) {
    for (auto const s : step.order) {
      back_[s] = least_backward_of(step.stages[s].cost, form);
      up_[s] = back_[s].rest;
      for (auto const e : step.stages[s].before) {
        auto const to = step.feeding(e);
        up_[s] = (std::max)(up_[s], step.backward[e].delay + back_[to].first + up_[to]);
      }
    }
    for (auto it = step.order.rbegin(); it != step.order.rend(); ++it) {
      down_[*it] = back_[*it].first + up_[*it];
      for (auto const e : step.stages[*it].after) {
        auto const to = step.fed(e);
        down_[*it] = (std::max)(down_[*it], step.forward[e].delay + step.stages[to].cost.forward + down_[to]);
      }
    }
  }

  double of(exact_state const& state) const {
    double most = 0;
    for (std::size_t r = 0; r < step_.locals.size(); ++r) {
      double gradients = 0, rest = 0, up = no_end;
      for (auto const s : step_.locals[r]) {
        auto const m = step_.microbatches;
        auto const& cost = step_.stages[s].cost;
        auto const forward = m - state.forward(s), gradient = m - state.gradient(s);
        gradients += forward * cost.forward + gradient * back_[s].first;
        rest += gradient * back_[s].rest + state.put_off(s) * cost.weight_gradient;
        if (gradient > 0) up = (std::min)(up, up_[s]);
        if (auto const t = state.forward_ready(step_, s); t < no_end)
          most = (std::max)(most, t + forward * cost.forward + down_[s]);
        if (auto const t = state.gradient_ready(step_, s); t < no_end)
          most = (std::max)(most, t + gradient * back_[s].first + up_[s]);
      }
      most = (std::max)(most, state.times[r] + gradients + rest);
      if (up < no_end) most = (std::max)(most, state.times[r] + gradients + up);
    }
    return most;
  }

 private:
  placed_step const& step_;
  std::vector<least_backward> back_;
  std::vector<double> up_,
      down_;  // from the end of a stage's gradient, of its forward pass, until all is over
};

}  // namespace cleave::detail
