// SPDX-License-Identifier: MIT
// A bit of what two ranks send to each other, altered on the way by a proxy between them.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "cleave/run/rendezvous/tcp_rendezvous.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace std::chrono_literals;

namespace {

auto in(std::chrono::milliseconds d) { return std::chrono::steady_clock::now() + d; }

/// Which bit of a connection is altered. Way 0 leads to the listening rank, way 1 from it.
struct altered_bit {
  std::size_t way, byte;
  unsigned bit;
};
constexpr altered_bit none{2, 0, 0};

/// Carries bytes between the first who connects to it and a listener, on a thread of its own.
class proxy {
 public:
  proxy(network_address to, altered_bit altered)
      : to_(std::move(to)), altered_(altered), thread_([this] { carry(); }) {}
  ~proxy() {
    over_ = true;
    thread_.join();
  }
  proxy(proxy const&) = delete;
  proxy& operator=(proxy const&) = delete;

  network_address address() const { return listener_.address(); }
  bool has_altered() const { return has_altered_; }
  /// The bytes that went one way so far.
  std::size_t carried(std::size_t way) const { return carried_[way]; }

 private:
  void carry() {
    while (!over_ && !wait_for_socket(listener_.socket(), POLLIN, in(5ms))) {
    }
    if (over_) return;
    auto from = listener_.accept();
    auto const where = system_addresses(to_);
    auto to = try_connect(where, in(10s));
    if (!from || !to) return;
    std::array<tcp_socket const*, 2> const ends{&*from, &*to};
    while (!over_)
      for (std::size_t way = 0; way < 2; ++way) {
        std::array<char, 4096> bytes{};
        if (!wait_for_socket(*ends[way], POLLIN, in(1ms))) continue;
        auto const got = receive_some(*ends[way], bytes);
        if (got.ended) return;
        pass_on(way, std::span(bytes).first(got.count), *ends[1 - way]);
      }
  }
  void pass_on(std::size_t way, std::span<char> bytes, tcp_socket const& to) {
    if (way == altered_.way && altered_.byte - carried_[way] < bytes.size()) {
      auto& c = bytes[altered_.byte - carried_[way]];
      c = static_cast<char>(static_cast<unsigned char>(c) ^ (1U << altered_.bit));
      has_altered_ = true;
    }
    for (std::size_t sent = 0; sent < bytes.size() && !over_;) {
      auto const moved = send_some(to, std::string_view(bytes.data(), bytes.size()).substr(sent));
      if (moved.ended) return;
      sent += moved.count;
    }
    carried_[way] += bytes.size();
  }

  tcp_listener listener_;
  network_address to_;
  altered_bit altered_;
  std::array<std::atomic<std::size_t>, 2> carried_{};
  std::atomic<bool> over_ = false, has_altered_ = false;
  std::thread thread_;
};

/// What became of two ranks that met through a proxy.
struct meeting {
  std::array<std::size_t, 2> joined{},
      all{};  ///< bytes each way until both had joined, and until the last barrier
  bool altered = false, wrong_bytes = false;
  std::array<std::string, 2> failures;
};

/// Two ranks meet at barriers and send bytes to each other, through a proxy.
meeting meet(altered_bit altered) {
  meeting seen;
  tcp_rendezvous_options options{.key = "a key that both of them know"};
  options.join_within = 10s;
  options.leave_within = 200ms;
  tcp_listener listener;
  proxy between(listener.address(), altered);
  auto const talk = [&](tcp_rendezvous& b, bool notes) {
    try {
      b.barrier(in(10s));
      if (notes) seen.joined = {between.carried(0), between.carried(1)};
      for (std::uint32_t round = 0; round < 4; ++round) {
        std::vector<std::byte> bytes(20 * round, std::byte{0xff});
        if (index(b.rank()) == round % 2) std::ranges::fill(bytes, std::byte(round));
        b.broadcast(bytes, rank_id{round % 2}, in(3s));
        if (!std::ranges::all_of(bytes, [&](std::byte x) { return x == std::byte(round); }))
          seen.wrong_bytes = true;
        b.barrier(in(3s));
      }
      if (notes) seen.all = {between.carried(0), between.carried(1)};
    } catch (run_error const& e) {
      seen.failures[index(b.rank())] = e.what();
    }
  };
  auto rank_0 = std::async(std::launch::async, [&, l = std::move(listener)]() mutable {
    tcp_rendezvous b(std::move(l), 2, options);
    talk(b, false);
  });
  {
    tcp_rendezvous b(rank_id{1}, 2, between.address(), options);
    talk(b, true);
  }
  rank_0.get();
  seen.altered = between.has_altered();
  return seen;
}

}  // namespace

TEST_CASE("tcp_rendezvous: a bit altered on the way ends the run, and is never taken for data") {
  auto const whole = meet(none);
  REQUIRE(whole.failures == std::array<std::string, 2>{});
  REQUIRE_FALSE(whole.wrong_bytes);
  std::vector<altered_bit> all;
  for (std::size_t way = 0; way < 2; ++way) {
    REQUIRE(whole.all[way] > whole.joined[way] + 100);
    for (auto byte = whole.joined[way]; byte < whole.all[way]; byte += 5)
      all.push_back({way, byte, static_cast<unsigned>(byte % 8)});
  }
  for (std::size_t first = 0; first < all.size(); first += 64) {  // they spend their time waiting
    std::vector<std::future<meeting>> at_once;
    for (auto const& altered : std::span(all).subspan(first, (std::min)(all.size() - first, std::size_t{64})))
      at_once.push_back(std::async(std::launch::async, [altered] { return meet(altered); }));
    for (std::size_t i = 0; i < at_once.size(); ++i) {
      auto const seen = at_once[i].get();
      CAPTURE(all[first + i].way);
      CAPTURE(all[first + i].byte);
      CHECK(seen.altered);
      CHECK_FALSE(seen.wrong_bytes);
      CHECK_FALSE(seen.failures[1].empty());
      if (all[first + i].way == 0) CHECK_FALSE(seen.failures[0].empty());  // else it may have left before
    }
  }
}
