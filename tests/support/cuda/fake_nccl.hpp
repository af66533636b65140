// SPDX-License-Identifier: MIT
#pragma once
#include <nccl.h>

#include <chrono>
#include <compare>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cleave/core/random.hpp"
#include "support/cuda/fake_cuda.hpp"
#include "support/cuda/fake_streams.hpp"
#include "support/race_log.hpp"

namespace cleave::testing::fake {

using namespace detail;

enum class message_kind { send, receive, all_reduce, all_gather, reduce_scatter, broadcast, reduce };

constexpr bool is_collective(message_kind k) { return k > message_kind::receive; }
char const* name_of(message_kind k);

/// One member of a group, as the caller requested it.
struct message_call {
  message_kind is;
  void const* from;  // null for a receive
  void* to;          // null for a send
  std::size_t count;
  ncclDataType_t type;
  int peer;        // or root
  ncclRedOp_t op;  // for reductions

  std::size_t bytes() const;
  /// Returns the memory that it reads and writes on rank `rank` of `size`.
  std::vector<footprint> memory(int rank, int size) const;
  std::string text() const;
};

/// A member whose stream has reached its group.
struct post {
  message_call what;
  communicator* by;
  vector_clock start, end;
  bool is_done = false;
};

struct split_call {
  int color, key;
};

/// What NCCL connects for a collective at its first use: one algorithm, which it chooses by size.
struct connection {
  message_kind is;
  int length;  // the number of binary digits of the bytes

  auto operator<=>(connection const&) const = default;
};
connection connection_of(message_call const& m);

/// Memory registered with a communicator. Its address is the handle.
struct registered_memory {
  communicator* with;
  void const* data;
  std::size_t bytes;
  bool is_window;
};

/// The ranks of one unique id, or of one split.
struct world {
  std::size_t number = 0;
  int size = 0;
  std::vector<communicator*> members;  // by rank; null: not joined yet
  using pair = std::pair<int, int>;    // from, to
  std::map<pair, std::deque<std::shared_ptr<post>>> sends, receives;
  std::map<std::size_t, std::vector<std::shared_ptr<post>>> collectives;  // by number; by rank
  std::set<pair> announced_sends, announced_receives;                     // for setting up connections
  std::map<connection, std::set<int>> announced_collectives;  // by what connects for itself: ranks
  std::vector<std::map<int, split_call>> splits;              // by number, then rank
  std::vector<std::map<int, std::size_t>> windows;            // by number, then rank: their bytes
  std::map<std::pair<std::size_t, int>, std::shared_ptr<world>> children;  // by split and color
};

struct communicator {
  std::shared_ptr<world> in;
  int rank = 0, device = 0;
  bool is_blocking = true;
  int run_size = 0;  // ranks of the communicator that it was split from, or its own
  host_thread const* made_by = nullptr;
  std::string host_name;

  /// The operation in progress: `then()` runs once `ready()`. Empty: none.
  std::function<bool()> ready;
  std::function<void()> then;
  fake_nccl_hang in_progress = fake_nccl_hang::init;
  std::chrono::steady_clock::time_point settles_at;
  ncclComm_t* splitting_to = nullptr;  // where a split in progress writes at its end

  ncclResult_t error = ncclSuccess;
  std::optional<std::chrono::steady_clock::time_point> error_at;  // when the death of a peer becomes visible
  std::string last_error;
  bool is_dead = false, is_revoked = false, is_finalized = false, is_destroyed = false;
  bool is_aborted = false;
  std::jthread job;  // of the group in progress, where the communicator does not block
  std::size_t running = 0, outstanding = 0, collectives = 0, splits = 0, windows = 0;
  splitmix random{0};

  std::string text() const;
  bool is_stopped() const { return is_aborted || is_revoked; }
};

/// Returns the state for a poll; completes the operation in progress if it is ready.
ncclResult_t poll(runtime& r, communicator& c);
/// Begins an operation that a poll completes: `then()` runs once `ready()` is true and some time has passed.
ncclResult_t begin_progress(runtime& r, communicator& c, fake_nccl_hang what, std::function<bool()> ready,
                            std::function<void()> then, runtime_lock& lock);
/// Aborts communicators: stops all of their messages, then waits until none is left in a stream.
void abort_together(runtime& r, std::vector<std::shared_ptr<communicator>> const& all, runtime_lock& lock);
/// Returns the communicators that the calling thread has aborted in its open group. Null outside of a group.
std::vector<std::shared_ptr<communicator>>* aborted_in_group();
/// Runs all members at once on a stream's thread. Returns when all have ended or the communicator is stopped.
void run_group(runtime& r, stream& s, communicator& c, std::vector<message_call> const& members,
               runtime_lock& lock);
/// Reduces the `inputs` of the ranks elementwise. As in a ring, the order of summation depends on the
/// element.
void reduce(std::vector<std::vector<std::byte>> const& inputs, ncclDataType_t type, ncclRedOp_t op, void* to);
std::size_t size_of(ncclDataType_t type);

/// Reports registrations that the call `function`, which ends the communicator, finds.
void require_no_registration(runtime& r, communicator const& c, std::string const& function);
/// Counts a message or sum if some of its memory is not registered with its communicator.
void count_unregistered(runtime& r, communicator const& c, message_call const& m);

/// Ends a split in progress without a communicator. As NCCL does, writes that to where the caller wanted it.
void end_split(communicator& c);
ncclResult_t fail(communicator& c, ncclResult_t error, std::string const& why);
void fail_rank(runtime& r, int rank, ncclResult_t error);
void abort_all(runtime& r);

}  // namespace cleave::testing::fake
