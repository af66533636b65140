// SPDX-License-Identifier: MIT
#include "cleave/run/rendezvous/detail/join.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "cleave/run/rendezvous/protocol.hpp"
#include "cleave/run/rendezvous/tcp_rendezvous.hpp"
#include "support/error_text.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace std::chrono_literals;
using cleave::testing::error_text;
using cleave::testing::rng;

namespace {

std::string const the_key = "a key that all of them know";

auto in(std::chrono::milliseconds d) { return std::chrono::steady_clock::now() + d; }

tcp_rendezvous_options within(std::chrono::milliseconds d, std::string key = the_key) {
  tcp_rendezvous_options o{.key = std::move(key)};
  o.join_within = d;
  o.leave_within = 5s;
  return o;
}

tcp_socket connected(network_address const& at) {
  auto const where = system_addresses(at);
  return try_connect(where, in(10s)).value();
}
/// Reads until there are `count` bytes or the other end is closed.
std::string read_up_to(tcp_socket const& s, std::size_t count) {
  std::string bytes(count, '\0');
  for (std::size_t done = 0; done < count;) {
    REQUIRE(wait_for_socket(s, POLLIN, in(10s)));
    auto const moved = receive_some(s, std::span(bytes).subspan(done));
    if (moved.ended) return bytes.substr(0, done);
    done += moved.count;
  }
  return bytes;
}
/// The verdict on the answer that `hello` makes to the greeting, if there is one.
std::optional<std::string> verdict_on(network_address const& at,
                                      std::function<std::string(std::string const&)> const& hello) {
  auto const s = connected(at);
  auto const greeting = read_up_to(s, greeting_size);
  send_some(s, hello(greeting));
  auto const verdict = read_up_to(s, 4 + longest_verdict + 32);
  if (verdict.empty()) return std::nullopt;
  return verdict.substr(4, verdict.size() - 4 - sizeof(hmac_digest));
}

bool is_like(std::string_view text, std::vector<std::string_view> const& parts) {
  std::size_t at = 0;
  for (auto const part : parts) {
    at = text.find(part, at);
    if (at == text.npos) return false;
    at += part.size();
  }
  return true;
}

/// Runs rank 0 of two on a thread while `f` connects to it; then rank 1 joins. Returns the refusals.
std::vector<std::string> refused_of(std::function<void(network_address const&)> const& f) {
  tcp_listener listener;
  auto const at = listener.address();
  auto rank_0 = std::async(std::launch::async, [&] {
    tcp_rendezvous b(std::move(listener), 2, within(20s));
    b.barrier(in(20s));
    return b.refused();
  });
  f(at);
  tcp_rendezvous b(rank_id{1}, 2, at, within(20s));
  b.barrier(in(20s));
  b.leave(in(20s));
  return rank_0.get();
}

}  // namespace

TEST_CASE(
    "tcp_rendezvous: strangers do not disturb the join, and each is told why it is refused, if possible") {
  std::vector<tcp_socket> silent;
  auto const refused = refused_of([&](network_address const& at) {
    for (int i = 0; i < 5; ++i) silent.push_back(connected(at));
    connected(at);
    auto const hello = [](join_request h, std::string key = the_key) {
      return [h, key](std::string const& greeting) {
        return make_hello(key, greeting, h, random_bytes(nonce_size));
      };
    };
    CHECK_FALSE(verdict_on(at, [](auto&) { return std::string(hello_size, 'x'); }));
    CHECK_FALSE(verdict_on(at, hello({.version = 2, .rank = rank_id{1}, .ranks = 2})));
    CHECK(verdict_on(at, hello({.rank = rank_id{1}, .ranks = 2}, "a key that they do not know")) ==
          "its key is different");
    CHECK(verdict_on(at, hello({.rank = rank_id{1}, .ranks = 3})) == "it expects 3 ranks, rank 0 expects 2");
    CHECK(verdict_on(at, hello({.rank = rank_id{0}, .ranks = 2})) ==
          "it claims to be rank 0, which is the listening rank");
    CHECK(verdict_on(at, hello({.rank = rank_id{2}, .ranks = 2})) == "it claims to be rank 2 of 2");
    // They stay connected and silent while rank 1 joins.
    for (auto const& s : silent) CHECK(read_up_to(s, greeting_size).size() == greeting_size);
  });
  REQUIRE(refused.size() == 7);
  CHECK(refused[0].ends_with("was refused: it disconnected before it identified itself"));
  CHECK(refused[1].ends_with("was refused: it did not send a valid hello"));
  CHECK(
      refused[2].ends_with("was refused: it has version 2 of the rendezvous protocol, rank 0 has version 1"));
  CHECK(refused[3].ends_with("was refused: its key is different"));
  CHECK(is_like(refused[4], {"rank 1 (127.0.0.1:", ") was refused: it expects 3 ranks"}));
  CHECK(is_like(refused[6], {"rank 2 (127.0.0.1:", ") was refused: it claims to be rank 2 of 2"}));
}

