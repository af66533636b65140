// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "cleave/core/dataflow.hpp"
#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/printable.hpp"

/// Requirements of other runtimes on the stages that they run, beyond taking and returning flat tuples.
namespace cleave::inline v0_2 {

/// The properties of a stage's argument that runtimes check.
struct argument_traits {
  bool tensor = true;
  bool needs_gradient = false;
};

/// Returns the first argument after argument 0 that is not a tensor or needs a gradient, or nothing. Some
/// runtimes allow these for argument 0 only, such as DeepSpeed's pipeline engine, which sends one gradient
/// back. O(arguments).
inline std::optional<std::size_t> find_argument_beyond_first(std::span<argument_traits const> arguments) {
  for (std::size_t i = 1; i < arguments.size(); ++i)
    if (!arguments[i].tensor || arguments[i].needs_gradient) return i;
  return std::nullopt;
}

/// Thrown if an argument other than the first is not a tensor or needs a gradient. The witness is the stage
/// and the position of the argument.
class stage_argument_error : public witness_error<std::pair<stage_id, std::size_t>> {
 public:
  stage_argument_error(stage_id stage, std::size_t argument, std::string const& name)
      : witness_error(
            "stages: argument #" + std::to_string(argument) + " of " + stage_text(stage) + ", " +
                quoted(name) +
                ", is not a tensor or needs a gradient; this runtime allows that for argument #0 only",
            {stage, argument}) {}
};

/// A hook that the user has registered on the whole program.
enum class program_hook : std::uint8_t { before_forward, after_forward, after_backward };

/// Returns true if `stage`, one of `stages`, runs a hook of the whole program. The first stage runs hooks
/// before all work and after the last backward work. The last stage runs hooks after the forward work.
inline bool runs_hook(program_hook hook, stage_id stage, std::uint32_t stages) {
  return index(stage) == (hook == program_hook::after_forward ? stages - 1 : 0);
}

}  // namespace cleave
