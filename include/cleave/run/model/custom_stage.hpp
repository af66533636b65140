// SPDX-License-Identifier: MIT
#pragma once
#include <span>

#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/tensor_view.hpp"
#include "cleave/schedule/model/action.hpp"

namespace cleave {

/// What stages are given of an action that they carry out themselves: of a pass all that the member of its
/// kind would get. `in` and `out` are inputs and results of a forward pass, gradients of results and of
/// inputs of a backward pass; of RECOMPUTE the inputs; else there are none.
struct custom_part {
  action what;
  stage_pass pass;
  std::span<tensor_view const> in = {};
  std::span<tensor_view> out = {};
};

}  // namespace cleave

namespace cleave::detail {

/// Actions of the kinds in `call_options::custom`, which stages carry out instead of the members of those
/// kinds. What passes receive is there, and what they make is handed on afterwards, as of those members.
/// - `st.custom(s, a, parts)`  all parts of a compound, in any order or at once; of another action itself.
template <class S, class D>
concept custom_stage = stage<S, D> && requires(S& st, typename D::stream& s, action const& a,
                                               std::span<custom_part const> parts) {
  { st.custom(s, a, parts) };
};

}  // namespace cleave::detail