TEST_CASE("tcp_rendezvous: refuses a hello that is altered, truncated or replayed") {
  refused_of([](network_address const& at) {
    auto const good = [](std::string const& greeting) {
      return make_hello(the_key, greeting, {.rank = rank_id{1}, .ranks = 2}, std::string(nonce_size, 'n'));
    };
    for (std::size_t bit = 0; bit < 8 * hello_size; ++bit) {
      auto const verdict = verdict_on(at, [&](std::string const& greeting) {
        auto hello = good(greeting);
        hello[bit / 8] = static_cast<char>(hello[bit / 8] ^ (1 << (bit % 8)));
        return hello;
      });
      CHECK(verdict.value_or("its key is different") == "its key is different");
    }
    std::string recorded;
    {
      auto const s = connected(at);
      recorded = good(read_up_to(s, greeting_size));
      send_some(s, recorded.substr(0, hello_size - 1));
    }
    CHECK(verdict_on(at, [&](auto&) { return recorded; }) == "its key is different");
  });
}

TEST_CASE("tcp_rendezvous: refuses random bytes") {
  refused_of([](network_address const& at) {
    rng random(9);
    for (int round = 0; round < 200; ++round) {
      auto const s = connected(at);
      std::string bytes(random.below(2 * hello_size), '\0');
      for (char& c : bytes) c = static_cast<char>(random.below(256));
      if (random.one_in(2))
        bytes = std::string(rendezvous_magic) + message_writer().number(rendezvous_version).bytes + bytes;
      send_some(s, bytes);
    }
  });
}

TEST_CASE("tcp_rendezvous: refuses the second of two ranks with one number, and the first goes on") {
  tcp_listener listener;
  auto const at = listener.address();
  auto rank_0 = std::async(std::launch::async, [&] {
    tcp_rendezvous b(std::move(listener), 3, within(20s));
    b.barrier(in(20s));
    return b.refused();
  });
  std::atomic<int> joined = 0, refused = 0;
  std::vector<std::thread> both;
  for (int i = 0; i < 2; ++i)
    both.emplace_back([&] {
      auto const said = error_text([&] {
        tcp_rendezvous b(rank_id{1}, 3, at, within(20s));
        b.barrier(in(20s));
        ++joined;
      });
      if (joined + refused == 0 || said != "accepted") {
        CHECK(is_like(said, {"rank 1, join, caused by rank 0: operation mismatch: rank 0 (127.0.0.1:",
                             "refuses rank 1 (127.0.0.1:", "): rank 1 (127.0.0.1:", ") has joined already"}));
        ++refused;
      }
    });
  while (refused == 0) std::this_thread::sleep_for(1ms);
  tcp_rendezvous b(rank_id{2}, 3, at, within(20s));
  b.barrier(in(20s));
  b.leave(in(20s));
  for (auto& t : both) t.join();
  CHECK(joined == 1);
  CHECK(refused == 1);
  CHECK(rank_0.get().size() == 1);
}

TEST_CASE("tcp_rendezvous: a rank with another key or rank count is told both sides") {
  tcp_listener listener;
  auto const at = listener.address();
  auto rank_0 = std::async(std::launch::async, [&] {
    return error_text([&] { tcp_rendezvous(std::move(listener), 2, within(500ms)); });
  });
  CHECK(is_like(
      error_text([&] { tcp_rendezvous(rank_id{1}, 2, at, within(20s, "another key than that one")); }),
      {"rank 1, join, caused by rank 0: transport error: rank 0 (" + name_of(at) + ") and rank 1 (127.",
       ") have different keys"}));
  CHECK(is_like(error_text([&] { tcp_rendezvous(rank_id{1}, 8, at, within(20s)); }),
                {"rank 0 (", ") refuses rank 1 (", "): it expects 8 ranks, rank 0 expects 2"}));
  CHECK(is_like(
      rank_0.get(),
      {"rank 0, join, caused by rank 1: timed out: only 1 of 2 ranks joined before the deadline: "
       "rank 1 is missing; 127.0.0.1:",
       " was refused: its key is different; rank 1 (127.0.0.1:", ") was refused: it expects 8 ranks"}));
}

