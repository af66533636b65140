// SPDX-License-Identifier: MIT
#pragma once
#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "cleave/run/model/failure.hpp"
#include "support/cases.hpp"

namespace cleave::testing {

/// The allocations of this program, whose operator new is that of `support/failing_new.hpp`. The n-th one
/// after `fail_at(n)` fails, and with `exhaustion::lasting` all that follow it.
struct allocation_faults {
  enum class exhaustion : std::uint8_t { once, lasting };

  static void fail_at(std::int64_t n, exhaustion how) {
    lasting = how == exhaustion::lasting;
    fired = false;
    left = n;
  }
  static void stop() { left = 0; }

  /// Counts an allocation, and returns true if it must fail.
  static bool fails() noexcept {
    if (left.load(std::memory_order_relaxed) <= 0) return false;
    auto const before = left.fetch_sub(1);
    if (before > 1 || before <= 0) return false;
    if (lasting) left = 1;
    return fired = true;
  }

  static inline std::atomic<std::int64_t> left = 0;  ///< allocations up to the one that fails; 0: none does
  static inline std::atomic<std::int64_t> live = 0;  ///< allocations that were not freed yet
  static inline std::atomic<bool> fired = false, lasting = false;
};

/// Returns true if the exception says that there was no memory: it is a bad_alloc, or a failure of a run
/// that one caused.
inline bool tells_of_no_memory(std::exception_ptr const& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (std::bad_alloc const&) {
    return true;
  } catch (run_error const& e) {
    return e.info.cause ? tells_of_no_memory(e.info.cause)
                        : e.info.detail.find("memory") != std::string::npos ||
                              e.info.detail.find("bad_alloc") != std::string::npos;
  } catch (std::exception const& e) {
    return std::string_view(e.what()).find("out of memory") != std::string_view::npos;
  } catch (...) {
    return false;
  }
}

/// Returns the text of an exception.
inline std::string text_of(std::exception_ptr const& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (std::exception const& e) {
    return e.what();
  } catch (...) {
    return "something that is no exception";
  }
}

/// Calls `f` again and again, each time with another allocation that fails, until none does. Each of the
/// first 25 fails once (300 if all cases run), then one in three (sixteen) of so many. Each call must throw
/// that there was no memory or succeed with the result of a call without failures, leak nothing, and leave
/// what it was given as `kept()` expects.
template <class F, class Kept>
void check_each_failure(F f, Kept kept) {
  using faults = allocation_faults;
  auto const every = static_cast<std::int64_t>(cases(25, 300)),
             part = static_cast<std::int64_t>(cases(3, 16));
  auto const expected = f();
  CHECK(f() == expected);  // and all that is made once has been made
  CHECK(kept());
  for (auto const how : {faults::exhaustion::once, faults::exhaustion::lasting}) {
    std::int64_t failed = 0;
    bool ended = false, wrong = false;
    for (std::int64_t n = 1; !ended && !wrong; n += n < every ? 1 : n / part) {
      auto const before = faults::live.load();
      std::exception_ptr thrown;
      bool same = true;
      faults::fail_at(n, how);
      try {
        auto const result = f();
        faults::stop();
        same = result == expected;
      } catch (...) {
        faults::stop();
        thrown = std::current_exception();
      }
      ended = !faults::fired;
      std::string said;
      if (!same) said = "the result is another one";
      if (ended && thrown) said = "it throws although no allocation failed: " + text_of(thrown);
      if (thrown && !tells_of_no_memory(thrown)) said = "it throws: " + text_of(thrown);
      if (!kept()) said += " what it was given has changed";
      thrown = nullptr;
      auto const leaked = faults::live - before - (said.capacity() > 15 ? 1 : 0);
      if (leaked != 0) said += " allocations that were not freed: " + std::to_string(leaked);
      wrong = !said.empty();
      failed += ended ? 0 : 1;
      if (wrong)
        FAIL_CHECK("allocation ", n,
                   std::string(how == faults::exhaustion::once ? "" : " and all later ones"), ": ", said);
    }
    CHECK((wrong || failed > 0));
  }
}

template <class F>
void check_each_failure(F f) {
  check_each_failure(std::move(f), [] { return true; });
}

}  // namespace cleave::testing
