// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/run/concepts.hpp"
#include "cleave/run/group_transfer.hpp"
#include "cleave/run/host/host_event.hpp"
#include "cleave/run/host/host_memory.hpp"
#include "cleave/run/host/host_ranks.hpp"
#include "cleave/run/sums/sum_in_order.hpp"

namespace cleave {

/// Ranks of one process that send each other messages: where sends wait for their receives, and receives for
/// their sends. A message is copied, from memory to memory, by whoever comes second; the first goes on
/// meanwhile. It may be used from all ranks at once.
class host_group {
 public:
  /// `members[i]` is the rank, among `ranks`, of member i; all differ. `ranks` must outlive it.
  host_group(host_ranks& ranks, std::vector<rank_id> members)
      : ranks_(&ranks), members_(std::move(members)), channels_(members_.size() * members_.size()) {}

  std::uint32_t size() const { return static_cast<std::uint32_t>(members_.size()); }
  host_ranks& ranks() const { return *ranks_; }

  /// Member `member` begins all of these; `end` happens when all have ended. Its reductions are numbered in
  /// the order in which it issues them, and the first of these is number `reductions`. Preconditions: members
  /// there are; memory that stays until the run has ended or failed, and nobody takes part in it any more.
  void issue(std::uint32_t member, std::span<group_transfer const> all, std::uint64_t reductions,
             host_event& end) {
    if (all.empty()) return end.pass();
    auto& count = end.expect(static_cast<std::uint32_t>(all.size()));
    for (auto const& t : all) {
      issued const here{t, &count};
      if (t.how == group_transfer::kind::send)
        meet(member, index(t.what.peer), here);
      else if (t.how == group_transfer::kind::receive)
        meet(index(t.what.peer), member, here);
      else
        reduce(member, reductions++, here);
    }
  }

 private:
  struct issued : group_transfer {
    host_event::count* end;  // told when it has ended
  };
  /// What one member has issued for one other and the other has not met yet: sends only, or receives only.
  struct alignas(64) channel {
    std::mutex mutex;
    std::vector<issued> waiting;  // from `first` on
    std::size_t first = 0;
    group_transfer::kind are = group_transfer::kind::send;
  };
  /// For so many messages that wait at once nothing is allocated but at the first.
  static constexpr std::size_t room = 256, at_once = 16;
  struct reduction {
    std::vector<issued> parts;
    std::uint32_t arrived = 0;
  };

  /// Whoever comes last to a reduction does it: in the order of the members, for all.
  void reduce(std::uint32_t at, std::uint64_t number, issued const& part) {
    std::lock_guard lock(reductions_mutex_);
    while (reductions_.size() <= number - first_reduction_) begin_reduction();
    auto& r = reductions_[static_cast<std::size_t>(number - first_reduction_)];
    r.parts[at] = part;
    if (++r.arrived < size()) return;
    if (fits(r.parts)) {
      regions_.clear();
      for (auto const& p : r.parts) regions_.push_back(p.memory);
      sum_in_order(regions_, part.op);
      for (std::uint32_t m = 0; m < size(); ++m) end(m, r.parts[m]);
    }
    for (; !reductions_.empty() && reductions_.front().arrived == size(); ++first_reduction_) {
      ended_.push_back(std::move(reductions_.front()));
      reductions_.erase(reductions_.begin());
    }
  }

  /// With the memory of one that has ended, if any has. Some are made at once, as far as ranks get apart.
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

  void meet(std::uint32_t from, std::uint32_t to, issued const& here) {
    auto& c = channels_[std::size_t{from} * members_.size() + to];
    std::lock_guard lock(c.mutex);
    if (c.first == c.waiting.size() || c.are == here.how) {
      if (c.first == c.waiting.size()) c.waiting.clear(), c.first = 0;
      c.are = here.how;
      if (c.waiting.capacity() == 0) c.waiting.reserve(room);
      c.waiting.push_back(here);
      return;
    }
    issued const there = c.waiting[c.first++];
    bool const sends = here.how == group_transfer::kind::send;
    auto const &sent = sends ? here : there, &received = sends ? there : here;
    if (sent.what.number != received.what.number || sent.memory.bytes() != received.memory.bytes())
      return refuse(from, to, sent, received);
    if (sent.memory.bytes() > 0) std::memcpy(received.memory.data, sent.memory.data, sent.memory.bytes());
    end(from, sent);
    end(to, received);
  }

  void end(std::uint32_t member, issued const& i) {
    if (i.end->end_one()) ranks_->ring(members_[member]);
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
    ranks_->publish({.code = failure_code::mismatch,
                     .at = received.what.of,
                     .detail = rank(from) + " sends " + text_of(sent) + ", but " + rank(to) + " receives " +
                               text_of(received) + "; both must run the same program",
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
        return "rank " + std::to_string(index(members_[n])) + " brings " + text_of(parts[n]);
      };
      ranks_->publish({.code = failure_code::mismatch,
                       .detail = text(0) + ", but " + text(m) + "; both must run the same program",
                       .reporter = members_[m],
                       .culprit = members_[0]});
      return false;
    }
    return true;
  }

  host_ranks* ranks_;
  std::vector<rank_id> members_;
  std::vector<channel> channels_;  // from one member to another
  std::mutex reductions_mutex_;
  std::vector<reduction> reductions_, ended_;
  std::vector<region> regions_;
  std::uint64_t first_reduction_ = 0;
};

}  // namespace cleave
