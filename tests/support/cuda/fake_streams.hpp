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

/// What is put on a stream. `run` may happen several times, where a graph is launched several times.
struct work {
  enum class kind { kernel, copy, fill, host_function, message, memory, mark };

  kind is = kind::mark;
  std::string name;
  /// On the stream's thread; the lock is held when it begins and when it ends.
  std::function<void(stream&, runtime_lock&)> run;
  std::vector<footprint> memory = {};      // that it touches, where that is known when it is issued
  std::vector<void const*> pointers = {};  // that it was given, where no more is known
  clock_snapshot issued = nullptr;         // what whoever issued it knew
  bool is_counted = true;                  // as an item of the launch queue
};

struct stream {
  std::size_t number = 0;
  int device = 0, priority = 0;
  bool is_blocking = false;  // it and the default stream wait for each other
  bool is_legacy = false, is_inner = false, is_destroyed = false;
  bool is_of_thread = false;  // the default stream of one

  std::size_t line = 0;
  std::vector<std::size_t> lanes;  // lines of what goes on at once within one item
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
  std::vector<std::size_t> front;  // nodes that the next captured one comes after
  std::size_t branch = 0;
  std::weak_ptr<communicator> unsettled;  // whose last group is not known to be on the stream

  std::string text() const;
  bool is_idle() const { return queue.empty() && doing.empty(); }
  /// Its thread takes no more work.
  bool has_ended() const { return is_closing && is_idle(); }
};

std::shared_ptr<stream> make_stream(runtime& r, int device, bool is_blocking, int priority);
/// Lets the worker end once the queue is empty.
void close(stream& s);

/// The stream of that handle as the calling thread means it, or nothing, which is reported.
std::shared_ptr<stream> find_stream(runtime& r, host_thread& t, cudaStream_t handle, char const* function);

/// Issues `w`: into the queue or, where the stream is being captured, into a graph. What it touches must be
/// there. May wait for a place in the queue.
cudaError_t issue(runtime& r, host_thread& t, stream& s, work w, runtime_lock& lock);
/// Into the queue, unconditionally.
void push(stream& s, work w);
/// A place behind all that was issued; waits for nothing.
work mark_work(std::shared_ptr<mark> m, clock_snapshot known);
std::shared_ptr<mark> push_mark(runtime& r, host_thread& t, stream& s);
void push_wait(runtime& r, host_thread& t, stream& s, std::shared_ptr<mark> of);
/// Waits, on the host, until `m` is reached.
void wait_for(runtime& r, mark const& m, runtime_lock& lock);

/// Tells the race log what an item touches. What is not there, or not any more, is reported; then false.
bool touch(runtime& r, stream& s, std::vector<footprint> const& memory, std::string const& name);
void touch(runtime& r, vector_clock const& clock, std::size_t line, footprint const& f,
           std::string const& name);

}  // namespace cleave::testing::fake
