// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <limits>

#include "cleave/core/language.hpp"

namespace cleave::inline v0_2 {

/// The delivery of messages from rank to rank. Messages are identified by stage, kind and microbatch.
enum class delivery : std::uint8_t {
  buffered,    ///< a send never blocks; a receive blocks until the message has arrived
  rendezvous,  ///< the send and the receive block until both have begun
  /// Sends and receives return at once. The pass that uses the message, or the wait for its send, blocks
  /// until both ends have begun.
  async,
  /// Sends and receives return at once and complete in the order in which they began. Each pair of ranks has
  /// one stream for both directions, like the queues of NCCL. The pass that uses the message, or the wait for
  /// its send, blocks.
  pair_stream,
  /// Each rank has one message queue that runs concurrently with its passes. A message begins when the
  /// previous one in the queue has ended, and ends once both ends have begun. A send begins no earlier than
  /// the end of its pass. The pass that uses the message, or the wait for its send, blocks. A device with one
  /// stream for all messages behaves like this.
  one_queue,
  two_queues,  ///< like `one_queue`, with one queue for activations and one for gradients
};

/// The rule by which messages of a list form groups. The messages of a group begin together, and the rank
/// continues when all have ended.
enum class message_groups : std::uint8_t {
  listed,    ///< the parts of one compound
  adjacent,  ///< in addition, messages with nothing else between them, as in an NCCL group
};

/// No limit on the number of messages.
inline constexpr std::uint32_t any_number = (std::numeric_limits<std::uint32_t>::max)();

/// The complete rules by which messages travel between ranks. The fewer buffers and queues, the more orders
/// deadlock. A schedule that finishes under plain `rendezvous` finishes under all rules, with one exception:
/// a rank that waits for a send before it begins that send. Only streams deadlock there, but
/// `schedule_faults` reports it under all rules.
struct delivery_rules {
  cleave::delivery delivery = delivery::buffered;
  /// For `buffered`: the maximum number of messages in flight from one rank to another. A send blocks until
  /// the messages in flight, itself included, are within this limit. 0 is equivalent to rendezvous.
  std::uint32_t buffers = any_number;
  message_groups groups = message_groups::listed;  ///< no effect with `async`

  bool operator==(delivery_rules const&) const = default;
};

/// The rules for a device that runs passes and message groups one at a time, in list order. This is the
/// weakest guarantee where several queues may share one execution resource.
inline constexpr delivery_rules serial_device{.delivery = delivery::rendezvous,
                                              .groups = message_groups::adjacent};
}  // namespace cleave
