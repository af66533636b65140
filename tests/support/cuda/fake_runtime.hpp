// SPDX-License-Identifier: MIT
#pragma once
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "support/cuda/fake_cuda.hpp"
#include "support/cuda/fake_events.hpp"
#include "support/cuda/fake_graphs.hpp"
#include "support/cuda/fake_memory.hpp"
#include "support/cuda/fake_streams.hpp"
#include "support/race_log.hpp"

namespace cleave::testing::fake {

struct communicator;
struct registered_memory;
struct world;

/// A calling thread, with a clock of the finished work that it knows.
struct host_thread {
  std::size_t line = 0;
  vector_clock clock;
  clock_snapshot known;          // `clock` joined with what all threads know; empty when out of date
  std::size_t known_lesson = 0;  // the last lesson of all threads in `known`
  int device = 0;
  cudaError_t last = cudaSuccess;
  cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;
  std::size_t waits = 0;
  std::string host_name;
};

struct gpu {
  fake_gpu is;
  std::size_t used = 0, limit = 0;
  cudaError_t broken = cudaSuccess;
  std::shared_ptr<stream> legacy;                                    // the default stream, once used
  std::map<host_thread const*, std::shared_ptr<stream>> of_threads;  // likewise, by thread
  std::vector<int> peers;                                            // devices that its kernels may access
  std::size_t groups = 0;                                            // message groups issued in all
  std::set<std::size_t> turns;                                       // unfinished message groups
};

/// A call that will fail, or a kernel that will hang.
struct injection {
  std::string name;
  std::size_t countdown;
  int code;
};

/// The whole state of the fake libraries. A single object, reset for each test and never deleted.
class runtime {
 public:
  static runtime& here();

  void begin(fake_cuda_options const& options);
  void end();

  /// Returns the calling thread's state. A new thread knows what all threads know.
  host_thread& thread();
  /// Returns the clock after which work that the calling thread issues now happens.
  clock_snapshot known(host_thread& t);
  void learn(host_thread& t, vector_clock const& clock);
  void learn_all(vector_clock const& clock);
  /// Joins the clocks of all threads.
  void meet();

  void report(std::string const& sentence);
  /// Counts a call. Returns a code if the call is to fail.
  std::optional<int> injected(std::string_view function);
  cudaError_t begin_call(host_thread& t, std::string_view function);

  /// Lets nothing hang from now on.
  void release();
  /// Waits until all streams are idle or none makes progress.
  void settle(std::unique_lock<std::mutex>& lock);

  std::mutex mutex;                 // of all below
  std::condition_variable changed;  // something has ended
  std::mutex
      data;  // held for copies and kernels: unordered accesses are reported, but never race in the fake
  fake_cuda_options options;
  std::vector<gpu> gpus;
  std::optional<race_log> log;
  memory_map memory;
  std::map<void const*, std::shared_ptr<stream>> streams;  // including destroyed ones
  std::map<void const*, std::shared_ptr<event>> events;
  std::map<void const*, std::shared_ptr<graph>> graphs;
  std::map<void const*, std::shared_ptr<graph_exec>> graph_execs;
  std::map<void const*, std::shared_ptr<memory_pool>> pools;
  std::map<void const*, std::shared_ptr<communicator>> communicators;
  std::map<std::string, std::shared_ptr<world>> worlds;  // by unique id
  std::vector<std::string> misuse;                       // sentences

  std::function<bool(fake_wait const&)> ignored_waits;
  std::size_t waits = 0;
  std::vector<missed_wait> missed;
  std::vector<injection> injections, hanging;
  std::map<std::string, std::size_t, std::less<>> calls;
  std::vector<fake_nccl_hang> hanging_nccl;
  struct death {
    int rank;
    std::size_t countdown;
    fake_death how;
  };
  std::vector<death> deaths;
  bool released = false, ending = false;
  std::size_t group_threads = 0, connecting_groups = 0, unregistered_messages = 0;
  std::map<std::string, std::uint64_t, std::less<>> nccl_bytes;             // of messages and sums, by call
  std::map<void const*, std::shared_ptr<registered_memory>> registrations;  // by handle
  std::set<void const*> of_nccl;                                            // from ncclMemAlloc
  std::size_t stream_count = 0, event_count = 0, communicator_count = 0, unique_ids = 0;

 private:
  friend struct thread_of_host;
  runtime() { start({}); }
  void start(fake_cuda_options const& o);

  std::vector<std::shared_ptr<host_thread>> threads_;
  vector_clock all_;
  std::size_t lessons_ = 0;
  std::uint64_t epoch_ = 0;
};

/// True while the calling thread, which is that of a stream, is in a function of the host. It must not call
/// CUDA then.
bool& is_in_host_function();

/// Runs a call of the runtime: `f(runtime, thread, lock)`, unless it must fail before.
template <class F>
cudaError_t call(std::string_view function, F f) {
  auto& r = runtime::here();
  std::unique_lock lock(r.mutex);
  if (is_in_host_function()) r.report(std::string(function) + " inside a function of the host");
  auto& t = r.thread();
  auto error = r.begin_call(t, function);
  if (error == cudaSuccess) error = f(r, t, lock);
  if (error != cudaSuccess) t.last = error;
  return error;
}

}  // namespace cleave::testing::fake
