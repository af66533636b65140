// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "cleave/core/bytes.hpp"
#include "cleave/core/error.hpp"

namespace cleave {

/// How much the bytes of stages may hold, all their graphs together. What is above a limit is neither written
/// nor read, and nothing is allocated for it.
struct stage_bytes_limits {
  std::size_t bytes = 64_MiB;
  std::size_t graphs = std::size_t{1} << 16;  ///< the stage and what is inside
  std::size_t nodes = std::size_t{1} << 20;
  std::size_t attributes = std::size_t{1} << 20;
  std::size_t tokens = std::size_t{1} << 22;  ///< of arguments; each takes 72 bytes in memory
  std::size_t positions = std::size_t{1}
                          << 22;  ///< in the plan of a pipe: nodes, values, who sends what to whom
  std::size_t texts = std::size_t{1} << 21;
  std::size_t longest_text = 64_KiB;
  std::size_t text_bytes = 128_MiB;  ///< as read: a text counts wherever it is used
};

/// Why bytes are no stage, or a stage cannot be written.
struct stage_bytes_fault {
  static constexpr char subject[] = "bytes of a stage: ";
  enum class kind : std::uint8_t {
    envelope,          ///< cut short, altered, of another version: not what was sent
    structure,         ///< no FlatBuffers of this schema
    above_limit,       ///< a count
    text,              ///< too long, no UTF-8, or several in the same bytes
    claim,             ///< something says that it has more or fewer tokens than there are
    reference,         ///< a number of a node, a text or a graph that names none which may be named there
    value,             ///< what can be no graph: a kind of node, an empty list, two outputs
    unknown_operator,  ///< a call of what is not registered
  };
  kind what;
  std::size_t at;     ///< the byte where it shows
  std::string place;  ///< `node 3 'relu' of graph 0`
  std::string said;   ///< what is wrong, and what would be right

  bool operator==(stage_bytes_fault const&) const = default;
};

/// What is wrong, and where: the place in the graph, and the byte.
inline std::string describe(stage_bytes_fault const& f) {
  if (f.what == stage_bytes_fault::kind::envelope) return f.said;
  bool const foreign =
      f.what == stage_bytes_fault::kind::structure || f.what == stage_bytes_fault::kind::claim;
  return f.place + ": " + f.said + " (byte " + std::to_string(f.at) + ")" +
         (foreign ? "; this library writes no such bytes: do not use them, ask whoever sent them" : "");
}

/// Bytes that are refused. The witness: the first fault.
using stage_bytes_error = fault_error<stage_bytes_fault>;

}  // namespace cleave
