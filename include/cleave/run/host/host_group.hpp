// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/run/host/host_device.hpp"
#include "cleave/run/host/host_ranks.hpp"
#include "cleave/run/host/transfer_matcher.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/group_transfer.hpp"
#include "cleave/run/sums/sum_in_order.hpp"

namespace cleave::inline v0_2 {

/// A group of ranks in one process that send each other messages. Sends and receives wait here for their
/// counterparts. The rank that issues the second of a pair copies the message from memory to memory; the
/// first is not blocked. Thread-safe.
class host_group {
 public:
  /// `members[i]` is the rank of member i among `ranks`; all differ. `ranks` must outlive it.
  host_group(host_ranks& ranks, std::vector<rank_id> members) : matcher_(ranks, std::move(members)) {}

  std::uint32_t size() const { return matcher_.size(); }
  host_ranks& ranks() const { return matcher_.ranks(); }

  /// Issues the transfers `all` of member `member`, as `transfer_matcher::issue`. `end` happens when all have
  /// ended. The stream is the calling thread.
  void issue(std::uint32_t member, std::span<detail::group_transfer const> all, std::uint64_t reductions,
             detail::host_event& end, host_device::stream const& = {}) {
    if (all.empty()) return end.pass();
    matcher_.issue(member, all, reductions, &end.expect(static_cast<std::uint32_t>(all.size())), *this);
  }

 private:
  using matcher = detail::transfer_matcher<detail::host_event*>;
  friend matcher;

  void copy(std::uint32_t from, std::uint32_t to, matcher::issued const& sent,
            matcher::issued const& received) {
    if (sent.memory.bytes() > 0) std::memcpy(received.memory.data, sent.memory.data, sent.memory.bytes());
    end(from, sent);
    end(to, received);
  }

  /// Reduces in the order of the members.
  void reduce(std::span<matcher::issued const> parts) {
    regions_.clear();
    for (auto const& p : parts) regions_.push_back(p.memory);
    detail::sum_in_order(regions_, parts.front().op);
    for (std::uint32_t m = 0; m < size(); ++m) end(m, parts[m]);
  }

  void end(std::uint32_t member, matcher::issued const& i) {
    if (i.end->end_one()) ranks().ring(matcher_.rank_of(member), i.end);
  }

  matcher matcher_;
  std::vector<region> regions_;
};
}  // namespace cleave
