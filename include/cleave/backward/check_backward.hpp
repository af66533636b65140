// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/backward/backward_plan.hpp"
#include "cleave/backward/stage_root.hpp"
#include "cleave/graph/csr.hpp"

namespace cleave::inline v0_2 {

/// A fault of a backward plan. Fields that do not concern the fault keep their defaults.
struct backward_plan_fault {
  enum class kind : std::uint8_t {
    missing_call,   ///< the loss depends on stage `value`, which has no call
    unneeded_call,  ///< `call` differentiates `value`, which is not a stage, does not affect the loss, or has
                    ///< a call already
    wrong_inputs,   ///< the inputs of `call` differ from the arguments of its stage, each listed once
    wrong_width,  ///< the outputs of `call` do not match its width, or it selects an output beyond the width
    wrong_step,   ///< `gradient` is neither the next input of its call, in order and once, nor a sum of two
                  ///< gradients
    early_gradient,      ///< `gradient` is used before it is made
    misplaced_gradient,  ///< `gradient` belongs to another place than the one where it is added or used
    lost_gradient,       ///< `gradient` is not used
    repeated_gradient,   ///< `gradient` is used twice
    missing_gradient,  ///< output `value` of `call` is selected and is not the loss, but receives no gradient
    missing_loss,      ///< no call starts at the loss
  };
  kind what;
  std::uint32_t call = none<std::uint32_t>, gradient = none<std::uint32_t>, value = none<std::uint32_t>;

  bool operator==(backward_plan_fault const&) const = default;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns one sentence that names places by their numbers.
inline std::string backward_plan_fault_text(backward_plan_fault const& f) {
  using enum backward_plan_fault::kind;
  auto const number = [](char const* what, std::uint32_t n) { return what + std::to_string(n); };
  auto const call = number("call #", f.call), gradient = number("gradient #", f.gradient),
             value = number("value #", f.value);
  switch (f.what) {
    case missing_call:
      return "the loss depends on stage " + value + ", which is not differentiated";
    case unneeded_call:
      return call + " differentiates " + value + ", which needs no backward pass or already has one";
    case wrong_inputs:
      return "the inputs of " + call + " are not the arguments of its stage, each listed once";
    case wrong_width:
      return call + " lists outputs that do not match its width";
    case wrong_step:
      return gradient + " is neither the next input gradient of its call nor a sum of two gradients";
    case early_gradient:
      return gradient + " is used before it is made";
    case misplaced_gradient:
      return gradient + " is used at a place that it does not belong to";
    case lost_gradient:
      return gradient + " is not used";
    case repeated_gradient:
      return gradient + " is used twice";
    case missing_gradient:
      return "no gradient arrives at " + value + ", an output of " + call;
    case missing_loss:
      return "no call starts at the loss";
  }
  return {};
}

/// Checks a backward plan. Helper of `find_backward_plan_fault`.
class backward_checker {
 public:
  backward_checker(stage_root const& root, std::uint32_t loss, backward_plan const& planned)
      : root_(root),
        loss_(loss),
        planned_(planned),
        places_(root),
        used_(planned.gradients.size()),
        read_by_(root.values(), no) {}

  std::optional<backward_plan_fault> find() {
    check_stages();
    for (std::uint32_t c = 0; c < planned_.calls.size() && !fault_; ++c) {
      check_outputs(c);
      check_steps(c);
    }
    for (auto const& tree : planned_.inputs)
      for (auto const& place : tree) use(place, end_);
    if (planned_.calls.empty() && end_ > 0) fail({kind::wrong_step, no, 0, no});
    for (std::uint32_t g = 0; g < used_.size() && !fault_; ++g)
      if (used_[g] == 0 && must_arrive(g)) fail({kind::lost_gradient, no, g, no});
    bool const by_stage = root_.kind[places_.base[places_.of[loss_]]] == root_kind::stage;
    if (by_stage && !begins_) fail({kind::missing_loss, no, no, no});
    return fault_;
  }

 private:
  using kind = backward_plan_fault::kind;
  static constexpr auto no = none<std::uint32_t>;

  void fail(backward_plan_fault f) {
    if (!fault_) fault_ = f;
  }

  /// Checks that each stage that the loss depends on has one call, and that no other stage has one.
  void check_stages() {
    std::vector<char> live(root_.values()), done(root_.values());
    live[loss_] = 1;
    for (auto v = loss_ + 1; v-- > 0;)
      if (live[v])
        for (auto const read : root_.reads[v]) live[read] = 1;
    for (std::uint32_t c = 0; c < planned_.calls.size(); ++c) {
      auto const v = planned_.calls[c].stage;
      bool const needed = v < root_.values() && root_.kind[v] == root_kind::stage && live[v];
      if (!needed || std::exchange(done[v], 1)) return fail({kind::unneeded_call, c, no, v});
    }
    for (std::uint32_t v = 0; v < root_.values(); ++v)
      if (live[v] && !done[v] && root_.kind[v] == root_kind::stage)
        return fail({kind::missing_call, no, no, v});
  }

