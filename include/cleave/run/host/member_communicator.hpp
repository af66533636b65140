// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/group_transfer.hpp"

namespace cleave::inline v0_2 {

/// The communicator of one member of a group of ranks that are threads. Issued messages progress without
/// further calls. Messages between the same two ranks match in order; nothing else is ordered. Reductions add
/// in the order of the members.
template <device D, class Group>
class member_communicator {
 public:
  /// `group` must outlive it. Precondition: `member` < `group.size()`.
  member_communicator(Group& group, std::uint32_t member) : group_(&group), member_(member) {
    expects(member < group.size(), "member_communicator: a member of the group");
  }

  rank_id rank() const { return rank_id{member_}; }
  std::uint32_t size() const { return group_->size(); }

  void begin_group() { pending_.clear(); }
  void send(region r, message const& m, typename D::stream&) {
    pending_.push_back(detail::group_transfer::send(r, m));
  }
  void receive(region r, message const& m, typename D::stream&) {
    pending_.push_back(detail::group_transfer::receive(r, m));
  }
  void all_reduce(region r, reduce_op op, std::uint32_t number, typename D::stream&) {
    pending_.push_back(detail::group_transfer::reduce(r, op, number));
    ++reductions_;
  }
  /// Issues the collected transfers.
  /// \throws the errors of `Group::issue`
  void end_group(typename D::event& e, typename D::stream& s) {
    group_->issue(member_, pending_, first_reduction_, e, s);
    first_reduction_ = reductions_;
  }

  std::optional<failure> poll() const { return group_->ranks().poll(); }
  void abort(failure const& f) noexcept { group_->ranks().publish(f); }

 private:
  Group* group_;
  std::uint32_t member_;
  std::vector<detail::group_transfer> pending_;
  std::uint64_t reductions_ = 0, first_reduction_ = 0;
};
}  // namespace cleave
