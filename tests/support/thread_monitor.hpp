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

/// Threads that share a state, of which one at a time looks at it or changes it, and which wait for what they
/// see there. Whoever changes it asks what the others wait for; so if all wait, nothing will ever change, and
/// that is known without looking at a clock.
class thread_monitor {
 public:
  /// Runs each as a thread until it ends, or all that have not ended wait. Whether all ended.
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

  /// Called by a thread: until `holds()`, or for ever.
  void wait_until(std::function<bool()> const& holds) {
    if (holds()) return;
    if (stuck_) throw stopped{};
    auto& here = waiting_[self().number];
    here.holds = &holds;
    if (++blocked_ == running_) stop();
    // The bound is for a twin that is wrong; a deadlock never waits for it.
    while (here.holds && !stuck_)
      if (here.wake.wait_for(*self().lock, std::chrono::minutes(1)) == std::cv_status::timeout) {
        late_ = true;
        stop();
      }
    if (std::exchange(here.holds, nullptr)) throw stopped{};
  }

  /// Called by a thread that has changed something, or has ended.
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
