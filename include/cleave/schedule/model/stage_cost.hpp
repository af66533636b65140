// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/schedule/model/action.hpp"

namespace cleave {

/// How long the actions of a stage take, in any one unit: for one microbatch, or once.
struct stage_cost {
  double forward = 1, backward = 2, input_gradient = 1, weight_gradient = 1;
  double recompute = 1;
  double unshard = 0, reduce_gradient = 0, offload = 0, reload = 0;  ///< beside the passes of the rank

  /// Messages take the time of their link, all else takes none.
  constexpr double of(action_kind k) const {
    switch (k) {
      case action_kind::forward:
        return forward;
      case action_kind::backward:
        return backward;
      case action_kind::input_gradient:
        return input_gradient;
      case action_kind::weight_gradient:
        return weight_gradient;
      case action_kind::recompute:
        return recompute;
      case action_kind::unshard:
        return unshard;
      case action_kind::reduce_gradient:
        return reduce_gradient;
      case action_kind::offload:
        return offload;
      case action_kind::reload:
        return reload;
      default:
        return 0;
    }
  }
  bool operator==(stage_cost const&) const = default;
};

}  // namespace cleave

namespace cleave::detail {

/// A time that is no number, negative or beyond `longest_cost`.
struct stage_cost_fault {
  stage_id stage;
  action_kind kind;

  bool operator==(stage_cost_fault const&) const = default;
};

/// Sums of so many actions stay finite.
inline constexpr double longest_cost = 1e100;

class stage_cost_error : public witness_error<stage_cost_fault> {
 public:
  explicit stage_cost_error(stage_cost_fault f)
      : witness_error("costs: " + std::string(name_of(f.kind)) + " of stage " +
                          std::to_string(index(f.stage)) + " must take a time from 0 to 1e100",
                      f) {}
};

/// The first cost that no action can have, or nothing.
constexpr std::optional<stage_cost_fault> find_stage_cost_fault(std::span<stage_cost const> costs) {
  using enum action_kind;
  for (std::size_t s = 0; s < costs.size(); ++s)
    for (auto const kind : {forward, backward, input_gradient, weight_gradient, recompute, unshard,
                            reduce_gradient, offload, reload})
      if (auto const c = costs[s].of(kind); !(c >= 0 && c <= longest_cost))
        return stage_cost_fault{stage_id{static_cast<std::uint32_t>(s)}, kind};
  return std::nullopt;
}

}  // namespace cleave::detail
