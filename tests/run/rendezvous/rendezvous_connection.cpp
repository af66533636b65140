// SPDX-License-Identifier: MIT
#include "cleave/run/rendezvous/protocol.hpp"

#include <doctest/doctest.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;
using cleave::testing::rng;

namespace {

rendezvous_keys keys(char sending, char receiving) {
  rendezvous_keys k{};
  k.sending.fill(static_cast<std::uint8_t>(sending));
  k.receiving.fill(static_cast<std::uint8_t>(receiving));
  return k;
}

/// Two connections between which the test forwards the bytes.
struct tapped_pair {
  tcp_socket near_wire, far_wire;
  rendezvous_connection near, far;

  static std::array<int, 2> wire() {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) == 0);
    return ends;
  }
  explicit tapped_pair(std::size_t largest = 1000) : tapped_pair(wire(), wire(), largest) {}
  tapped_pair(std::array<int, 2> a, std::array<int, 2> b, std::size_t largest)
      : near_wire(a[1]),
        far_wire(b[1]),
        near(tcp_socket(a[0]), rank_id{2}, keys('a', 'b'), largest),
        far(tcp_socket(b[0]), rank_id{0}, keys('b', 'a'), largest) {}

  std::string sent(rendezvous_message const& m) {
    near.put(m);
    near.send();
    std::string bytes(1 << 16, '\0');
    bytes.resize(receive_some(near_wire, bytes).count);
    return bytes;
  }
  /// The messages that the far end reads from bytes, and its error text, if any.
  std::pair<std::vector<rendezvous_message>, std::string> read(std::string_view bytes) {
    CHECK(send_some(far_wire, bytes).count == bytes.size());
    CHECK(far.receive());
    std::pair<std::vector<rendezvous_message>, std::string> got;
    try {
      while (auto m = far.next()) got.first.push_back(*m);
    } catch (rendezvous_message_error const& e) {
      got.second = e.what();
    }
    return got;
  }
};

rendezvous_message hello(std::string body = "hello") { return {message_kind::asked, std::move(body)}; }

}  // namespace

TEST_CASE("rendezvous_connection: messages arrive, however their bytes are split") {
  rng random(7);
  for (int round = 0; round < 30; ++round) {
    tapped_pair p;
    std::vector<rendezvous_message> said, heard;
    std::string bytes;
    for (int i = 0; i < 10; ++i) {
      said.push_back(hello(std::string(random.below(100), static_cast<char>('a' + i))));
      bytes += p.sent(said.back());
    }
    for (std::size_t at = 0; at < bytes.size();) {
      auto const n = 1 + random.below(60);
      auto const [messages, complaint] = p.read(std::string_view(bytes).substr(at, n));
      heard.insert(heard.end(), messages.begin(), messages.end());
      CHECK(complaint == "");
      at += n;
    }
    CHECK(heard == said);
  }
}

TEST_CASE("rendezvous_connection: never accepts a message with any bit changed") {
  auto const whole = tapped_pair().sent(hello());
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    tapped_pair p;
    auto altered = whole;
    altered[bit / 8] = static_cast<char>(altered[bit / 8] ^ (1 << (bit % 8)));
    auto const [messages, complaint] = p.read(altered);
    CHECK(messages.empty());
    // With a greater length, it may also wait for more bytes.
    if (bit >= 32) CHECK(complaint.ends_with("is not authentic"));
  }
}

TEST_CASE("rendezvous_connection: rejects repeated, omitted, reordered or reflected messages") {
  auto const says_not_authentic = [](tapped_pair& p, std::string_view bytes) {
    return p.read(bytes).second.ends_with("is not authentic");
  };
  tapped_pair p, q, r, s;
  auto const first = p.sent(hello("first")), second = p.sent(hello("second"));
  CHECK(p.read(first).first.size() == 1);
  CHECK(says_not_authentic(p, first));
  CHECK(says_not_authentic(q, second));
  r.far.put(hello());
  r.far.send();
  std::string back(1 << 12, '\0');
  back.resize(receive_some(r.far_wire, back).count);
  CHECK(says_not_authentic(r, back));
  CHECK(s.read(first.substr(0, first.size() - 1)).first.empty());
}

TEST_CASE("rendezvous_connection: rejects a message that is too long before it has arrived") {
  tapped_pair p(10);
  CHECK(p.read(p.sent(hello("0123456789"))).first.size() == 1);
  auto const said = p.read(p.sent(hello("0123456789x"))).second;
  CHECK(said.starts_with("a message of rank 0 ("));
  CHECK(said.ends_with(") has 11 B, but the limit is 10 B"));
  tapped_pair q(10);
  CHECK(q.read("\xff\xff\xff\x7f\x01").second.ends_with("has 2.0 GiB, but the limit is 10 B"));
}

TEST_CASE("rendezvous_connection: finish() sends the end after the last message") {
  tapped_pair p;
  p.near.put(hello());
  p.near.finish();
  CHECK(p.near.has_to_send());
  p.near.send();
  CHECK_FALSE(p.near.has_to_send());
  std::string bytes(1 << 12, '\0');
  CHECK(receive_some(p.near_wire, bytes).count > 0);
  CHECK(receive_some(p.near_wire, bytes).ended);
}

TEST_CASE("rendezvous_connection: a send to a closed peer is noticed by receive()") {
  tapped_pair p;
  p.near_wire.close();
  p.near.put(hello(std::string(500, 'x')));
  p.near.send();
  CHECK_FALSE(p.near.has_to_send());
  CHECK_FALSE(p.near.receive());
}

TEST_CASE("rendezvous_connection: sends later what the socket does not take at once") {
  tapped_pair p(1 << 20);
  p.near.put(hello(std::string(1 << 20, 'x')));
  std::string all, some(1 << 16, '\0');
  for (p.near.send(); p.near.has_to_send(); p.near.send())
    all += some.substr(0, receive_some(p.near_wire, some).count);
  for (std::size_t n = 1; n > 0; all += some.substr(0, n)) n = receive_some(p.near_wire, some).count;
  CHECK(all.size() == (1 << 20) + 5 + 16);
}
