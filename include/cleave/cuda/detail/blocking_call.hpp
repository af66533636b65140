// SPDX-License-Identifier: MIT
#pragma once
#include <cuda_runtime_api.h>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <thread>
#include <utility>

#include "cleave/cuda/check.hpp"

namespace cleave::inline v0_2::detail {

/// Waits between two looks at something that another thread or process will change: first it yields, then it
/// sleeps.
inline void pause(std::uint32_t turn) noexcept {
  if (turn < 100) return std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::microseconds(turn < 1000 ? 20 : 200));
}

/// A call that may block, on a thread of its own, with a GPU as the current one. So the caller can give it
/// up.
class blocking_call {
 public:
  using clock = std::chrono::steady_clock;

  /// Begins the call `f()`. What `f` refers to must live until it has ended.
  template <class F>
  blocking_call(int gpu, F f)
      : state_(std::make_shared<state>()), thread_([s = state_, gpu, own = std::move(f)]() mutable {
          try {
            cuda::check(cudaSetDevice(gpu), "cudaSetDevice");
            if (!s->is_decided.exchange(true)) own();
          } catch (...) {
            s->error = std::current_exception();
          }
          s->has_ended.store(true, std::memory_order_release);
        }) {}
  blocking_call(blocking_call&&) = delete;
  /// Waits for the end of the call, unless it was left.
  ~blocking_call() {
    if (thread_.joinable()) thread_.join();
  }

  /// Returns true once the call has ended, or false at `until` or once `given_up()` is true.
  template <class GivenUp>
  bool ends_by(clock::time_point until, GivenUp given_up) const {
    for (std::uint32_t turn = 0; !state_->has_ended.load(std::memory_order_acquire); ++turn) {
      if (given_up() || clock::now() >= until) return false;
      pause(turn);
    }
    return true;
  }

  /// Keeps the call from beginning. Returns true if it has begun before.
  bool prevent() { return state_->is_decided.exchange(true); }
  /// Throws the exception of the call, if there is one. Precondition: it has ended.
  void rethrow() const {
    if (state_->error) std::rethrow_exception(state_->error);
  }
  /// Leaves the thread to itself.
  void leave() { thread_.detach(); }

 private:
  struct state {
    std::atomic<bool> is_decided = false;  // that the call begins, or that it never does
    std::atomic<bool> has_ended = false;
    std::exception_ptr error;
  };

  std::shared_ptr<state> state_;
  std::thread thread_;
};

}  // namespace cleave::detail
