// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>
#include <cstddef>

#include "cleave/core/ids.hpp"
#include "cleave/run/host/host_event.hpp"
#include "cleave/run/host/host_memory.hpp"
#include "cleave/run/host/host_ranks.hpp"
#include "cleave/run/model/concepts.hpp"

namespace cleave {

/// The processor, as the thread of one rank uses it. A stream is the thread that issues to it: what was
/// issued has run when the call returns, but for transfers, which go on. So waiting for an event is waiting.
class host_device : public host_memory {
 public:
  struct stream {};
  using event = detail::host_event;

  /// `ranks` must outlive it. Precondition: there is such a rank.
  host_device(host_ranks& ranks, rank_id here) : ranks_(&ranks), rank_(here) {}

  stream make_stream(int /*priority*/) { return {}; }
  event make_event() { return {}; }
  void record(event& e, stream&) { e.pass(); }
  /// \throws run_error once the run has failed
  void wait(stream&, event const& e) {
    if (!e.happened()) ranks_->wait(rank_, [&] { return e.happened(); });
  }
  bool query(event const& e) const { return e.happened(); }
  std::chrono::nanoseconds elapsed(event const& from, event const& to) const { return to.at() - from.at(); }

  void copy(stream&, void* to, void const* from, std::size_t bytes) { copy_bytes(to, from, bytes); }
  void accumulate(stream&, sums const& s, accumulate_options const& options) { run_sums(s, options); }

 private:
  host_ranks* ranks_;
  rank_id rank_;
};

static_assert(measuring_device<host_device>);
}  // namespace cleave
