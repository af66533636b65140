// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "cleave/core/error.hpp"
#include "cleave/run/model/tensor_view.hpp"
#include "cleave/run/program/packed_program.hpp"
#include "cleave/schedule/calls/call_options.hpp"

namespace cleave::inline v0_2 {

/// The inputs of a step. Only inputs that the stages of a rank read need data.
struct step_values {
  /// Inputs of the caller: those of microbatch 0, then of microbatch 1, and so on.
  std::span<tensor_view const> inputs = {};
  std::size_t inputs_of_each = 0;  ///< number of inputs per microbatch
  /// Factor of each microbatch's loss; empty: given by `gradient_scale`.
  std::span<double const> weights = {};
  /// Determines whether gradients are summed across replicas and ties at the end of this step, or kept for
  /// later steps to add to them.
  gradient_end gradients = gradient_end::reduced;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The reason why a program cannot run with given values.
struct step_value_fault {
  static constexpr char subject[] = "step: ";
  enum class kind : std::uint8_t {
    input_count,   ///< `got` inputs instead of `allowed`
    weight_count,  ///< `got` weights instead of `allowed`
    scaled,        ///< weights are given, but the program already scales each loss by 1 / `allowed`
    no_data,       ///< input `input` of microbatch `microbatch` is read, but has no data
    other_type,    ///< the input has another type or shape than edge `edge`
  };
  kind what;
  std::size_t got = 0, allowed = 0;
  std::size_t microbatch = 0, input = 0;
  std::uint32_t edge = 0;

  bool operator==(step_value_fault const&) const = default;
};

/// Says what is wrong, where, and how to fix it.
inline std::string describe(step_value_fault const& f) {
  auto const got = std::to_string(f.got), allowed = std::to_string(f.allowed);
  auto const input = "input #" + std::to_string(f.input) + " of microbatch " + std::to_string(f.microbatch);
  switch (f.what) {
    case step_value_fault::kind::input_count:
      return got + " inputs are given, but the microbatches read " + allowed;
    case step_value_fault::kind::weight_count:
      return got + " weights are given for " + allowed +
             " microbatches; give one weight per microbatch, or none";
    case step_value_fault::kind::scaled:
      return "weights are given, but the plan already scales each loss by 1/" + allowed +
             " (gradient_scale::by_microbatches); give none, or make the plan with gradient_scale::none";
    case step_value_fault::kind::no_data:
      return input + " is read by this rank, but has no data";
    case step_value_fault::kind::other_type:
      return input + " has another type or shape than edge #" + std::to_string(f.edge) + " takes";
  }
  return {};
}

using step_value_error = fault_error<step_value_fault>;

/// Returns the first reason why a program cannot run with these values, or nothing. O(inputs that it reads).
inline std::optional<step_value_fault> find_step_value_fault(packed_program const& p, step_values const& v) {
  using enum step_value_fault::kind;
  if (v.inputs.size() != v.inputs_of_each * p.microbatches())
    return step_value_fault{input_count, v.inputs.size(), v.inputs_of_each * p.microbatches()};
  if (!v.weights.empty() && v.weights.size() != p.microbatches())
    return step_value_fault{weight_count, v.weights.size(), p.microbatches()};
  if (!v.weights.empty() && p.scale() == gradient_scale::by_microbatches)
    return step_value_fault{scaled, v.weights.size(), p.microbatches()};
  for (auto const& [m, input, edge] : p.reads()) {
    std::size_t const number = input;
    if (number >= v.inputs_of_each)
      return step_value_fault{input_count, v.inputs.size(), (number + 1) * p.microbatches()};
    auto const& given = v.inputs[index(m) * v.inputs_of_each + number];
    auto const shape = p.shape_of(edge, m);
    if (!given.data && shape.count() != 0)
      return step_value_fault{.what = no_data, .microbatch = index(m), .input = number, .edge = edge};
    auto const& layout = p.layout_of(edge);
    bool const any_shape = layout.extents == shape_kind::dynamic;
    if (given.type != layout.type || (!any_shape && given.shape != shape))
      return step_value_fault{.what = other_type, .microbatch = index(m), .input = number, .edge = edge};
  }
  return std::nullopt;
}

/// Checks the values.
/// \throws step_value_error
inline void require_step_values(packed_program const& p, step_values const& v) {
  if (auto const f = find_step_value_fault(p, v)) throw step_value_error(*f);
}

}  // namespace cleave::detail
