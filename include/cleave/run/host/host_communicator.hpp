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
#include "cleave/run/group_transfer.hpp"
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
  void send(region r, message const& m, host_device::stream&) {
    pending_.push_back(group_transfer::send(r, m));
  }
  void receive(region r, message const& m, host_device::stream&) {
    pending_.push_back(group_transfer::receive(r, m));
  }
  void all_reduce(region r, reduce_op op, std::uint32_t number, host_device::stream&) {
    pending_.push_back(group_transfer::reduce(r, op, number));
    ++reductions_;
  }

  void end_group(host_device::event& e, host_device::stream&) {
    group_->issue(member_, pending_, first_reduction_, e);
    first_reduction_ = reductions_;
  }

  std::optional<failure> poll() const { return group_->ranks().poll(); }
  void abort(failure const& f) noexcept { group_->ranks().publish(f); }

 private:
  host_group* group_;
  std::uint32_t member_;
  std::vector<group_transfer> pending_;
  std::uint64_t reductions_ = 0, first_reduction_ = 0;
};

static_assert(communicator<host_communicator, host_device>);

}  // namespace cleave
