// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/schedule/model/schedule_names.hpp"

namespace cleave::inline v0_2::detail {

/// The time for which a message occupies a link, and until it arrives after that.
struct link_delay {
  double transfer = 0, latency = 0;
};

/// A stage of a chain: the times of its passes, of its activations on the way to the next stage, and of its
/// gradients on the way to the one before.
struct chain_stage {
  double forward = 0, backward = 0;
  link_delay activation = {}, gradient = {};
};

/// Simulates steps of chains of stages, each on a device of its own, without uplinks. Gives the makespan of
/// `simulate` for GPipe, 1F1B and ForwardOnly, in a small part of its time.
class chain_step {
 public:
  chain_step(schedule_family schedule, std::uint32_t microbatches)
      : schedule_(schedule), microbatches_(microbatches) {
    using enum schedule_family;
    expects(schedule == gpipe || schedule == one_f_one_b || schedule == forward_only,
            "chain_step: GPipe, 1F1B or ForwardOnly");
  }

  /// O(stages · microbatches).
  double makespan(std::vector<chain_stage> const& stages) {
    auto const k = stages.size();
    states_.assign(k, {});
    activations_.resize(k * microbatches_);
    gradients_.resize(k * microbatches_);
    // Activations move with the first sweep over the stages, gradients with the second.
    for (std::size_t unfinished = k; unfinished > 0;) {
      unfinished = 0;
      for (std::size_t s = 0; s < k; ++s) unfinished += advance(stages, s) ? 0u : 1u;
      for (std::size_t s = k; s-- > 0;) advance(stages, s);
    }
    double last = 0;
    for (auto const& state : states_) last = (std::max)(last, state.free);
    return last;
  }

 private:
  struct progress {
    std::size_t next = 0;                             // position in the list of the stage
    std::size_t activations = 0, gradients = 0;       // that have arrived
    double free = 0;                                  // time from which it can run the next pass
    double activations_left = 0, gradients_left = 0;  // times at which the last ones that it sent left
  };
  struct pass {
    bool is_backward;
    std::size_t microbatch;
  };

  /// Returns the pass at a position in the list of stage `s` of `k`.
  pass pass_at(std::size_t s, std::size_t k, std::size_t position) const {
    auto const m = microbatches_;
    if (schedule_ == schedule_family::forward_only) return {false, position};
    auto const first = schedule_ == schedule_family::gpipe ? m : (std::min)(m, k - s - 1);
    if (position < first) return {false, position};
    if (position >= first + 2 * (m - first)) return {true, position - m};
    auto const in_pairs = position - first;
    return in_pairs % 2 == 0 ? pass{false, first + in_pairs / 2} : pass{true, in_pairs / 2};
  }

  /// Runs the passes of stage `s` until one has to wait. Returns true if it has done all.
  bool advance(std::vector<chain_stage> const& stages, std::size_t s) {
    auto const k = stages.size();
    auto const all = schedule_ == schedule_family::forward_only ? microbatches_ : 2 * microbatches_;
    auto& here = states_[s];
    for (; here.next < all; ++here.next) {
      auto const [is_backward, i] = pass_at(s, k, here.next);
      auto begin = here.free;
      if (is_backward && s + 1 < k) {
        if (i >= here.gradients) return false;
        begin = (std::max)(begin, gradients_[s * microbatches_ + i]);
      } else if (!is_backward && s > 0) {
        if (i >= here.activations) return false;
        begin = (std::max)(begin, activations_[s * microbatches_ + i]);
      }
      here.free = begin + (is_backward ? stages[s].backward : stages[s].forward);
      if (is_backward && s > 0) {
        gradients_[(s - 1) * microbatches_ + i] = sent(stages[s].gradient, here.free, here.gradients_left);
        ++states_[s - 1].gradients;
      } else if (!is_backward && s + 1 < k) {
        activations_[(s + 1) * microbatches_ + i] =
            sent(stages[s].activation, here.free, here.activations_left);
        ++states_[s + 1].activations;
      }
    }
    return true;
  }

  /// Returns the arrival of a message that is ready at a time. Messages leave one after the other.
  static double sent(link_delay const& link, double ready, double& left) {
    if (link.transfer > 0) ready = left = (std::max)(ready, left) + link.transfer;
    return ready + link.latency;
  }

  schedule_family schedule_;
  std::size_t microbatches_;
  std::vector<progress> states_;
  std::vector<double> activations_, gradients_;  // times of arrival, by stage and microbatch
};

}  // namespace cleave::detail
