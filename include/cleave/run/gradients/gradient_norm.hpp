// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "cleave/run/gradients/gradient_reducer.hpp"
#include "cleave/run/gradients/tied_gradients.hpp"

namespace cleave::detail {

/// The gradients that count on a rank when a norm is taken: of a tie, those of its first copy alone.
inline std::vector<region> counted_gradients(std::span<gradients_of_stage const> stages,
                                             std::span<tie_set const> sets) {
  std::vector<stage_gradient> again;
  for (auto const& set : sets)
    for (auto const& t : set.ties) again.insert(again.end(), t.begin() + 1, t.end());
  std::ranges::sort(again);
  std::vector<region> counted;
  for (auto const& s : stages)
    for (std::uint32_t n = 0; n < s.regions.size(); ++n)
      if (!std::ranges::binary_search(again, stage_gradient{s.stage, n})) counted.push_back(s.regions[n]);
  return counted;
}

/// By what gradients of so large a norm are multiplied, so that it becomes `most` at most: 1 where it is no
/// larger. As PyTorch's clip_grad_norm_, without its 1e-6. Precondition: the norm is finite, `most` above 0.
inline double clip_factor(double norm, double most) { return norm > most ? most / norm : 1; }

/// What became of a step of the optimiser.
struct update_report {
  double norm = 0;       ///< of all gradients, ties counted once, before they were clipped
  bool applied = false;  ///< not where the norm is infinite or not a number: then nothing has changed

  bool operator==(update_report const&) const = default;
};

struct update_options {
  double most_norm = std::numeric_limits<double>::infinity();  ///< beyond which gradients are clipped
  double factor = 1;  ///< that gradients are multiplied by first: of a loss scale, or of accumulated steps
};

}  // namespace cleave::detail
