// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"

namespace cleave::inline v0_2 {

/// The end of a message: its sender or its receiver.
enum class message_side : std::uint8_t { send, receive };

/// A rank's end of a message that is about to be issued. `Communicator` identifies a queue of the
/// communication library, for instance by number, name or pair of ranks. It must be ordered, and both ends
/// must agree on the order.
template <class Communicator>
struct message_end {
  message_side side;
  rank_id peer;
  Communicator communicator;
};

/// Messages that are issued in one call, as positions in a list of ends.
using issue_group = std::vector<std::size_t>;

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Appends the issue groups for some ends of one communicator. If all ends have the same direction, they are
/// issued one by one in the given order, because they cannot wait for each other. If both directions occur,
/// all are issued as one group, because either peer may wait for both.
template <class Communicator>
void append_issues(std::vector<message_end<Communicator>> const& ends, std::span<std::size_t const> some,
                   std::vector<issue_group>& to) {
  bool const mixed =
      std::ranges::any_of(some, [&](std::size_t i) { return ends[i].side != ends[some.front()].side; });
  if (mixed)
    to.emplace_back(some.begin(), some.end());
  else
    for (auto const i : some) to.push_back({i});
}

/// Calls `f(positions)` for each group of positions whose ends have the same key. Keys ascend; positions
/// within a group keep their order.
template <class Communicator, class Key, class F>
void each_run(std::vector<message_end<Communicator>> const& ends, std::vector<std::size_t> some, Key key,
              F f) {
  std::vector<std::size_t> order(some.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    auto const &one = key(ends[some[a]]), &other = key(ends[some[b]]);
    return one != other ? one < other : a < b;
  });
  for (auto& i : order) i = some[i];
  some = std::move(order);
  for (std::size_t first = 0, last = 0; first < some.size(); first = last) {
    while (last < some.size() && key(ends[some[last]]) == key(ends[some[first]])) ++last;
    f(std::span<std::size_t const>(some).subspan(first, last - first));
  }
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the groups in which a rank issues the ends at positions `some` of `ends` if they are due at the
/// same time. Communicators are visited in ascending order, so that neighbours agree. PyTorch uses the same
/// order. O(ends log ends).
template <class Communicator>
std::vector<issue_group> issue_order(std::vector<message_end<Communicator>> const& ends,
                                     std::vector<std::size_t> some) {
  std::vector<issue_group> issues;
  detail::each_run(
      ends, std::move(some), [](auto const& e) -> auto const& { return e.communicator; },
      [&](std::span<std::size_t const> run) { detail::append_issues(ends, run, issues); });
  return issues;
}

/// Returns the groups in which a rank issues all ends. O(ends log ends).
template <class Communicator>
std::vector<issue_group> issue_order(std::vector<message_end<Communicator>> const& ends) {
  std::vector<std::size_t> all(ends.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return issue_order(ends, std::move(all));
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The messages that a rank issues to and from one peer.
struct peer_issues {
  rank_id peer;
  std::vector<issue_group> issues;

  bool operator==(peer_issues const&) const = default;
};

/// Returns the issue groups of each peer, peers ascending, each ordered as in `issue_order`. If all ranks
/// keep this order, messages with several peers cannot form a cycle of ranks that wait for each other's next
/// peer. O(ends log ends).
template <class Communicator>
std::vector<peer_issues> issue_order_by_peer(std::vector<message_end<Communicator>> const& ends) {
  std::vector<std::size_t> all(ends.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  std::vector<peer_issues> order;
  each_run(
      ends, std::move(all), [](auto const& e) -> auto const& { return e.peer; },
      [&](std::span<std::size_t const> run) {
        order.push_back({ends[run.front()].peer, issue_order(ends, {run.begin(), run.end()})});
      });
  return order;
}

}  // namespace cleave::detail
