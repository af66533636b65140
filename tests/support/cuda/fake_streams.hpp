// SPDX-License-Identifier: MIT
#pragma once
#include <driver_types.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cleave/core/random.hpp"
#include "support/cuda/fake_events.hpp"
#include "support/cuda/fake_memory.hpp"
#include "support/race_log.hpp"

namespace cleave::testing::fake {

using namespace detail;

class runtime;
struct host_thread;
struct stream;
struct capture;
struct communicator;

using clock_snapshot = std::shared_ptr<vector_clock const>;
using runtime_lock = std::unique_lock<std::mutex>;

/// An item of a stream. `run` is called several times if its graph is launched several times.
struct work {
  enum class kind { kernel, copy, fill, host_function, message, memory, mark };

  kind is = kind::mark;
  std::string name;
  /// Runs on the stream's thread; the lock is held at the begin and at the end.
  std::function<void(stream&, runtime_lock&)> run;
  std::vector<footprint> memory = {};      // accesses, if known at issue time
  std::vector<void const*> pointers = {};  // pointers passed, if accesses are unknown
  clock_snapshot issued = nullptr;         // the clock of the issuing thread
  bool is_counted = true;                  // counts as an item of the launch queue
};

struct stream {
  std::size_t number = 0;
  int device = 0, priority = 0;
  bool is_blocking = false;  // waits for the default stream and vice versa
  bool is_legacy = false, is_inner = false, is_destroyed = false;
  bool is_of_thread = false;  // the default stream of a thread

  std::size_t line = 0;
  std::vector<std::size_t> lanes;  // lines of concurrent work within one item
  vector_clock clock;

  std::deque<work> queue;
  std::string doing;  // empty: nothing
  std::vector<footprint> touching;
  std::vector<void const*> holding;
  std::size_t counted = 0;  // unfinished items that count
  std::size_t finished = 0;
  std::condition_variable arrived;
  bool is_closing = false;
  std::thread worker;
  splitmix random{0};

  std::size_t waits = 0;
  std::shared_ptr<fake::capture> capture;
  std::vector<std::size_t> front;  // predecessors of the next captured node
  std::size_t branch = 0;
  std::weak_ptr<communicator> unsettled;  // whose last group may not be on the stream yet

  std::string text() const;
  bool is_idle() const { return queue.empty() && doing.empty(); }
  /// Returns true if the thread takes no more work.
  bool has_ended() const { return is_closing && is_idle(); }
};

std::shared_ptr<stream> make_stream(runtime& r, int device, bool is_blocking, int priority);
/// Lets the worker end once the queue is empty.
void close(stream& s);

/// Returns the stream of that handle for the calling thread, or reports it as invalid and returns null.
std::shared_ptr<stream> find_stream(runtime& r, host_thread& t, cudaStream_t handle, char const* function);

/// Issues `w`: into the queue or, if the stream is being captured, into a graph. Its memory must be valid.
/// May wait for a free place in the queue.
cudaError_t issue(runtime& r, host_thread& t, stream& s, work w, runtime_lock& lock);
/// Enqueues `w` unconditionally.
void push(stream& s, work w);
/// Returns work that marks the point after all issued work; it waits for nothing.
work mark_work(std::shared_ptr<mark> m, clock_snapshot known);
std::shared_ptr<mark> push_mark(runtime& r, host_thread& t, stream& s);
void push_wait(runtime& r, host_thread& t, stream& s, std::shared_ptr<mark> of);
/// Waits on the host until `m` is reached.
void wait_for(runtime& r, mark const& m, runtime_lock& lock);

/// Reports the accesses of an item to the race log. Returns false, and reports it, if memory is unallocated
/// or freed.
bool touch(runtime& r, stream& s, std::vector<footprint> const& memory, std::string const& name);
void touch(runtime& r, vector_clock const& clock, std::size_t line, footprint const& f,
           std::string const& name);

}  // namespace cleave::testing::fake