TEST_CASE("tcp_rendezvous: ranks that joined before the deadline learn which ranks are missing") {
  tcp_listener listener;
  auto const at = listener.address();
  auto const began = std::chrono::steady_clock::now();
  auto rank_0 = std::async(std::launch::async, [&] {
    return error_text([&] { tcp_rendezvous(std::move(listener), 4, within(400ms)); });
  });
  auto const rank_2 = error_text([&] { tcp_rendezvous(rank_id{2}, 4, at, within(20s)); });
  auto const expected =
      "rank 0, join: timed out: only 2 of 4 ranks joined before the deadline: rank 1 and rank 3 "
      "are missing";
  CHECK(rank_0.get() == expected);
  CHECK(rank_2 == expected);
  CHECK(std::chrono::steady_clock::now() - began < 5s);
}

namespace {

/// Connects to an address again and again, on threads, and closes or holds what it has opened.
class flood {
 public:
  flood(network_address const& at, bool holds) {
    for (int t = 0; t < 24; ++t)
      threads_.emplace_back([this, where = system_addresses(at), holds] {
        std::vector<tcp_socket> held;
        while (!stopped_) {
          auto s = try_connect(where, in(100ms));
          if (s) ++connections_;
          if (holds && s) held.push_back(std::move(*s));
          if (held.size() > 100) held.clear();
        }
      });
  }
  ~flood() { stop(); }
  void stop() {
    stopped_ = true;
    for (auto& t : threads_)
      if (t.joinable()) t.join();
  }
  std::size_t connections() const { return connections_; }

