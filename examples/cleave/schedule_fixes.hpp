// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <string_view>
#include <utility>

namespace tool {

/// Returns the remedy for a fault of a schedule, by its code; empty if the message itself names it.
inline std::string_view fix_of(std::string_view code) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 31> fixes = {{
      {"rank-count", "write one line for each rank, an empty one if it does nothing"},
      {"placement", "give each stage a rank, and each edge two stages on them"},
      {"too-few-actions", "look for a mistyped number; the largest is shown"},
      {"compound", "write it as (0F3;3B1)OVERLAP_F_B"},
      {"stage-unknown", "number the stages from 0 without a gap, or say --stages"},
      {"microbatch-unknown", "number the microbatches from 0, or say --microbatches"},
      {"stage-on-two-ranks", "move it to the line of that rank"},
      {"edge-unknown", "send to the next stage, or leave the message out if both stages are on one rank"},
      {"repeated", "keep one and remove the others"},
      {"forward-missing", "add it before its backward pass"},
      {"backward-missing", "add B, or I and W, after the forward pass"},
      {"backward-and-halves", "keep B alone, or I and W alone"},
      {"input-gradient-missing", "add I before W, or make W a B"},
      {"weight-gradient-missing", "add W after I, or make I a B"},
      {"out-of-order", "put it after the action that it needs"},
      {"message-missing", "add the send after its pass, and the receive before its use"},
      {"receive-missing", "add the receive on the rank that needs it"},
      {"send-missing", "add the send after the pass that makes the value"},
      {"sent-not-made", "add the pass before it, or remove the send and its receive"},
      {"received-not-used", "add the pass that uses it, or remove the receive and its send"},
      {"wait-missing", "add a wait before the memory is reused, or at the end"},
      {"waited-not-sent", "remove the wait, or put it after its send"},
      {"channel-order", "receive in the order of the sends, or match messages by name (--match by-name)"},
      {"unshard-repeated", "remove the second unshard, or reshard between them"},
      {"reshard-repeated", "remove the reshard"},
      {"used-resharded", "unshard the stage before it, or reshard later"},
      {"reshard-missing", "reshard the stage after its last pass"},
      {"reduce-repeated", "reduce once, after the last backward pass of the stage"},
      {"reduce-early", "reduce after the last backward pass of the stage"},
      {"memory", "put a backward pass before it, or give the rank more memory"},
      {"deadlock", "receive before the blocked send, or send earlier on the other rank"},
  }};
  for (auto const& [known, fix] : fixes)
    if (known == code) return fix;
  return {};
}

}  // namespace tool
