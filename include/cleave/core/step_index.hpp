// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

#include "cleave/core/ids.hpp"

namespace cleave::inline v0_2 {

/// The direction along an edge: activations go forward, gradients back.
enum class edge_flow : std::uint8_t { activations, gradients };

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// A message: an edge, a direction and a microbatch.
struct message_id {
  std::uint32_t edge;
  edge_flow flow;
  microbatch_id microbatch;

  bool operator==(message_id const&) const = default;
};

/// A stage and one of its microbatches.
struct pass_id {
  stage_id stage;
  microbatch_id microbatch;

  bool operator==(pass_id const&) const = default;
};

/// Numbers the passes and the messages of one step, each from 0. Passes of one stage have consecutive
/// numbers, and so have messages of one direction of an edge. All O(1).
class step_index {
 public:
  constexpr step_index() = default;
  constexpr step_index(std::size_t stages, std::size_t edges, std::uint32_t microbatches)
      : stages_(stages), edges_(edges), microbatches_(microbatches) {}

  constexpr std::size_t passes() const { return stages_ * microbatches_; }
  constexpr std::size_t messages() const { return 2 * edges_ * microbatches_; }

  /// Returns the number of a pass. Precondition: the stage and the microbatch are of this step.
  constexpr std::size_t pass(std::size_t stage, microbatch_id m) const {
    return stage * microbatches_ + index(m);
  }
  constexpr std::size_t pass(stage_id s, microbatch_id m) const { return pass(index(s), m); }
  /// Returns the pass with this number. Precondition: there is one.
  constexpr pass_id pass_at(std::size_t number) const {
    return {stage_id{static_cast<std::uint32_t>(number / microbatches_)},
            microbatch_id{static_cast<std::uint32_t>(number % microbatches_)}};
  }

  /// Returns the number of a message. Precondition: the edge and the microbatch are of this step.
  constexpr std::size_t message(message_id const& m) const { return pass(way(m.edge, m.flow), m.microbatch); }
  constexpr std::size_t message(std::uint32_t edge, edge_flow flow, microbatch_id m) const {
    return message({edge, flow, m});
  }
  /// Returns the message with this number. Precondition: there is one.
  constexpr message_id message_at(std::size_t number) const {
    auto const [both, m] = pass_at(number);
    return {index(both) / 2, index(both) % 2 == 0 ? edge_flow::activations : edge_flow::gradients, m};
  }

  /// Returns the number of one direction of an edge.
  static constexpr std::size_t way(std::size_t edge, edge_flow flow) {
    return 2 * edge + static_cast<std::size_t>(flow);
  }

 private:
  std::size_t stages_ = 0, edges_ = 0;
  std::uint32_t microbatches_ = 0;
};

}  // namespace cleave::detail
