// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstdint>
#include <limits>
#include <span>

#include "cleave/core/ids.hpp"
#include "cleave/core/real.hpp"
#include "cleave/run/model/concepts.hpp"

namespace cleave::inline v0_2 {

/// The norm of the gradients and the factor for them in an optimiser step, in device memory. A stage
/// multiplies its gradients by `factor`. If `applied` is 0, a gradient is not finite, and the stage changes
/// nothing.
struct device_update {
  double factor = 0;
  double norm = 0;  ///< norm of all gradients before clipping, ties counted once
  std::uint32_t applied = 0;

  bool operator==(device_update const&) const = default;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the factor that reduces a gradient norm to at most `most`: 1 if `norm` is not larger. As
/// clip_grad_norm_ in PyTorch, without its 1e-6. Precondition: the norm is finite, `most` is positive.
constexpr double clip_factor(double norm, double most) { return norm > most ? most / norm : 1; }

/// The result of an optimiser step.
struct update_report {
  double norm = 0;       ///< norm of all gradients before clipping, ties counted once
  bool applied = false;  ///< false if the norm is not finite; then nothing has changed

  bool operator==(update_report const&) const = default;
};

/// Options of an optimiser step.
struct update_options {
  double most_norm = std::numeric_limits<double>::infinity();  ///< gradients are clipped to this norm
  /// Multiplies gradients before clipping: inverse of a loss scale or of the number of accumulated steps.
  double factor = 1;
};

/// Returns the optimiser step for the norm of all gradients, times the magnitude of `o.factor`.
constexpr device_update update_of(double norm, update_options const& o) {
  if (!is_finite(norm)) return {0, norm, 0};
  return {o.factor * clip_factor(norm, o.most_norm), norm, 1};
}

/// A device that computes an optimiser step in stream order, without the host.
/// - `D::norm`: movable; the tables and results for some gradients. `n.squares()`: a region of one f64 in
///   device memory, the sum of squares of these gradients, which other ranks' may be added to. `n.update()`:
///   where the device writes the step. `n.report()`: the step, on the host. Precondition: the last issued
///   work for it has ended.
/// - `d.make_norm(regions)`: prepares it.
/// - `d.set_options(s, n, o)`: copies the options for later work to the device. Not in a recording.
/// - `d.issue_squares(s, n)`, `d.issue_update(s, n)`: issue the sum, and the step for it.
template <class D>
concept updating_device = device<D> && std::movable<typename D::norm> &&
                          requires(D& d, typename D::stream& s, typename D::norm& n,
                                   std::span<region const> regions, update_options const& o) {
                            { d.make_norm(regions) } -> std::same_as<typename D::norm>;
                            { d.set_options(s, n, o) };
                            { d.issue_squares(s, n) };
                            { d.issue_update(s, n) };
                            { n.squares() } -> std::same_as<region>;
                            { n.update() } -> std::same_as<device_update const*>;
                            { n.report() } -> std::same_as<update_report>;
                          };

/// A stage that reads the factor of an optimiser step from device memory.
/// - `st.update(s, i, u)`: as for `updated_stage`, with `u->factor`. If `u->applied` is 0, the gradients
///   become zero and nothing else changes. The work that it issues reads `*u`; the host does not.
template <class S, class D>
concept device_updated_stage = updating_device<D> && updated_stage<S, D> &&
                               requires(S& st, typename D::stream& s, stage_id i, device_update const* u) {
                                 { st.update(s, i, u) };
                               };

}  // namespace cleave::detail
