// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "cleave/core/bytes.hpp"
#include "cleave/core/error.hpp"

namespace cleave::inline v0_2 {

/// Limits on the bytes of stages, summed over all their graphs. Content above a limit is neither written nor
/// read, and no memory is allocated for it.
struct stage_bytes_limits {
  std::size_t bytes = 64_MiB;
  std::size_t graphs = std::size_t{1} << 16;  ///< the stage and all bodies inside it
  std::size_t nodes = std::size_t{1} << 20;
  std::size_t attributes = std::size_t{1} << 20;
  std::size_t tokens = std::size_t{1} << 22;  ///< of arguments; each takes 72 bytes in memory
  std::size_t positions = std::size_t{1}
                          << 22;  ///< in the plan of a pipe: entries for nodes, values and transfers
  std::size_t texts = std::size_t{1} << 21;
  std::size_t longest_text = 64_KiB;  ///< in bytes
  std::size_t text_bytes = 128_MiB;   ///< bytes as read: a text counts each time it is used
};

/// The reason why bytes are not a stage, or a stage cannot be written.
struct stage_bytes_fault {
  static constexpr char subject[] = "bytes of a stage: ";
  enum class kind : std::uint8_t {
    envelope,     ///< truncated, altered, or of another version
    structure,    ///< not FlatBuffers of this schema
    above_limit,  ///< a count exceeds its limit
    text,         ///< too long, not UTF-8, or sharing its bytes with other texts
    claim,        ///< an element claims more or fewer tokens than there are
    reference,    ///< an invalid reference to a node, text or graph
    value,        ///< a value that no graph can have: an unknown kind of node, an empty list, two outputs
    unknown_operator,  ///< a call of an operator that is not registered
  };
  kind what;
  std::size_t at;     ///< offset of the byte where it shows
  std::string place;  ///< such as `node 3 'relu' of graph 0`
  std::string said;   ///< the problem, and the expected content

  bool operator==(stage_bytes_fault const&) const = default;
};

/// The message for a fault: the problem, its place in the graph, and the byte.
inline std::string describe(stage_bytes_fault const& f) {
  if (f.what == stage_bytes_fault::kind::envelope) return f.said;
  bool const foreign =
      f.what == stage_bytes_fault::kind::structure || f.what == stage_bytes_fault::kind::claim;
  return f.place + ": " + f.said + " (byte " + std::to_string(f.at) + ")" +
         (foreign ? "; this library does not write such bytes: do not use them, and ask their sender" : "");
}

/// Thrown for bytes that are rejected; the witness is the first fault.
using stage_bytes_error = fault_error<stage_bytes_fault>;

}  // namespace cleave
