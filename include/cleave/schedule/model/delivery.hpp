// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <limits>

#include "cleave/core/language.hpp"

namespace cleave {

/// How a message gets from a rank to another. Messages are told apart by stage, kind and microbatch.
enum class delivery : std::uint8_t {
  buffered,    ///< a send never blocks; a receive blocks until the message is there
  rendezvous,  ///< both block until they meet
  async,       ///< both only begin; whoever uses the message, or waits for its send, blocks until both have
  /// Both only begin, and end in the order in which they began: each pair of ranks has one stream, which both
  /// directions share, as the queues of NCCL do. Whoever uses the message, or waits for its send, blocks.
  pair_stream,
  /// The messages of a rank have a queue beside its passes, in which one begins when the one before it has
  /// ended: where both ends have begun. A send begins no earlier than its pass has ended. Whoever uses the
  /// message, or waits for its send, blocks. So does a stream of a device for all messages.
  one_queue,
  two_queues,  ///< likewise, one queue for activations and one for gradients
};

/// Which messages of a list begin together, and let the rank go on together when all have ended.
enum class message_groups : std::uint8_t {
  listed,    ///< those that are the parts of one compound
  adjacent,  ///< and those with nothing else between them, as in a group of NCCL
};

/// As many messages as there are.
inline constexpr std::uint32_t any_number = (std::numeric_limits<std::uint32_t>::max)();

/// How messages get from rank to rank, in full. The fewer buffers and queues, the more orders get stuck; what
/// finishes with `rendezvous` alone finishes in every way, unless a rank waits for a send before it begins
/// it: only a stream gets stuck by that, and `schedule_faults` reports it for all.
struct delivery_rules {
  cleave::delivery delivery = delivery::buffered;
  /// Of `buffered`: how many messages each rank may have on their way to each other rank. A send blocks until
  /// there are no more, itself counted; with 0 that is a rendezvous.
  std::uint32_t buffers = any_number;
  message_groups groups = message_groups::listed;  ///< of `async` it changes nothing

  bool operator==(delivery_rules const&) const = default;
};

/// A device that does one thing at a time, passes and groups of messages in the order of the list: the least
/// that is promised where queues may share what runs them.
inline constexpr delivery_rules serial_device{.delivery = delivery::rendezvous,
                                              .groups = message_groups::adjacent};
}  // namespace cleave
