// SPDX-License-Identifier: MIT
#include "cleave/run/rendezvous/tcp_rendezvous.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <vector>

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("terms_of: messages have room for any failure and activity, even with small broadcasts") {
  failure f{failure_code::stage, stage_call{stage_id{1}, microbatch_id{2}}, std::string(longest_detail, 'x')};
  f.operation = std::string(longest_detail, 'y');
  rank_activity const waits{activity_kind::waiting, std::vector<rank_id>(1000, rank_id{3}), f.at,
                            std::string(longest_detail, 'z')};
  tcp_rendezvous_options o{.key = "a key that all of them know"};
  for (std::size_t const most : {std::size_t{0}, std::size_t{100'000}}) {
    o.largest_broadcast = most;
    auto const terms = terms_of(o, 1000);
    CHECK(failed_message({rank_id{1}, portable(f)}).body.size() <= terms.largest);
    CHECK(activity_message(waits).body.size() <= terms.largest);
    barrier_arrival const a{.root = rank_id{0}, .size = most, .bytes = std::string(most, 'b')};
    CHECK(arrive_message(a).body.size() <= terms.largest);
  }
}

TEST_CASE(
    "terms_of: takes key and rank count from its arguments, and the join deadline counts from the call") {
  tcp_rendezvous_options const o{.key = "a key that all of them know",
                                 .join_within = std::chrono::seconds(7)};
  auto const before = std::chrono::steady_clock::now();
  auto const terms = terms_of(o, 3);
  CHECK(terms.ranks == 3);
  CHECK(terms.key == o.key);
  CHECK(terms.join_until >= before + o.join_within);
  CHECK(terms.join_until <= std::chrono::steady_clock::now() + o.join_within);
}
