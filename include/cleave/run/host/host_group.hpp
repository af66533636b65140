// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
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

namespace cleave::inline v0_2::detail {

/// Ends one transfer of an event of rank `r`.
inline void end_transfer(host_ranks& ranks, rank_id r, host_event* e) {
  if (e->end_one()) ranks.ring(r, e);
}

/// Links over which messages arrive at once.
struct immediate_links {
  void move(host_ranks& ranks, rank_id from, rank_id to, std::size_t /*bytes*/, host_event* left,
            host_event* arrived) const {
    end_transfer(ranks, from, left);
    end_transfer(ranks, to, arrived);
  }
};

/// A group of ranks in one process that send each other messages. Sends and receives wait here for their
/// counterparts. The rank that issues the second of a pair copies the message from memory to memory; the
/// first is not blocked. `Links` decides when a copied message has left and arrived. Thread-safe.
template <class Links>
class linked_group {
 public:
  /// `members[i]` is the rank of member i among `ranks`; all differ. `ranks` must outlive it.
  linked_group(host_ranks& ranks, std::vector<rank_id> members, Links links = {})
      : matcher_(ranks, std::move(members)), links_(links) {}

  std::uint32_t size() const { return matcher_.size(); }
  host_ranks& ranks() const { return matcher_.ranks(); }

  /// Issues the transfers `all` of member `member`, as `transfer_matcher::issue`. `end` happens when all have
  /// ended. The stream is the calling thread.
  void issue(std::uint32_t member, std::span<group_transfer const> all, std::uint64_t reductions,
             host_event& end, host_device::stream const& = {}) {
    if (all.empty()) return end.pass();
    matcher_.issue(member, all, reductions, &end.expect(static_cast<std::uint32_t>(all.size())), *this);
  }

 private:
  using matcher = transfer_matcher<host_event*>;
  friend matcher;

  void copy(std::uint32_t from, std::uint32_t to, matcher::issued const& sent,
            matcher::issued const& received) {
    auto const bytes = sent.memory.bytes();
    if (bytes > 0) std::memcpy(received.memory.data, sent.memory.data, bytes);
    links_.move(ranks(), matcher_.rank_of(from), matcher_.rank_of(to), bytes, sent.end, received.end);
  }

  /// Reduces in the order of the members.
  void reduce(std::span<matcher::issued const> parts) {
    regions_.clear();
    for (auto const& p : parts) regions_.push_back(p.memory);
    sum_in_order(regions_, parts.front().op);
    for (std::uint32_t m = 0; m < size(); ++m) end_transfer(ranks(), matcher_.rank_of(m), parts[m].end);
  }

  matcher matcher_;
  Links links_;
  std::vector<region> regions_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// The group of `host_threads`, whose messages arrive at once.
using host_group = detail::linked_group<detail::immediate_links>;

}  // namespace cleave
