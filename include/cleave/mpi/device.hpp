// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>
#include <cstddef>

#include "cleave/mpi/event.hpp"
#include "cleave/mpi/progress.hpp"
#include "cleave/run/host/host_memory.hpp"
#include "cleave/run/model/concepts.hpp"

namespace cleave {

/// The processor, as one rank that is a process uses it. A stream is the thread that issues to it: what was
/// issued has run when the call returns, but for messages, which go on. So waiting for an event is waiting,
/// and asking MPI meanwhile. One thread uses it, the one that uses its communicators.
class mpi_device : public host_memory {
 public:
  struct stream {};
  using event = detail::mpi_event;

  explicit mpi_device(mpi_patience const& p = {}) : run_(p) {}
  mpi_device(mpi_device const&) = delete;
  mpi_device& operator=(mpi_device const&) = delete;

  /// What is on its way from and to this rank.
  detail::mpi_progress& run() { return run_; }

  stream make_stream(int /*priority*/) { return {}; }
  event make_event() { return {}; }
  void record(event& e, stream&) { e.expect().pass(); }
  /// \throws run_error once the run has failed
  void wait(stream&, event const& e) {
    run_.wait([&] { return e.happened(); });
  }
  bool query(event const& e) {
    if (!e.happened()) run_.advance();
    return e.happened();
  }
  std::chrono::nanoseconds elapsed(event const& from, event const& to) const { return to.at() - from.at(); }

  void copy(stream&, void* to, void const* from, std::size_t bytes) { copy_bytes(to, from, bytes); }
  void accumulate(stream&, sums const& s, accumulate_options const& options) { run_sums(s, options); }

 private:
  detail::mpi_progress run_;
};

static_assert(measuring_device<mpi_device>);
}  // namespace cleave
