// SPDX-License-Identifier: MIT
#include "cleave/run/rendezvous/protocol.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;
using cleave::testing::rng;

namespace {

std::string random_text(rng& random, std::size_t longest) {
  std::string text;
  for (auto n = random.below(longest + 1); n > 0; --n) text += static_cast<char>(random.below(256));
  return text;
}
rank_id random_rank(rng& random) {
  return random.one_in(4) ? no_rank : rank_id{static_cast<std::uint32_t>(random.next())};
}
std::optional<stage_call> random_call(rng& random) {
  if (random.one_in(2)) return std::nullopt;
  return stage_call{stage_id{static_cast<std::uint32_t>(random.next())},
                    microbatch_id{static_cast<std::uint32_t>(random.next())}};
}

published_failure random_failure(rng& random) {
  failure f{static_cast<failure_code>(random.below(7)), random_call(random), random_text(random, 80)};
  f.reporter = random_rank(random);
  f.culprit = random_rank(random);
  f.operation = random_text(random, 30);
  return {random_rank(random), f};
}
rank_activity random_activity(rng& random) {
  rank_activity a{
      static_cast<activity_kind>(random.below(5)), {}, random_call(random), random_text(random, 30)};
  for (auto n = random.below(5); n > 0; --n) a.peers.push_back(random_rank(random));
  return a;
}
bool equal(published_failure const& a, published_failure const& b) {
  return a.by == b.by && a.what.code == b.what.code && a.what.at == b.what.at &&
         a.what.detail == b.what.detail && a.what.reporter == b.what.reporter &&
         a.what.culprit == b.what.culprit && a.what.operation == b.what.operation;
}

/// Returns whether `read` accepts the bytes instead of throwing a message error.
template <class F>
bool is_taken(F read, std::string const& bytes) {
  try {
    read(bytes);
    return true;
  } catch (rendezvous_message_error const&) {
    return false;
  }
}

}  // namespace

TEST_CASE("rendezvous_message: reading returns what was written") {
  rng random(17);
  for (int round = 0; round < 500; ++round) {
    auto const p = random_failure(random);
    CHECK(equal(read_failed(failed_message(p).body), p));
    auto const a = random_activity(random);
    CHECK(read_activity(activity_message(a).body) == a);
    barrier_arrival here{random.next(), random_rank(random), random.next(), {}, random_text(random, 50)};
    here.timeout = std::chrono::microseconds(random.below(1'000'000'000));
    auto const there = read_arrive(arrive_message(here).body);
    CHECK(there.number == here.number);
    CHECK(there.root == here.root);
    CHECK(there.size == here.size);
    CHECK(there.timeout == here.timeout);
    CHECK(there.bytes == here.bytes);
  }
}

TEST_CASE("rendezvous_message: rejects messages that are truncated or too long") {
  rng random(18);
  for (int round = 0; round < 20; ++round) {
    auto const failed = failed_message(random_failure(random)).body;
    auto const activity = activity_message(random_activity(random)).body;
    for (std::size_t n = 0; n < failed.size(); ++n) CHECK_FALSE(is_taken(read_failed, failed.substr(0, n)));
    for (std::size_t n = 0; n < activity.size(); ++n)
      CHECK_FALSE(is_taken(read_activity, activity.substr(0, n)));
    CHECK_FALSE(is_taken(read_failed, failed + "x"));
    CHECK_FALSE(is_taken(read_activity, activity + "x"));
  }
  CHECK_FALSE(is_taken(read_arrive, std::string(27, '\0')));
  CHECK(is_taken(read_arrive, std::string(28, '\0')));
  CHECK_FALSE(is_taken(read_arrive, std::string(28, '\xff')));
}

TEST_CASE("rendezvous_message: random and altered bytes are accepted or rejected without other errors") {
  rng random(19);
  std::size_t taken = 0;
  for (int round = 0; round < 5000; ++round) {
    auto bytes = random.one_in(2) ? random_text(random, 80) : failed_message(random_failure(random)).body;
    if (!bytes.empty()) bytes[random.below(bytes.size())] = static_cast<char>(random.below(256));
    taken += is_taken(read_failed, bytes);
    taken += is_taken(read_activity, bytes);
    taken += is_taken(read_arrive, bytes);
  }
  CHECK(taken > 0);
}

TEST_CASE("shortened: cuts texts between characters") {
  CHECK(shortened("abcdef", 6) == "abcdef");
  CHECK(shortened("abcdefg", 6) == "abc…");
  CHECK(shortened("ääää", 6) == "ä…");
  CHECK(shortened("ääää", 7) == "ää…");
  CHECK(shortened("€€€€", 5) == "…");
  failure f{failure_code::stage, {}, std::string(10'000, 'x')};
  f.operation = f.detail;
  CHECK(portable(f).detail.size() == longest_detail);
  CHECK(portable(f).operation.size() == longest_operation);
}

TEST_CASE("are_missing: lists missing ranks, and counts them if there are many") {
  std::vector<rank_id> ranks = {rank_id{1}};
  CHECK(are_missing(ranks) == "rank 1 is missing");
  ranks.push_back(rank_id{3});
  CHECK(are_missing(ranks) == "rank 1 and rank 3 are missing");
  ranks.push_back(rank_id{5});
  CHECK(are_missing(ranks) == "rank 1, rank 3 and rank 5 are missing");
  for (std::uint32_t r = 6; r < 20; ++r) ranks.push_back(rank_id{r});
  CHECK(are_missing(ranks) ==
        "rank 1, rank 3, rank 5, rank 6, rank 7, rank 8, rank 9, rank 10 and 9 more are missing");
}
