// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/run/host/host_device.hpp"
#include "cleave/run/host/host_group.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/group_transfer.hpp"
#include "cleave/schedule/model/delivery.hpp"
#include "support/queued/queued_device.hpp"

namespace cleave::testing {

using namespace detail;

/// One member of a `host_group`, with threads as streams. The messages between `begin_group` and `end_group`
/// are one work item of their stream. It must outlive the streams that it was given.
class queued_communicator {
 public:
  /// `group` must outlive it. With `delivery::one_queue` the work item ends when all messages of the group
  /// have ended, so that the next group begins after it, as on a GPU. With `delivery::async` it ends when all
  /// have begun.
  /// Preconditions: one of these two delivery modes, and a valid member.
  queued_communicator(host_group& group, std::uint32_t member, delivery ends = delivery::one_queue)
      : group_(&group), member_(member), ends_(ends) {
    expects(member < group.size(), "queued_communicator: a member of the group");
    expects(ends == delivery::one_queue || ends == delivery::async,
            "queued_communicator: messages in one queue, or by themselves");
  }

  rank_id rank() const { return rank_id{member_}; }
  std::uint32_t size() const { return group_->size(); }

  void begin_group() { open_ = free_batch(); }
  void send(region r, message const& m, queued_stream&) { add(group_transfer::send(r, m)); }
  void receive(region r, message const& m, queued_stream&) { add(group_transfer::receive(r, m)); }
  void all_reduce(region r, reduce_op op, std::uint32_t number, queued_stream&) {
    add(group_transfer::reduce(r, op, number));
    ++reductions_;
  }

  void end_group(queued_event& e, queued_stream& s) {
    expects(open_ != nullptr, "queued_communicator: begin_group");
    auto b = std::exchange(open_, nullptr);
    std::shared_ptr<host_event const> end(b, &b->end);
    s.call([this, b = std::move(b), here = s.work_place()] {
      group_->issue(member_, b->transfers, b->first_reduction, b->end);
      b->started.store(true, std::memory_order_release);
      if (ends_ == delivery::one_queue) here.wait([&] { return b->end.happened(); });
    });
    queued_device::record(e, s, std::move(end));
  }

  std::optional<failure> poll() const { return group_->ranks().poll(); }
  void abort(failure const& f) noexcept { group_->ranks().publish(f); }

 private:
  /// Other ranks end its event even after this rank has failed, so it lives as long as the communicator.
  struct batch {
    std::vector<group_transfer> transfers;
    std::uint64_t first_reduction = 0;
    host_event end;
    std::atomic<bool> started = false;
  };

  /// Returns an unused batch; the batches of a step are reused in the order of the step before.
  std::shared_ptr<batch> free_batch() {
    if (next_ == batches_.size()) next_ = 0;
    auto const is_free = [](std::shared_ptr<batch> const& b) {
      return b.use_count() == 1 && b->started.load(std::memory_order_acquire) && b->end.happened();
    };
    if (batches_.empty() || !is_free(batches_[next_])) {
      next_ = batches_.size();
      batches_.push_back(std::make_shared<batch>());
    }
    auto const& b = batches_[next_++];
    b->transfers.clear();
    b->first_reduction = reductions_;
    b->started.store(false, std::memory_order_relaxed);
    return b;
  }
  void add(group_transfer const& t) {
    expects(open_ != nullptr, "queued_communicator: begin_group");
    open_->transfers.push_back(t);
  }

  host_group* group_;
  std::uint32_t member_;
  delivery ends_;
  std::vector<std::shared_ptr<batch>> batches_;
  std::size_t next_ = 0;
  std::shared_ptr<batch> open_;
  std::uint64_t reductions_ = 0;
};

static_assert(communicator<queued_communicator, queued_device>);

}  // namespace cleave::testing
