// SPDX-License-Identifier: MIT
#include "cleave/run/rendezvous/tcp_socket.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/error_text.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace std::chrono_literals;

namespace {

auto in(std::chrono::milliseconds d) { return std::chrono::steady_clock::now() + d; }

struct connected_pair {
  tcp_listener listener;
  tcp_socket near, far;

  explicit connected_pair(network_address const& at = {}) : listener(at) {
    near = try_connect(system_addresses(listener.address()), in(10s)).value();
    REQUIRE(wait_for_socket(listener.socket(), POLLIN, in(10s)));
    far = listener.accept().value();
  }
};

}  // namespace

TEST_CASE("tcp_listener: takes a free port, tells it, and accepts connections") {
  for (auto const* host : {"127.0.0.1", "localhost"}) {
    connected_pair p({host, 0});
    CHECK(p.listener.address().port > 0);
    CHECK(local_address(p.near) == remote_address(p.far));
    CHECK(remote_address(p.near) == p.listener.address());
  }
}

TEST_CASE("tcp_socket: bytes arrive, followed by the end of the stream") {
  connected_pair p;
  std::string bytes(100, '\0');
  CHECK(receive_some(p.far, bytes).count == 0);
  CHECK_FALSE(receive_some(p.far, bytes).ended);
  CHECK(send_some(p.near, "hello").count == 5);
  p.near.end_sending();
  REQUIRE(wait_for_socket(p.far, POLLIN, in(10s)));
  CHECK(receive_some(p.far, bytes).count == 5);
  CHECK(bytes.substr(0, 5) == "hello");
  REQUIRE(wait_for_socket(p.far, POLLIN, in(10s)));
  CHECK(receive_some(p.far, bytes).ended);
  CHECK(send_some(p.far, "and back").count == 8);
}

TEST_CASE("tcp_socket: sending to a closed peer reports the end and raises no signal") {
  connected_pair p;
  p.far.close();
  auto const until = in(10s);
  while (!send_some(p.near, "x").ended && std::chrono::steady_clock::now() < until) {
  }
  CHECK(send_some(p.near, "x").ended);
}

TEST_CASE("tcp_socket: a full socket takes no more bytes, and waiting for it is bounded") {
  connected_pair p;
  std::string const block(1 << 16, 'x');
  while (send_some(p.near, block).count > 0) {
  }
  CHECK_FALSE(send_some(p.near, block).ended);
  CHECK_FALSE(wait_for_socket(p.near, POLLOUT, in(10ms)));
  CHECK_FALSE(wait_for_socket(p.near, POLLIN, in(-1ms)));
}

TEST_CASE("try_connect: fails if nothing listens, and tcp_listener names an address it cannot use") {
  auto const at = tcp_listener().address();
  CHECK_FALSE(try_connect(system_addresses(at), in(1s)));
  tcp_listener const taken;
  CHECK(testing::error_text([&] { tcp_listener again(taken.address()); }) ==
        "listening at " + name_of(taken.address()) + ": Address already in use");
  CHECK(testing::error_text([] { tcp_listener({"a..b", 0}); }).starts_with("the host a..b is not known: "));
  CHECK_FALSE(taken.accept());
}

TEST_CASE("tcp_socket: a moved socket has one owner") {
  connected_pair p;
  tcp_socket other = std::move(p.near);
  CHECK_FALSE(p.near.is_open());
  CHECK(other.is_open());
  auto& self = other;
  other = std::move(self);
  CHECK(other.is_open());
  p.near = std::move(other);
  CHECK(send_some(p.near, "x").count == 1);
}

TEST_CASE(
    "listen_everywhere: accepts connections over IPv4 and IPv6, and tells addresses in their usual form") {
  auto const listener = listen_everywhere(0);
  auto const port = listener.address().port;
  std::vector<std::string> hosts{"127.0.0.1"};
  if (listener.address().host == "::") hosts.emplace_back("::1");
  for (auto const& host : hosts) {
    auto const near = try_connect(system_addresses({host, port}), in(10s));
    REQUIRE(near);
    REQUIRE(wait_for_socket(listener.socket(), POLLIN, in(10s)));
    auto const far = listener.accept();
    REQUIRE(far);
    CHECK(remote_address(*far).host == host);
    CHECK(local_address(*far) == network_address{host, port});
  }
}

TEST_CASE("look_up_host_until: numbers need no look-up, names may, and waiting for them is bounded") {
  auto const number = look_up_host_until({"10.1.2.3", 7}, in(-1ms));
  REQUIRE(number);
  REQUIRE(number->found.size() == 1);
  CHECK(number->found[0].plain() == network_address{"10.1.2.3", 7});
  CHECK(look_up_host_until({"localhost", 7}, in(-1ms))->found.size() > 0);
  CHECK(look_up_host_until({"a..b", 7}, in(20s)).value().code != 0);
}

TEST_CASE("interface_addresses: lists numbers that other hosts may reach") {
  for (auto const& host : interface_addresses(8)) {
    CAPTURE(host);
    CHECK(look_up_host({host, 1}, AI_NUMERICHOST).found.size() == 1);
    CHECK_FALSE(host.starts_with("127."));
    CHECK(host != "::1");
  }
  CHECK(interface_addresses(0).empty());
}
