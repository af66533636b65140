// SPDX-License-Identifier: MIT
#include "cleave/schedule/lower/issue_order.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

using end_of_message = message_end<int>;
constexpr auto sends = message_side::send, receives = message_side::receive;

/// A naive version of the rule, one communicator after the other.
std::vector<issue_group> plain_order(std::vector<end_of_message> const& ends,
                                     std::vector<std::size_t> const& some) {
  std::map<int, std::vector<std::size_t>> of;
  for (auto const i : some) of[ends[i].communicator].push_back(i);
  std::vector<issue_group> issues;
  for (auto const& [communicator, all] : of) {
    std::size_t sent = 0;
    for (auto const i : all) sent += ends[i].side == sends;
    if (sent > 0 && sent < all.size()) {
      issues.push_back(all);
    } else {
      for (auto const i : all) issues.push_back({i});
    }
  }
  return issues;
}

}  // namespace

TEST_CASE("issue_order: messages of one direction are issued one by one, both directions together") {
  CHECK(issue_order<int>({}).empty());
  CHECK(issue_order<int>({{sends, rank_id{2}, 0}, {sends, rank_id{1}, 0}}) ==
        std::vector<issue_group>{{0}, {1}});
  CHECK(issue_order<int>({{receives, rank_id{1}, 0}, {sends, rank_id{2}, 0}}) ==
        std::vector<issue_group>{{0, 1}});
}

TEST_CASE("issue_order: communicators ascend, so that both ends of an edge agree") {
  std::vector<end_of_message> const here{{sends, rank_id{1}, 7}, {receives, rank_id{1}, 4}};
  std::vector<end_of_message> const there{{receives, rank_id{0}, 7}, {sends, rank_id{0}, 4}};
  CHECK(issue_order(here) == std::vector<issue_group>{{1}, {0}});
  CHECK(issue_order(there) == issue_order(here));
}

TEST_CASE("issue_order: random messages match a naive version of the rule, even by peer") {
  testing::rng random(1);
  for (int round = 0; round < 500; ++round) {
    std::vector<end_of_message> ends;
    std::map<std::uint32_t, std::vector<std::size_t>> of_peer;
    std::vector<std::size_t> all;
    for (auto count = random.below(9); count > 0; --count) {
      auto const peer = static_cast<std::uint32_t>(random.below(3));
      all.push_back(ends.size());
      of_peer[peer].push_back(ends.size());
      ends.push_back({random.one_in(2) ? sends : receives, rank_id{peer}, static_cast<int>(random.below(3))});
    }
    CHECK(issue_order(ends) == plain_order(ends, all));
    std::vector<peer_issues> expected;
    for (auto const& [peer, some] : of_peer) expected.push_back({rank_id{peer}, plain_order(ends, some)});
    CHECK(issue_order_by_peer(ends) == expected);
  }
}
