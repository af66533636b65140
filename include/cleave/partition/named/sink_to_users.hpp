// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/partition/model/partition.hpp"
#include "cleave/partition/model/validity.hpp"
#include "cleave/partition/named/cut_points.hpp"

namespace cleave::inline v0_2::detail {

/// Moves nodes within the limits that values and effects permit. Used by `sink_to_users`.
template <std::unsigned_integral Index>
class sink_to_users_pass {
 public:
  sink_to_users_pass(basic_snapshot_arrays<Index> const& s, cut_partition p)
      : s_(s), p_(std::move(p)), fixed_(s.nodes()), followed_(s.nodes(), part_id{p_.parts}) {
    for (Index const v : s.outputs)
      if (s.producer[v] != none<Index>) fixed_[s.producer[v]] = 1;
    for (auto const n : p_.markers) fixed_[n] = 1;
    for (std::size_t n = 0; n < s.nodes(); ++n) {
      if (is_replicable(s, n)) fixed_[n] = 1;
      if (!s.group.empty() && s.group[n] != n) fixed_[n] = fixed_[s.group[n]] = 1;
    }
  }

  template <class F>
  cut_partition sink(F& may_sink) {
    std::vector<char> moves(s_.nodes());
    for (std::size_t n = 0; n < s_.nodes(); ++n) moves[n] = !fixed_[n] && may_sink(n);
    for (std::size_t n = s_.nodes(); n-- > 0;) {
      if (moves[n] && is_read(n)) p_.of[n] = (std::min)(first_reader(n), followed_[n]);
      for (Index const m : s_.after[n])
        if (!is_replicable(s_, n)) followed_[m] = (std::min)(followed_[m], p_.of[n]);
    }
    for (std::size_t n = 0; n < s_.nodes(); ++n)
      if (moves[n] && !is_read(n)) p_.of[n] = last_needed(n);
    return std::move(p_);
  }

 private:
  bool is_read(std::size_t n) const {
    return std::ranges::any_of(s_.results[n], [&](Index v) { return !s_.users[v].empty(); });
  }

  part_id first_reader(std::size_t n) const {
    part_id first{p_.parts};
    for (Index const v : s_.results[n])
      for (Index const m : s_.users[v])
        if (!is_replicable(s_, m)) first = (std::min)(first, p_.of[m]);
    return index(first) < p_.parts ? first : p_.of[n];
  }

  /// Returns the part of an unread node: the last part of its predecessors, or its own if it has none.
  part_id last_needed(std::size_t n) const {
    part_id last{0};
    bool predecessors = false;
    auto const need = [&](std::size_t m) {
      last = (std::max)(last, p_.of[m]);
      predecessors = true;
    };
    for (Index const v : s_.operands[n])
      if (Index const m = s_.producer[v]; m != none<Index> && !is_replicable(s_, m)) need(m);
    for (Index const m : s_.after[n])
      if (!is_replicable(s_, m)) need(m);
    return predecessors ? last : p_.of[n];
  }

  basic_snapshot_arrays<Index> const& s_;
  cut_partition p_;
  std::vector<char> fixed_;
  std::vector<part_id> followed_;  // per node: first part with a node that must run after it
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns `p` with nodes moved to the parts that need them. `may_sink(n)`, called once per position, decides
/// which nodes may move. Nodes that are read move to the first part that reads them. Nodes that run for their
/// effect move to the part of their last predecessor. Graph outputs, replicable nodes, markers and nodes that
/// must share a part stay. Intended for nodes without a gradient, such as masks and positions computed from
/// the inputs, checks and messages: sinking them saves transfers. Parts without nodes keep their numbers;
/// `make_pipe_plan` omits them. O(V + E).
/// \throws partition_error if a value goes from a part to an earlier one
template <std::unsigned_integral Index, class F>
  requires std::predicate<F&, std::size_t>
cut_partition sink_to_users(basic_snapshot_arrays<Index> const& s, cut_partition p, F may_sink) {
  if (auto const back = detail::find_backward_edge(s, p))
    detail::raise(partition_error("sink_to_users requires that parts run in ascending order, but " +
                                      detail::part_label(s, p, back->consumer) + " depends on " +
                                      detail::part_label(s, p, back->producer),
                                  {back->producer, back->consumer}));
  return detail::sink_to_users_pass<Index>(s, std::move(p)).sink(may_sink);
}

}  // namespace cleave
