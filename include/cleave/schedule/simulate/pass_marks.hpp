// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_needs.hpp"
#include "cleave/schedule/simulate/message_times.hpp"

namespace cleave::detail {

/// What is done of a stage for a microbatch.
enum class pass_mark : std::uint8_t { forward = 1, gradient = 2, half = 4 };

/// Which passes are done, and what each action needs: passes of its own rank, or messages. Stages and
/// microbatches are in range throughout.
class pass_marks {
 public:
  /// Refers to all three.
  pass_marks(schedule const& s, schedule_needs const& needs, message_times const& messages)
      : schedule_(s),
        needs_(needs),
        messages_(messages),
        done_(std::size_t{s.place.stages()} * s.microbatches) {}

  std::size_t pairs() const { return done_.size(); }
  /// The number of the stage and microbatch of an action.
  std::size_t pair_of(action const& a) const { return pair_of(index(a.stage), a.microbatch); }
  bool is_done(std::uint32_t stage, microbatch_id m, pass_mark which) const {
    return (done_[pair_of(stage, m)] & static_cast<unsigned>(which)) != 0;
  }
  void set_done(action const& a) {
    using enum action_kind;
    auto& done = done_[pair_of(a)];
    unsigned const marks = a.kind == forward ? 1 : a.kind == backward ? 2 : a.kind == input_gradient ? 6 : 0;
    done = static_cast<std::uint8_t>(done | marks);
  }

  /// `pass(stage, mark)` for each pass of the same rank that an action needs, `message(edge, flow)` for each
  /// message, until one returns false.
  template <class Pass, class Message>
  bool each_need(action const& a, Pass pass, Message message) const {
    using enum action_kind;
    auto const s = index(a.stage);
    if (a.kind == weight_gradient) return pass(s, pass_mark::half);
    auto const& edges = needs_.edges();
    auto const& all = schedule_.place.edges;
    if (a.kind == forward) {
      for (auto const e : edges.to(s))
        if (!(messages_.crosses_ranks(e) ? message(e, edge_flow::activations)
                                         : pass(index(all[e].from), pass_mark::forward)))
          return false;
      return true;
    }
    if (!pass(s, pass_mark::forward)) return false;
    if (a.kind != backward && a.kind != input_gradient) return true;
    for (auto e = edges.begin_from(s); e < edges.end_from(s); ++e)
      if (!(messages_.crosses_ranks(e) ? message(e, edge_flow::gradients)
                                       : pass(index(all[e].to), pass_mark::gradient)))
        return false;
    return true;
  }

 private:
  std::size_t pair_of(std::uint32_t stage, microbatch_id m) const {
    return std::size_t{stage} * schedule_.microbatches + index(m);
  }

  schedule const& schedule_;
  schedule_needs const& needs_;
  message_times const& messages_;
  std::vector<std::uint8_t> done_;  // of a stage and microbatch
};

}  // namespace cleave::detail