 private:
  std::atomic<bool> stopped_ = false;
  std::atomic<std::size_t> connections_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace

TEST_CASE("tcp_rendezvous: ranks join during a flood of connections") {
  for (bool const holds : {false, true}) {
    CAPTURE(holds);
    tcp_listener listener;
    auto const at = listener.address();
    flood others(at, holds);
    while (others.connections() < 100) std::this_thread::yield();
    auto const began = std::chrono::steady_clock::now();
    auto rank_0 = std::async(std::launch::async, [&] {
      return error_text([&] {
        tcp_rendezvous b(std::move(listener), 3, within(10s));
        b.barrier(in(10s));
      });
    });
    std::vector<std::future<std::string>> ranks;
    for (std::uint32_t const r : {1u, 2u})
      ranks.push_back(std::async(std::launch::async, [&, r] {
        return error_text([&] {
          tcp_rendezvous b(rank_id{r}, 3, at, within(10s));
          b.barrier(in(10s));
          b.leave(in(10s));
        });
      }));
    for (auto& r : ranks) CHECK(r.get() == "accepted");
    CHECK(rank_0.get() == "accepted");
    CHECK(std::chrono::steady_clock::now() - began < 10s);
    others.stop();
  }
}

TEST_CASE("tcp_rendezvous: the deadline of the join is kept during a flood of connections") {
  tcp_listener listener;
  flood others(listener.address(), false);
  while (others.connections() < 100) std::this_thread::yield();
  auto const began = std::chrono::steady_clock::now();
  auto const text = error_text([&] { tcp_rendezvous(std::move(listener), 2, within(500ms)); });
  CHECK(is_like(text, {"timed out: only 1 of 2 ranks joined before the deadline: rank 1 is missing"}));
  CHECK(std::chrono::steady_clock::now() - began < 3s);
}

TEST_CASE("tcp_rendezvous: a rank lost during the join fails all ranks, also later ones") {
  tcp_listener listener;
  auto const at = listener.address();
  auto const joining = [&](std::uint32_t r, std::chrono::milliseconds d) {
    return error_text([&] { tcp_rendezvous(rank_id{r}, 4, at, within(d)); });
  };
  auto rank_0 = std::async(std::launch::async, [&] {
    return error_text([&] { tcp_rendezvous(std::move(listener), 4, within(20s)); });
  });
  auto rank_1 = std::async(std::launch::async, joining, 1u, 20s);
  CHECK(is_like(joining(2, 300ms), {"did not confirm before the deadline that all ranks had joined"}));
  CHECK(rank_1.wait_for(50ms) == std::future_status::timeout);
  auto const rank_3 = joining(3, 20s);
  CHECK(is_like(rank_3, {"rank 0, join, caused by rank 2: peer lost: rank 2 (127.0.0.1:",
                         ") disconnected before all ranks had joined"}));
  CHECK(rank_0.get() == rank_3);
  CHECK(rank_1.get() == rank_3);
}

TEST_CASE("tcp_rendezvous: names a listener that is foreign, of another version, silent or absent") {
  auto const rank_1_at = [](network_address const& at, std::chrono::milliseconds d) {
    return error_text([&] { tcp_rendezvous(rank_id{1}, 2, at, within(d)); });
  };
  auto const answered_by = [&](std::string const& said, std::chrono::milliseconds d = 20s) {
    tcp_listener listener;
    auto server = std::async(std::launch::async, [&] {
      wait_for_socket(listener.socket(), POLLIN, in(10s));
      auto const s = listener.accept();
      send_some(s.value(), said);
      read_up_to(*s, 1000);
    });
    return rank_1_at(listener.address(), d);
  };
  CHECK(is_like(answered_by("HTTP/1.1 400 Bad Request, and more"),
                {"the listener at 127.0.0.1:", " is not a rendezvous"}));
  CHECK(
      is_like(answered_by(std::string(rendezvous_magic) + std::string("\2\0\0\0", 4) + std::string(16, 'n')),
              {"rank 0 (127.0.0.1:", ") and rank 1 (127.0.0.1:",
               ") have versions 2 and 1 of the rendezvous protocol"}));
  CHECK(is_like(
      answered_by("", 100ms),
      {"rank 0 (127.0.0.1:", "not reached before the deadline: the listener there sent no greeting"}));
  CHECK(is_like(answered_by(make_greeting(std::string(16, 'n')), 300ms),
                {"not reached before the deadline: it did not answer"}));
  auto const nobody = tcp_listener().address();
  CHECK(is_like(rank_1_at(nobody, 50ms),
                {"rank 1, join, caused by rank 0: timed out: rank 0 (" + name_of(nobody) +
                 ") was not reached before the deadline: there is no listener"}));
  CHECK(is_like(rank_1_at({"a..b", 4000}, 20s), {"the host a..b is not known: "}));
}

TEST_CASE("tcp_rendezvous: a rank 0 that listens late is found") {
  auto const at = tcp_listener().address();
  auto rank_1 = std::async(std::launch::async, [&] {
    tcp_rendezvous b(rank_id{1}, 2, at, within(20s));
    b.barrier(in(20s));
  });
  std::this_thread::sleep_for(50ms);
  tcp_rendezvous b(tcp_listener(at), 2, within(20s));
  b.barrier(in(20s));
  rank_1.get();
}

TEST_CASE("tcp_rendezvous: rank 0 is found at one of several addresses") {
  tcp_listener listener, silent, foreign;
  auto const closed = tcp_listener().address();
  auto const at = listener.address();
  auto rank_0 = std::async(std::launch::async, [&] {
    tcp_rendezvous b(std::move(listener), 2, within(20s));
    b.barrier(in(20s));
    return b.refused().size();
  });
  auto stranger = std::async(std::launch::async, [&] {
    wait_for_socket(foreign.socket(), POLLIN, in(10s));
    auto const s = foreign.accept();
    send_some(s.value(), "HTTP/1.1 400 Bad Request, and more");
    read_up_to(*s, 1000);
  });
  std::vector<network_address> const addresses{
      closed, {"a..b", 4000}, silent.address(), foreign.address(), {"localhost", at.port}};
  tcp_rendezvous b(rank_id{1}, 2, addresses, within(20s));
  b.barrier(in(20s));
  b.leave(in(20s));
  CHECK(rank_0.get() == 0);
  stranger.get();
}

TEST_CASE("tcp_rendezvous: if rank 0 is at none of several addresses, the error lists them") {
  std::vector<network_address> const addresses{tcp_listener().address(), {"a..b", 4000}};
  auto const said = error_text([&] { tcp_rendezvous(rank_id{1}, 2, addresses, within(50ms)); });
  CHECK_MESSAGE(
      is_like(said, {"rank 0 (", name_of(addresses[0]),
                     ", a..b:4000) was not reached before the deadline: the host a..b is not known: "}),
      said);
  CHECK(
      is_like(error_text([&] { tcp_rendezvous(rank_id{1}, 2, std::span<network_address>(), within(50ms)); }),
              {"without an address of rank 0"}));
}
