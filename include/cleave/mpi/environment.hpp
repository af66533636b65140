// SPDX-License-Identifier: MIT
#pragma once
#include <mpi.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string>
#include <thread>

#include "cleave/core/ids.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/mpi/detail/check.hpp"

namespace cleave::inline v0_2::mpi {

/// Options of `mpi::environment`.
struct environment_options {
  /// Time limit for MPI_Finalize, which waits for other ranks. After that the process exits without it.
  std::chrono::milliseconds finalize_within{10'000};
  /// Time that a failed rank waits before it exits. The others can then report their errors before the
  /// launcher kills them.
  std::chrono::milliseconds linger{200};
};

/// Initialises and finalises MPI for a program whose threads call MPI one at a time (MPI_THREAD_SERIALIZED).
/// Errors of MPI_COMM_WORLD are returned instead of aborting. If MPI is already initialised, it is used as it
/// is and not finalised.
class environment {
 public:
  /// Initialises MPI.
  /// \throws mpi_error if the library provides a lower thread level, or has been finalised
  explicit environment(mpi::environment_options const& o = {}) : options_(o) {
    int begun = 0, ended = 0, level = MPI_THREAD_SINGLE;
    detail::check_mpi(MPI_Initialized(&begun));
    detail::check_mpi(MPI_Finalized(&ended));
    if (ended != 0)
      throw detail::mpi_error("MPI was already finalized in this process; it cannot be initialized again",
                              MPI_ERR_OTHER);
    if (begun != 0)
      detail::check_mpi(MPI_Query_thread(&level));
    else
      detail::check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level));
    owns_ = begun == 0;
    if (level < MPI_THREAD_SERIALIZED) {
      if (owns_) MPI_Finalize();
      throw detail::mpi_error(thread_level_message(level), MPI_ERR_OTHER);
    }
    detail::check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    detail::check_mpi(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    detail::check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank_));
    detail::check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size_));
  }
  environment(mpi::environment const&) = delete;
  mpi::environment& operator=(mpi::environment const&) = delete;
  /// Calls MPI_Finalize, with a time limit, unless this rank has failed.
  ~environment() {
    if (owns_ && !failed_ && std::uncaught_exceptions() == exceptions_) finalize();
  }

  rank_id rank() const { return rank_id{static_cast<std::uint32_t>(rank_)}; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(size_); }

  /// Returns the error message for an MPI that provides only `level`.
  static std::string thread_level_message(int level) {
    char const* const name = level == MPI_THREAD_SINGLE     ? "MPI_THREAD_SINGLE"
                             : level == MPI_THREAD_FUNNELED ? "MPI_THREAD_FUNNELED"
                                                            : "less";
    return std::string("MPI provides ") + name +
           ", but MPI_THREAD_SERIALIZED is required; use a library that supports it, or initialize MPI with "
           "it";
  }

  /// Exits the process without MPI_Finalize, which would wait for lost ranks and unreceived messages. The
  /// launcher then ends the job. Flushes output, but runs no destructors.
  [[noreturn]] void leave(int status) const {
    std::fflush(nullptr);
    std::this_thread::sleep_for(options_.linger);
    std::_Exit(status);
  }

  /// Calls `body()` and returns its status. If it throws, prints the error to stderr in one line, without
  /// control characters, and exits with status 1.
  template <class F>
  int run(F body) {
    try {
      return body();
    } catch (std::exception const& e) {
      report(e.what());
    } catch (...) {
      report("an exception that does not derive from std::exception");
    }
    failed_ = true;
    leave(1);
  }

 private:
  /// Prints one line in a single call, so that lines of several ranks do not mix.
  void report(char const* what) const {
    constexpr std::size_t longest = 4000;
    auto const line = "rank " + std::to_string(rank_) + " ends: " + printable(what, longest) + "\n";
    std::fputs(line.c_str(), stderr);
  }

  void finalize() {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    std::thread bound([&] {
      std::unique_lock lock(mutex);
      if (changed.wait_for(lock, options_.finalize_within, [&] { return done; })) return;
      report("MPI_Finalize did not return in time");
      std::_Exit(1);
    });
    MPI_Finalize();
    {
      std::lock_guard lock(mutex);
      done = true;
    }
    changed.notify_one();
    bound.join();
  }

  mpi::environment_options options_;
  bool owns_ = false, failed_ = false;
  int exceptions_ = std::uncaught_exceptions();
  int rank_ = 0, size_ = 1;
};
}  // namespace cleave::mpi
