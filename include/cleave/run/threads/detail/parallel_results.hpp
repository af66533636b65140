// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "cleave/core/joined_threads.hpp"

namespace cleave::inline v0_2::detail {

/// Returns `f(0)` to `f(count - 1)`, called on several threads if there are many. If calls throw, throws what
/// the first of them threw.
template <class F>
std::vector<std::invoke_result_t<F&, std::uint32_t>> parallel_results(std::uint32_t count, F f) {
  constexpr std::uint32_t least = 2;  // calls for which a thread is worth its start
  std::vector<std::invoke_result_t<F&, std::uint32_t>> made(count);
  std::vector<std::exception_ptr> failures(count);
  std::atomic<std::uint32_t> next = 0;
  auto const work = [&]() noexcept {
    for (auto i = next++; i < count; i = next++) {
      try {
        made[i] = f(i);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    }
  };
  {
    joined_threads others;
    try {
      auto const wanted = (std::min)(std::thread::hardware_concurrency(), count / least);
      for (std::uint32_t t = 1; t < wanted; ++t) others.list.emplace_back(work);
    } catch (std::system_error const&) {
      // no more threads can be had: those that began and this one do the work
    }
    work();
  }
  for (auto const& failure : failures)
    if (failure) std::rethrow_exception(failure);
  return made;
}

}  // namespace cleave::detail
