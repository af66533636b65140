// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

#include "cleave/core/joined_threads.hpp"

namespace cleave::inline v0_2::detail {

/// A number of threads that work on independent pieces. A piece must not depend on another piece, or on the
/// thread that runs it. The result is then the same for any number of threads.
class thread_team {
 public:
  explicit thread_team(std::uint32_t threads = 1) : threads_(threads ? threads : 1) {}
  std::uint32_t threads() const { return threads_; }

  /// Calls `work(piece)` for each piece below `pieces` and waits for all of them. Piece 0 runs on the thread
  /// of the caller. Rethrows the first exception.
  template <class Work>
  void share(std::size_t pieces, Work const& work) const {
    run(pieces, &work,
        [](void const* w, std::size_t piece, std::size_t) { (*static_cast<Work const*>(w))(piece); });
  }

  /// Calls `work(piece, thread)` with `thread` below `threads()`, so that each thread can use its own scratch
  /// data. The caller's is thread 0.
  template <class Work>
  void share_with_tools(std::size_t pieces, Work const& work) const {
    run(pieces, &work, [](void const* w, std::size_t piece, std::size_t thread) {
      (*static_cast<Work const*>(w))(piece, thread);
    });
  }

 private:
  using act = void (*)(void const* work, std::size_t piece, std::size_t thread);

  void run(std::size_t pieces, void const* work, act of) const {
    auto const helpers = std::min<std::size_t>(threads_, pieces);
    if (helpers <= 1) {
      for (std::size_t piece = 0; piece < pieces; ++piece) of(work, piece, 0);
      return;
    }
    std::atomic<std::size_t> next{helpers};  // each helper begins with the piece of its number
    std::vector<std::exception_ptr> failure(helpers);
    auto const help = [&](std::size_t helper) {
      try {
        for (auto piece = helper; piece < pieces; piece = next++) of(work, piece, helper);
      } catch (...) {
        failure[helper] = std::current_exception();
        next = pieces;
      }
    };
    {
      joined_threads others;
      others.list.reserve(helpers - 1);
      for (std::size_t helper = 1; helper < helpers; ++helper) others.list.emplace_back(help, helper);
      help(0);
    }
    for (auto const& e : failure)
      if (e) std::rethrow_exception(e);
  }

  std::uint32_t threads_;
};

}  // namespace cleave::detail