  void check_outputs(std::uint32_t c) {
    auto const& call = planned_.calls[c];
    std::vector<char> selected(call.width);
    for (auto const i : call.selected) {
      if (i >= call.width) return fail({kind::wrong_width, c, no, no});
      selected[i] = 1;
    }
    std::size_t output = 0, missing = 0;  // outputs so far; missing places of the current one
    for (auto const& place : call.outputs) {
      if (missing == 0 && output++ == call.width) return fail({kind::wrong_width, c, no, no});
      missing += place.elements + (missing == 0 ? 1 : 0);
      --missing;
      check_place(c, place, selected[output - 1] != 0);
    }
    if (output != call.width || missing > 0) fail({kind::wrong_width, c, no, no});
  }

  void check_place(std::uint32_t c, gradient_place const& place, bool selected) {
    if (place.value == no) {
      if (place.gradient != no) fail({kind::misplaced_gradient, c, place.gradient, no});
      return;
    }
    bool const own =
        place.value < root_.values() && places_.base[places_.of[place.value]] == planned_.calls[c].stage;
    if (!own || (place.gradient != no && !selected))
      return fail({kind::misplaced_gradient, c, place.gradient, place.value});
    bool const loss = places_.of[place.value] == places_.of[loss_];
    if (place.gradient == no && selected && loss) begins_ = true;
    if (place.gradient == no && selected && !loss) fail({kind::missing_gradient, c, no, place.value});
    use(place, planned_.calls[c].first_gradient);
  }

  /// Uses the gradient of `place`, which must be one of the first `made` gradients.
  void use(gradient_place const& place, std::size_t made) {
    if (place.gradient == no) return;
    take(place.gradient, made);
    bool const fits = !fault_ && place.value < root_.values() &&
                      places_.of[planned_.gradients[place.gradient].value] == places_.of[place.value];
    if (!fits) fail({kind::misplaced_gradient, no, place.gradient, place.value});
  }

  void take(std::uint32_t g, std::size_t made) {
    if (g >= made || g >= used_.size())
      fail({kind::early_gradient, no, g, no});
    else if (used_[g]++ > 0)
      fail({kind::repeated_gradient, no, g, no});
  }

  /// Checks the steps after a call: the gradients of its inputs in order, each optionally added to an earlier
  /// gradient.
  void check_steps(std::uint32_t c) {
    auto const& call = planned_.calls[c];
    std::vector<std::uint32_t> reads;
    for (auto const v : root_.reads[call.stage])
      if (std::exchange(read_by_[v], c) != c) reads.push_back(v);
    if (call.inputs != reads) return fail({kind::wrong_inputs, c, no, no});

    std::size_t const next = c + 1 < planned_.calls.size() ? planned_.calls[c + 1].first_gradient : end_;
    std::uint32_t input = 0;
    for (std::size_t g = call.first_gradient; g < (std::min)(next, end_); ++g)
      check_step(c, static_cast<std::uint32_t>(g), input);
    bool const in_line = c > 0 || call.first_gradient == 0;
    if (input != reads.size() || !in_line || next < call.first_gradient || next > end_)
      fail({kind::wrong_step, c, call.first_gradient, no});
  }

  void check_step(std::uint32_t c, std::uint32_t g, std::uint32_t& input) {
    auto const& step = planned_.gradients[g];
    auto const& inputs = planned_.calls[c].inputs;
    if (step.is_sum()) {
      for (auto const part : {step.old, step.added}) {
        take(part, g);
        bool const same = !fault_ && step.value < root_.values() &&
                          places_.of[planned_.gradients[part].value] == places_.of[step.value];
        if (!same) fail({kind::misplaced_gradient, c, part, step.value});
      }
    } else {
      bool const fits =
          step.call == c && step.input == input && input < inputs.size() && step.value == inputs[input];
      ++input;
      if (!fits) fail({kind::wrong_step, c, g, step.value});
    }
  }

  bool must_arrive(std::uint32_t g) const {
    auto const from = root_.kind[places_.base[places_.of[planned_.gradients[g].value]]];
    return from == root_kind::stage || (from == root_kind::input && !planned_.inputs.empty());
  }

  stage_root const& root_;
  std::uint32_t loss_;
  backward_plan const& planned_;
  place_tree places_;
  std::vector<std::uint32_t> used_;     // for each gradient: the number of uses
  std::vector<std::uint32_t> read_by_;  // for each value: the last call that has it among its inputs
  bool begins_ = false;
  std::size_t end_ = planned_.gradients.size();
  std::optional<backward_plan_fault> fault_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the first fault of `planned`, a backward plan of `root` from `loss`, or nothing. In a correct
/// plan, every gradient that a stage produces is used once, at its own place, and before it is needed there.
/// O(V log V + E + size of the plan).
/// \pre `root` and `loss` have a backward pass (`find_backward_fault` finds nothing)
inline std::optional<backward_plan_fault> find_backward_plan_fault(stage_root const& root, std::uint32_t loss,
                                                                   backward_plan const& planned) {
  return detail::backward_checker(root, loss, planned).find();
}

}  // namespace cleave
