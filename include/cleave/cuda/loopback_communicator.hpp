// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/cuda/device.hpp"
#include "cleave/cuda/loopback_group.hpp"
#include "cleave/run/concepts.hpp"
#include "cleave/run/group_transfer.hpp"

namespace cleave {

/// One member of a `loopback_group`. Messages go on by themselves once they are issued; those of a pair of
/// ranks match in order, and nothing else is ordered. Sums are made in the order of the members.
class loopback_communicator {
 public:
  /// `group` must outlive it. Precondition: there is such a member.
  loopback_communicator(loopback_group& group, std::uint32_t member) : group_(&group), member_(member) {
    expects(member < group.size(), "loopback_communicator: a member of the group");
  }

  rank_id rank() const { return rank_id{member_}; }
  std::uint32_t size() const { return group_->size(); }

  void begin_group() { pending_.clear(); }
  void send(region r, message const& m, cuda_stream&) { pending_.push_back(group_transfer::send(r, m)); }
  void receive(region r, message const& m, cuda_stream&) {
    pending_.push_back(group_transfer::receive(r, m));
  }
  void all_reduce(region r, reduce_op op, std::uint32_t number, cuda_stream&) {
    pending_.push_back(group_transfer::reduce(r, op, number));
    ++reductions_;
  }
  /// \throws cuda_error
  void end_group(cuda_event& e, cuda_stream& s) {
    group_->issue(member_, pending_, first_reduction_, e, s);
    first_reduction_ = reductions_;
  }

  std::optional<failure> poll() const { return group_->ranks().poll(); }
  void abort(failure const& f) noexcept { group_->ranks().publish(f); }

 private:
  loopback_group* group_;
  std::uint32_t member_;
  std::vector<group_transfer> pending_;
  std::uint64_t reductions_ = 0, first_reduction_ = 0;
};

static_assert(communicator<loopback_communicator, cuda_device>);

}  // namespace cleave
