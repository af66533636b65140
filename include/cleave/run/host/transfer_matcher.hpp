// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/run/host/host_ranks.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/group_transfer.hpp"
#include "cleave/run/model/stable_list.hpp"

namespace cleave::inline v0_2::detail {

/// Matches the sends, receives and reductions of the ranks of one process. It transfers nothing itself: the
/// rank that completes a match calls the carrier, and the other ranks are not blocked. Thread-safe. Each
/// transfer carries an `End`, an object that is notified when it has ended.
template <class End>
class transfer_matcher {
 public:
  struct issued : group_transfer {
    End end;
  };

  /// `members[i]` is the rank of member i among `ranks`; all differ. `ranks` must outlive it.
  transfer_matcher(host_ranks& ranks, std::vector<rank_id> members)
      : ranks_(&ranks), members_(std::move(members)), inboxes_(members_.size()) {}

  std::uint32_t size() const { return static_cast<std::uint32_t>(members_.size()); }
  host_ranks& ranks() const { return *ranks_; }
  rank_id rank_of(std::uint32_t member) const { return members_[member]; }

  /// Issues the transfers `all` of member `member`. A member's reductions are numbered in issue order; the
  /// first reduction in `all` has number `reductions`.
  ///
  /// For each message that this call completes, it calls `carrier.copy(from, to, sent, received)` with member
  /// numbers, serialised per pair of members. For each reduction that it completes, it calls
  /// `carrier.reduce(parts)`, serialised over all. A mismatch fails the run.
  ///
  /// Preconditions: all members exist. Memory stays valid until the run has ended, or has failed and no rank
  /// takes part in it any more.
  template <class Carrier>
  void issue(std::uint32_t member, std::span<group_transfer const> all, std::uint64_t reductions, End end,
             Carrier& carrier) {
    for (auto const& t : all) {
      issued const here{t, end};
      if (t.how == group_transfer::kind::send)
        meet(member, index(t.what.peer), here, carrier);
      else if (t.how == group_transfer::kind::receive)
        meet(index(t.what.peer), member, here, carrier);
      else
        join(member, reductions++, here, carrier);
    }
  }

 private:
  /// The unmatched transfers from one member to another: all sends, or all receives.
  struct channel {
    std::mutex mutex;
    std::vector<issued> waiting;  // valid from position `first`
    std::size_t first = 0;
    group_transfer::kind are = group_transfer::kind::send;

    bool is_empty() const { return first == waiting.size(); }
    /// Appends a transfer. Amortised O(1).
    void add(issued const& i) {
      if (is_empty()) waiting.clear(), first = 0;
      if (waiting.capacity() == 0) waiting.reserve(room);
      if (waiting.size() == waiting.capacity() && first >= waiting.size() / 2) {
        waiting.erase(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(first));
        first = 0;
      }
      waiting.push_back(i);
    }
  };
  /// The channels to one member. Pairs of members without messages have none, since most members of a large
  /// group never meet.
  struct inbox {
    struct sender {
      std::uint32_t member;
      std::size_t channel;  // index into `channels`
    };
    std::mutex mutex;
    std::vector<sender> senders;  // ascending by member
    stable_list<channel> channels;
  };
  /// Capacity reserved at the first message, so that up to `room` waiting messages need no further
  /// allocation.
  static constexpr std::size_t room = 32, at_once = 16;
  struct reduction {
    std::vector<issued> parts;
    std::uint32_t arrived = 0;
  };

  channel& channel_of(std::uint32_t from, std::uint32_t to) {
    auto& in = inboxes_[to];
    std::lock_guard lock(in.mutex);
    auto const at = std::ranges::lower_bound(in.senders, from, {}, &inbox::sender::member);
    if (at != in.senders.end() && at->member == from) return in.channels[at->channel];
    auto& made = in.channels.emplace();
    in.senders.insert(at, {from, in.channels.size() - 1});
    return made;
  }

  template <class Carrier>
  void meet(std::uint32_t from, std::uint32_t to, issued const& here, Carrier& carrier) {
    auto& c = channel_of(from, to);
    std::lock_guard lock(c.mutex);
    if (c.is_empty() || c.are == here.how) {
      c.are = here.how;
      return c.add(here);
    }
    issued const there = c.waiting[c.first++];
    bool const sends = here.how == group_transfer::kind::send;
    auto const &sent = sends ? here : there, &received = sends ? there : here;
    if (sent.what.number != received.what.number || sent.memory.bytes() != received.memory.bytes())
      return refuse(from, to, sent, received);
    carrier.copy(from, to, sent, received);
  }

  template <class Carrier>
  void join(std::uint32_t at, std::uint64_t number, issued const& part, Carrier& carrier) {
    std::lock_guard lock(reductions_mutex_);
    while (reductions_.size() <= number - first_reduction_) begin_reduction();
    auto& r = reductions_[static_cast<std::size_t>(number - first_reduction_)];
    r.parts[at] = part;
    if (++r.arrived < size()) return;
    if (fits(r.parts)) carrier.reduce(std::span<issued const>(r.parts));
    for (; !reductions_.empty() && reductions_.front().arrived == size(); ++first_reduction_) {
      ended_.push_back(std::move(reductions_.front()));
      reductions_.erase(reductions_.begin());
    }
  }

  /// Opens a reduction, reusing the memory of an ended one. Allocates `at_once` at a time.
  void begin_reduction() {
    if (ended_.empty()) {
      reductions_.reserve(reductions_.size() + at_once);
      ended_.resize(at_once);
      for (auto& r : ended_) r.parts.resize(size());
    }
    ended_.back().arrived = 0;
    reductions_.push_back(std::move(ended_.back()));
    ended_.pop_back();
  }

  static std::string text_of(issued const& i) {
    auto const text = "message " + std::to_string(i.what.number);
    auto const bytes = " of " + std::to_string(i.memory.bytes()) + " bytes";
    if (i.how != group_transfer::kind::reduction) return text + bytes;
    return text + (i.op == reduce_op::sum ? ", the sum" : ", the maximum") + bytes + " of " +
           std::string(name_of(i.memory.type));
  }

  void refuse(std::uint32_t from, std::uint32_t to, issued const& sent, issued const& received) {
    auto const rank = [&](std::uint32_t m) { return "rank " + std::to_string(index(members_[m])); };
    ranks_->publish(failure{.code = failure_code::mismatch,
                            .at = received.what.of,
                            .detail = rank(from) + " sends " + text_of(sent) + ", but " + rank(to) +
                                      " receives " + text_of(received) + "; both must run the same program",
                            .reporter = members_[to],
                            .culprit = members_[from]});
  }

  bool fits(std::vector<issued> const& parts) {
    auto const& a = parts.front();
    for (std::uint32_t m = 1; m < parts.size(); ++m) {
      auto const& b = parts[m];
      if (b.what.number == a.what.number && b.memory.count == a.memory.count &&
          b.memory.type == a.memory.type && b.op == a.op)
        continue;
      auto const text = [&](std::uint32_t n) {
        return "rank " + std::to_string(index(members_[n])) + " contributes " + text_of(parts[n]);
      };
      ranks_->publish(failure{.code = failure_code::mismatch,
                              .detail = text(0) + ", but " + text(m) + "; both must run the same program",
                              .reporter = members_[m],
                              .culprit = members_[0]});
      return false;
    }
    return true;
  }

  host_ranks* ranks_;
  std::vector<rank_id> members_;
  std::vector<inbox> inboxes_;  // by receiver
  std::mutex reductions_mutex_;
  std::vector<reduction> reductions_, ended_;
  std::uint64_t first_reduction_ = 0;
};

}  // namespace cleave::detail
