// SPDX-License-Identifier: MIT
#include "support/allocation_faults.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "support/failing_new.hpp"

using namespace cleave;
using testing::allocation_faults;

namespace {

/// Returns how many allocations fail of `count` while the n-th one must.
int failures_of(int count, int n, allocation_faults::exhaustion how) {
  int failed = 0;
  allocation_faults::fail_at(n, how);
  for (int i = 0; i < count; ++i) {
    void* const p = ::operator new(8, std::nothrow);
    failed += p == nullptr ? 1 : 0;
    ::operator delete(p);
  }
  allocation_faults::stop();
  return failed;
}

}  // namespace

TEST_CASE("allocation_faults: the n-th allocation fails, and all later ones if they must") {
  CHECK(failures_of(10, 3, allocation_faults::exhaustion::once) == 1);
  CHECK(failures_of(10, 3, allocation_faults::exhaustion::lasting) == 8);
  CHECK(failures_of(10, 11, allocation_faults::exhaustion::lasting) == 0);
  CHECK_FALSE(allocation_faults::fired);
}

TEST_CASE("allocation_faults: all ways to allocate are counted, on all threads") {
  auto const before = allocation_faults::live.load();
  struct alignas(128) wide {
    char byte = 0;
  };
  {
    auto const one = std::make_unique<int>(1);
    auto const several = std::make_unique<std::string[]>(3);
    auto const aligned = std::make_unique<wide>();
    CHECK(allocation_faults::live - before == 3);
    std::thread([&] { CHECK(std::make_unique<int>(2)); }).join();
    CHECK(allocation_faults::live - before == 3);
  }
  CHECK(allocation_faults::live == before);
}

TEST_CASE("check_each_failure: fails each allocation of a call in turn") {
  std::vector<std::size_t> reached;
  reached.reserve(1000);
  testing::check_each_failure([&] {
    reached.push_back(0);
    std::vector<std::unique_ptr<std::size_t>> made(5);
    for (auto& p : made) {
      p = std::make_unique<std::size_t>(reached.back());
      ++reached.back();
    }
    return reached.back();
  });
  // Twice all 5, and for each kind of failure 0 of them (no room for the list), 0, 1, … 4 and at last 5.
  CHECK(reached == std::vector<std::size_t>{5, 5, 0, 0, 1, 2, 3, 4, 5, 0, 0, 1, 2, 3, 4, 5});
}
