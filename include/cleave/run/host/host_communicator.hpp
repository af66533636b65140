// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/run/concepts.hpp"
#include "cleave/run/host/host_device.hpp"
#include "cleave/run/host/host_group.hpp"

namespace cleave {

/// One member of a `host_group`. Messages go on by themselves once they are issued; those of a pair of ranks
/// match in order, and nothing else is ordered.
class host_communicator {
 public:
  /// `group` must outlive it. Precondition: there is such a member.
  host_communicator(host_group& group, std::uint32_t member) : group_(&group), member_(member) {
    expects(member < group.size(), "host_communicator: a member of the group");
  }

  rank_id rank() const { return rank_id{member_}; }
  std::uint32_t size() const { return group_->size(); }

  void begin_group() { pending_.clear(); }
  void send(region r, message const& m, host_device::stream&) { pending_.push_back({r, m, kind::send}); }
  void receive(region r, message const& m, host_device::stream&) {
    pending_.push_back({r, m, kind::receive});
  }
  void all_reduce(region r, reduce_op op, std::uint32_t number, host_device::stream&) {
    pending_.push_back({r, {rank(), number, {}}, op == reduce_op::sum ? kind::sum : kind::max});
  }

  void end_group(host_device::event& e, host_device::stream&) {
    if (pending_.empty()) return e.pass();
    auto& end = e.expect(static_cast<std::uint32_t>(pending_.size()));
    for (auto const& p : pending_) {
      host_group::issued const here{p.memory, p.what, &end};
      if (p.how == kind::send)
        group_->send(member_, index(p.what.peer), here);
      else if (p.how == kind::receive)
        group_->receive(index(p.what.peer), member_, here);
      else
        group_->reduce(member_, reductions_++, here, p.how == kind::sum ? reduce_op::sum : reduce_op::max);
    }
  }

  std::optional<failure> poll() const { return group_->ranks().poll(); }
  void abort(failure const& f) noexcept { group_->ranks().publish(f); }

 private:
  enum class kind : std::uint8_t { send, receive, sum, max };
  struct pending {
    region memory;
    message what;
    kind how;
  };

  host_group* group_;
  std::uint32_t member_;
  std::vector<pending> pending_;
  std::uint64_t reductions_ = 0;
};

static_assert(communicator<host_communicator, host_device>);

}  // namespace cleave
