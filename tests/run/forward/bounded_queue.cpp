// SPDX-License-Identifier: MIT
#include "cleave/run/forward/forward.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("bounded_queue: passes all values between threads in order and never exceeds its capacity") {
  for (std::size_t const capacity : {1u, 2u, 3u, 7u}) {
    bounded_queue<int> queue(capacity);
    std::thread writer([&] {
      for (int i = 0; i < 5000; ++i) {
        int value = i;
        if (!queue.push(value)) return;
      }
    });
    std::vector<int> seen;
    for (int value = -1; seen.size() < 5000 && queue.pop(value);) seen.push_back(value);
    writer.join();
    bool in_order = true;
    for (int i = 0; i < 5000; ++i) in_order = in_order && seen[static_cast<std::size_t>(i)] == i;
    CHECK(in_order);
    CHECK(queue.most() <= capacity);
    CHECK(queue.most() > 0);
  }
}

TEST_CASE("bounded_queue: a push waits while the queue is full") {
  bounded_queue<int> queue(2);
  std::atomic<int> pushed = 0;
  std::thread writer([&] {
    for (int i = 0; i < 3; ++i) {
      int value = i;
      queue.push(value);
      ++pushed;
    }
  });
  while (pushed < 2) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(pushed == 2);
  int value = -1;
  CHECK(queue.pop(value));
  writer.join();
  CHECK(value == 0);
  CHECK(pushed == 3);
  CHECK(queue.most() == 2);
}

TEST_CASE("bounded_queue: close() releases both sides and leaves a refused value untouched") {
  bounded_queue<std::unique_ptr<int>> full(1), empty(1);
  auto first = std::make_unique<int>(1);
  CHECK(full.push(first));
  std::atomic<int> refused = 0;
  std::thread writer([&] {
    auto second = std::make_unique<int>(2);
    if (!full.push(second) && second && *second == 2) ++refused;
  });
  std::thread reader([&] {
    std::unique_ptr<int> value;
    if (!empty.pop(value) && !value) ++refused;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  full.close();
  empty.close();
  writer.join();
  reader.join();
  CHECK(refused == 2);
  std::unique_ptr<int> left;
  CHECK_FALSE(full.pop(left));
}
