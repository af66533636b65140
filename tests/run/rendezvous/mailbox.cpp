// SPDX-License-Identifier: MIT
#include "cleave/run/rendezvous/tcp_rendezvous.hpp"

#include <doctest/doctest.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace cleave;

using namespace cleave::detail;
using namespace std::chrono_literals;

namespace {

constexpr rank_id r0{0}, r1{1}, r2{2};

/// One rank of a rendezvous, without a thread.
struct desk {
  participant member;
  rendezvous_links links;
  mailbox post;

  explicit desk(std::uint32_t rank) : member(rank_id{rank}, 3), post(rank_id{rank}, 3, 50ms, member, links) {}

  /// Reads arrived messages and sends waiting ones.
  void go_on() {
    post.collect();
    post.deliver();
  }
};

/// Three ranks, connected as in a rendezvous.
struct desks {
  desk hub{0}, one{1}, two{2};

  explicit desks() {
    std::vector<std::optional<rendezvous_connection>> to(1);
    for (auto* other : {&one, &two}) {
      std::array<int, 2> ends{};
      REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) == 0);
      to.emplace_back(std::in_place, tcp_socket(ends[0]), other == &one ? r1 : r2, rendezvous_keys{}, 1000u);
      std::vector<std::optional<rendezvous_connection>> back;
      back.emplace_back(std::in_place, tcp_socket(ends[1]), r0, rendezvous_keys{}, 1000u);
      other->links.open(std::move(back));
    }
    hub.links.open(std::move(to));
  }
  /// Delivers all messages and their answers.
  void go_on() {
    for (int rounds = 0; rounds < 3; ++rounds)
      for (auto* d : {&one, &two, &hub}) d->go_on();
  }
  std::vector<std::optional<failure>> first() const {
    return {hub.member.first(), one.member.first(), two.member.first()};
  }
};

failure out_of_rows(rank_id at) { return {failure_code::stage, {}, "no such row", {}, at, at}; }

}  // namespace

TEST_CASE("mailbox: tells all ranks a failure that any rank proposes") {
  for (auto const from : {&desks::hub, &desks::one, &desks::two}) {
    desks all;
    auto& d = all.*from;
    auto const at = from == &desks::hub ? r0 : from == &desks::one ? r1 : r2;
    auto const said = d.member.propose(out_of_rows(at), std::chrono::steady_clock::now() + 1s);
    REQUIRE(said);
    d.post.send_to_hub(*said);
    d.post.deliver();
    all.go_on();
    for (auto const& f : all.first()) {
      REQUIRE(f);
      CHECK(f->reporter == at);
      CHECK(f->detail == "no such row");
    }
  }
}

TEST_CASE("mailbox: a closed connection is a lost rank for all, except after say_good_bye()") {
  desks all;
  all.two.links.open({});
  all.go_on();
  for (auto const* d : {&all.hub, &all.one}) {
    REQUIRE(d->member.first());
    CHECK(d->member.first()->code == failure_code::peer_lost);
    CHECK(d->member.first()->culprit == r2);
  }
  desks left;
  left.one.post.say_good_bye();
  left.two.post.say_good_bye();
  CHECK_FALSE(left.hub.post.is_done());
  left.go_on();
  CHECK(left.hub.post.is_done());
  left.two.links.open({});
  left.hub.post.say_good_bye();
  left.go_on();
  for (auto const& f : left.first()) CHECK_FALSE(f);
  for (auto const* d : {&left.hub, &left.one, &left.two}) CHECK(d->links.are_closed());
}

TEST_CASE("mailbox: rejects from others what only rank 0 may send, and names the sender") {
  desks all;
  all.two.links.put(r0, {message_kind::asked, {}});
  all.two.post.deliver();
  all.go_on();
  REQUIRE(all.one.member.first());
  auto const& f = *all.one.member.first();
  CHECK(f.code == failure_code::transport);
  CHECK(f.culprit == r2);
  CHECK(f.detail.starts_with("a message of rank 2 ("));
  CHECK(f.detail.ends_with(") is invalid: only rank 0 may send it"));
}
