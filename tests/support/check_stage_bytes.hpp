// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/formats/bytes/envelope.hpp"
#include "cleave/formats/pipe_buffer.hpp"
#include "cleave/formats/stage_buffer.hpp"
#include "support/rich_module_graph.hpp"
#include "support/same_graph.hpp"

namespace cleave::testing {

using namespace detail;

/// Small limits, so that a fuzzer stays fast.
inline constexpr stage_bytes_limits small_limits{.bytes = 1 << 20,
                                                 .graphs = 1000,
                                                 .nodes = 10'000,
                                                 .attributes = 10'000,
                                                 .tokens = 100'000,
                                                 .positions = 100'000,
                                                 .texts = 100'000,
                                                 .longest_text = 10'000,
                                                 .text_bytes = 1 << 20};

/// Returns true if `payload`, in a valid envelope, can be read as a stage. Then checks that the stage
/// survives a round trip and that its bytes are always the same. Otherwise checks that finding the fault and
/// reading report the same fault.
inline bool taken_for_stage(std::span<std::byte const> payload) {
  auto const bytes = seal_envelope(payload);
  auto const fault = find_stage_bytes_fault(bytes, any_operators(), small_limits);
  try {
    auto const stage = read_stage_bytes(bytes, any_operators(), small_limits);
    expects(!fault, "no fault in what can be read");
    auto const written = write_stage_bytes(stage);
    auto const again = read_stage_bytes(written, operators_of(stage));
    expects(same_graph(stage, again), "a stage that comes back");
    expects(write_stage_bytes(again) == written, "the same bytes again");
  } catch (stage_bytes_error const& e) {
    expects(fault && *fault == e.witness, "the fault that was found");
    return false;
  }
  return true;
}

/// Returns true if `payload` can be read as a pipe, with the same checks as for a stage.
inline bool taken_for_pipe(std::span<std::byte const> payload) {
  auto const bytes = seal_envelope(payload);
  auto const fault = find_pipe_bytes_fault(bytes, any_operators(), small_limits);
  try {
    auto const pipe = read_pipe_bytes(bytes, any_operators(), small_limits);
    expects(!fault, "no fault in what can be read");
    auto const written = write_pipe_bytes(pipe);
    auto const again = read_pipe_bytes(written, operators_of(pipe.outer));
    expects(same_graph(pipe.outer, again.outer) && pipe.plan == again.plan && pipe.paths == again.paths,
            "a pipe that comes back");
    expects(write_pipe_bytes(again) == written, "the same bytes again");
    for (std::uint32_t i = 0; i < pipe.paths.size(); ++i)
      expects(pipe.stage(stage_id{i}).inputs().size() == pipe.plan.plan.stages[i].inputs.size(),
              "a stage that takes what its plan says");
  } catch (stage_bytes_error const& e) {
    expects(fault && *fault == e.witness, "the fault that was found");
    return false;
  }
  return true;
}

}  // namespace cleave::testing
