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

/// What runtimes ask of the stages that they run, beyond taking and returning flat tuples.
namespace cleave {

/// An argument of a stage, as far as a runtime cares.
struct argument_traits {
  bool tensor = true;
  bool needs_gradient = false;
};

/// Which argument of a stage a runtime cannot pass: only the first may be something else than a tensor or
/// need a gradient. Such is DeepSpeed's pipeline engine, which sends one gradient back. O(arguments).
inline std::optional<std::size_t> find_argument_beyond_first(std::span<argument_traits const> arguments) {
  for (std::size_t i = 1; i < arguments.size(); ++i)
    if (!arguments[i].tensor || arguments[i].needs_gradient) return i;
  return std::nullopt;
}

/// The witness: the stage, and which of its arguments.
class stage_argument_error : public witness_error<std::pair<stage_id, std::size_t>> {
 public:
  stage_argument_error(stage_id stage, std::size_t argument, std::string const& name)
      : witness_error("stages: argument #" + std::to_string(argument) + " of " + stage_text(stage) + ", " +
                          quoted(name) +
                          ", is no tensor or needs a gradient; this runtime allows it for the first only",
                      {stage, argument}) {}
};

/// What a user has hung onto the whole program.
enum class program_hook : std::uint8_t { before_forward, after_forward, after_backward };

/// Whether `stage` runs a hook of the whole: what comes before all work, and after the last of the backward
/// work, belongs to the first stage; what comes after the forward work to the last.
inline bool runs_hook(program_hook hook, stage_id stage, std::uint32_t stages) {
  return index(stage) == (hook == program_hook::after_forward ? stages - 1 : 0);
}

}  // namespace cleave
