// SPDX-License-Identifier: MIT
#pragma once
#include <span>

#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/tensor_view.hpp"
#include "cleave/schedule/model/action.hpp"

namespace cleave::inline v0_2 {

/// One part of an action that a stage executes itself. For a pass it has the same arguments as the member
/// function for its kind. `in` and `out` are inputs and results of a forward pass, or gradients of results
/// and of inputs of a backward pass. RECOMPUTE has inputs only. All other actions have neither.
struct custom_part {
  action what;
  stage_pass pass;
  std::span<tensor_view const> in = {};
  std::span<tensor_view> out = {};
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// A stage that executes the actions of the kinds in `call_options::custom` itself, in one function instead
/// of the members for those kinds. Arriving values are ready, and results are sent afterwards, as for those
/// members.
/// - `st.custom(s, a, parts)`: executes all parts of a compound action, in any order or fused. Any other
///   action is its own single part.
template <class S, class D>
concept custom_stage = stage<S, D> && requires(S& st, typename D::stream& s, action const& a,
                                               std::span<custom_part const> parts) {
  { st.custom(s, a, parts) };
};

/// A stage that executes OVERLAP_F_B itself, where it is a compound of one forward pass F and one backward
/// pass B, so that both run as one: communication of each behind computation of the other. Arriving values
/// are ready, and results are sent afterwards. All other passes, also those of other compounds, are executed
/// by the members for their kind, as without this member.
/// - `st.overlapped(s, forward, backward)`: executes both passes, in any order or fused. Neither needs
///   the other.
template <class S, class D>
concept overlapped_stage = stage<S, D> && requires(S& st, typename D::stream& s, custom_part const& forward,
                                                   custom_part const& backward) {
  { st.overlapped(s, forward, backward) };
};

}  // namespace cleave::detail
