// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace cleave::testing {

/// Threads that share a state under one lock and wait for conditions on it. A thread that changes the state
/// evaluates the conditions of the others. So if all threads wait, they are deadlocked, which is known
/// without a timeout.
class thread_monitor {
 public:
  /// Runs each body on a thread until all have ended or all remaining ones wait. Returns true if all ended.
  bool run(std::vector<std::function<void()>> const& bodies) {
    running_ = bodies.size();
    for (std::size_t t = 0; t < bodies.size(); ++t) waiting_.emplace_back();
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < bodies.size(); ++t)
      threads.emplace_back([this, t, &body = bodies[t]] {
        std::unique_lock lock(mutex_);
        self() = {t, &lock};
        try {
          body();
        } catch (stopped const&) {
        }
        --running_;
        changed();
      });
    for (auto& t : threads) t.join();
    if (late_) throw std::runtime_error("a thread waited for a minute: the twin is wrong");
    return !stuck_;
  }

  /// Called by a thread: waits until `holds()`, possibly for ever.
  void wait_until(std::function<bool()> const& holds) {
    if (holds()) return;
    if (stuck_) throw stopped{};
    auto& here = waiting_[self().number];
    here.holds = &holds;
    if (++blocked_ == running_) stop();
    // The timeout is for a wrong reference implementation; a deadlock never reaches it.
    while (here.holds && !stuck_)
      if (here.wake.wait_for(*self().lock, std::chrono::minutes(1)) == std::cv_status::timeout) {
        late_ = true;
        stop();
      }
    if (std::exchange(here.holds, nullptr)) throw stopped{};
  }

  /// Called by a thread that has changed the state or has ended.
  void changed() {
    if (stuck_) return;
    for (auto& w : waiting_)
      if (w.holds && (*w.holds)()) {
        w.holds = nullptr;
        --blocked_;
        w.wake.notify_one();
      }
    if (running_ > 0 && blocked_ == running_) stop();
  }

 private:
  struct stopped {};
  struct waiter {
    std::function<bool()> const* holds = nullptr;
    std::condition_variable wake;
  };
  struct identity {
    std::size_t number = 0;
    std::unique_lock<std::mutex>* lock = nullptr;
  };
  static identity& self() {
    thread_local identity here;
    return here;
  }

  void stop() {
    stuck_ = true;
    for (auto& w : waiting_) w.wake.notify_one();
  }

  std::mutex mutex_;
  std::deque<waiter> waiting_;
  std::size_t running_ = 0, blocked_ = 0;
  bool stuck_ = false, late_ = false;
};

}  // namespace cleave::testing
