// SPDX-License-Identifier: MIT
#include "support/queued/stream_task.hpp"

#include <doctest/doctest.h>

#include <array>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

using namespace cleave;
using namespace cleave::testing;

using namespace cleave::detail;

static_assert(std::is_nothrow_move_constructible_v<stream_task> && !std::copy_constructible<stream_task>);

TEST_CASE("stream_task: small and large callables run correctly, also after a move") {
  int sum = 0;
  std::array<int, 100> many{};
  many[99] = 30;
  std::vector<stream_task> tasks;
  tasks.emplace_back([&sum] { sum += 1; });
  tasks.emplace_back([&sum, many] { sum += many[99]; });
  tasks.emplace_back([&sum, own = std::make_unique<int>(500)] { sum += *own; });
  for (auto& t : tasks) t();
  CHECK(sum == 531);
  stream_task last = std::move(tasks[2]);
  CHECK_FALSE(tasks[2]);
  last();
  CHECK(sum == 1031);
}

TEST_CASE("stream_task: destroys its callable exactly once") {
  auto const held = std::make_shared<int>(0);
  {
    stream_task a([held] {});
    std::array<char, 500> room{};
    stream_task b([held, room] { (void)room; });
    CHECK(held.use_count() == 3);
    a = std::move(b);
    CHECK(held.use_count() == 2);
    a = stream_task();
    CHECK(held.use_count() == 1);
    CHECK_FALSE(a);
    a = stream_task([held] {});
  }
  CHECK(held.use_count() == 1);
}
