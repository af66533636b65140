// SPDX-License-Identifier: MIT
#include "cleave/run/rendezvous/tcp_rendezvous.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace std::chrono_literals;
using cleave::testing::rng;

namespace {

auto in(std::chrono::milliseconds d) { return std::chrono::steady_clock::now() + d; }

tcp_rendezvous_options usual() {
  tcp_rendezvous_options o{.key = "a key that all of them know"};
  o.join_within = 20s;
  o.leave_within = 5s;
  return o;
}

/// Runs `f` on each rank's rendezvous, each on a thread; the ranks join in random order.
void on_ranks(std::uint32_t ranks, tcp_rendezvous_options const& options,
              std::function<void(tcp_rendezvous&)> const& f, std::uint64_t seed = 1) {
  rng random(seed);
  tcp_listener listener;
  auto const at = listener.address();
  std::vector<std::thread> threads;
  std::vector<std::uint32_t> order(ranks);
  std::iota(order.begin(), order.end(), 0u);
  random.shuffle(order);
  for (auto const r : order) {
    auto const late = std::chrono::microseconds(random.below(3000));
    threads.emplace_back([&, r, late] {
      std::this_thread::sleep_for(late);
      if (r == 0) {
        tcp_rendezvous b(std::move(listener), ranks, options);
        f(b);
      } else {
        tcp_rendezvous b(rank_id{r}, ranks, at, options);
        f(b);
      }
    });
  }
  for (auto& t : threads) t.join();
}

failure out_of_memory(std::uint32_t stage) {
  return {failure_code::stage, stage_call{stage_id{stage}, microbatch_id{3}}, "out of memory"};
}

template <class F>
failure failure_in(F f) {
  try {
    f();
  } catch (run_error const& e) {
    return e.info;
  }
  return {failure_code::cancelled, {}, "nothing failed"};
}

}  // namespace

TEST_CASE("tcp_rendezvous: ranks meet at barriers, and any rank can broadcast bytes") {
  for (std::uint32_t const ranks : {1u, 2u, 3u, 5u, 16u}) {
    std::atomic<std::uint32_t> came = 0;
    on_ranks(
        ranks, usual(),
        [&](tcp_rendezvous& b) {
          CHECK(b.size() == ranks);
          for (std::uint32_t round = 0; round < 10; ++round) {
            ++came;
            b.barrier(in(20s));
            CHECK(came >= ranks * (round + 1));
            rank_id const root{round % ranks};
            std::vector<std::byte> bytes(round * 1000, std::byte{0xff});
            if (b.rank() == root) std::ranges::fill(bytes, std::byte{static_cast<unsigned char>(round)});
            b.broadcast(bytes, root, in(20s));
            CHECK(std::ranges::all_of(bytes, [&](std::byte x) { return x == std::byte(round); }));
          }
          b.barrier(in(20s));
          CHECK(b.alive().size() >= 1);
          CHECK(b.alive().front() <= b.rank());
        },
        ranks);
  }
}

TEST_CASE("tcp_rendezvous: a broadcast may be as large as the limit, and not larger") {
  auto options = usual();
  options.largest_broadcast = 300'000;
  on_ranks(3, options, [&](tcp_rendezvous& b) {
    std::vector<std::byte> bytes(300'000, std::byte(index(b.rank())));
    b.broadcast(bytes, rank_id{2}, in(20s));
    CHECK(std::ranges::all_of(bytes, [](std::byte x) { return x == std::byte{2}; }));
    bytes.resize(300'001);
    auto const f = failure_in([&] { b.broadcast(bytes, rank_id{1}, in(20s)); });
    CHECK(f.code == failure_code::mismatch);
    CHECK(f.detail == "a broadcast of 300001 bytes, but the rendezvous carries 300000 at most");
  });
}

TEST_CASE("tcp_rendezvous: one of many simultaneous failures wins, and all ranks read the same one") {
  for (std::uint32_t const ranks : {2u, 4u, 16u}) {
    std::vector<std::string> read(ranks);
    on_ranks(
        ranks, usual(),
        [&](tcp_rendezvous& b) {
          b.publish(out_of_memory(index(b.rank())));
          CHECK(b.wait_until(in(20s)));
          b.publish(out_of_memory(100));
          read[index(b.rank())] = describe(b.poll().value());
        },
        ranks);
    CHECK(read == std::vector(ranks, read[0]));
    CHECK(read[0].find("out of memory") != std::string::npos);
  }
}

TEST_CASE(
    "tcp_rendezvous: a failure reaches waiting ranks, and keeps the exception on the rank that threw it") {
  on_ranks(4, usual(), [&](tcp_rendezvous& b) {
    if (b.rank() == rank_id{2}) {
      try {
        throw std::runtime_error("out of memory");
      } catch (...) {
        b.publish(current_failure({stage_id{7}, microbatch_id{3}}));
      }
      CHECK(b.wait_until(in(20s)));
      CHECK_THROWS_AS(raise(b.poll().value()), stage_error);
    } else {
      auto const f = failure_in([&] { b.barrier(in(20s)); });
      CHECK(describe(f) == "rank 2, stage 7, microbatch 3: out of memory");
      CHECK_FALSE(f.cause);
    }
    CHECK(failure_in([&] { b.barrier(in(20s)); }).detail == "out of memory");
  });
}

TEST_CASE("tcp_rendezvous: long failure texts are cut between characters, equally on all ranks") {
  std::string detail;
  for (int i = 0; i < 5000; ++i) detail += "ä";
  on_ranks(2, usual(), [&](tcp_rendezvous& b) {
    auto f = out_of_memory(1);
    f.detail = detail;
    if (b.rank() == rank_id{1}) b.publish(f);
    CHECK(b.wait_until(in(20s)));
    auto const read = b.poll()->detail;
    CHECK(read.size() <= longest_detail);
    CHECK(read.size() > longest_detail - 8);
    CHECK(read.substr(0, read.size() - 3) == detail.substr(0, read.size() - 3));
    CHECK(read.ends_with("ä…"));
  });
}

TEST_CASE("tcp_rendezvous: a rank that leaves is missed only at a barrier") {
  std::barrier both_have_looked(2);
  on_ranks(3, usual(), [&](tcp_rendezvous& b) {
    b.barrier(in(20s));
    if (b.rank() == rank_id{1}) {
      b.leave(in(20s));
      CHECK_FALSE(b.poll());
      return;
    }
    while (b.alive().size() == 3) std::this_thread::sleep_for(1ms);
    CHECK(b.alive() == std::vector{rank_id{0}, rank_id{2}});
    CHECK_FALSE(b.poll());
    both_have_looked.arrive_and_wait();
    auto const f = failure_in([&] { b.barrier(in(20s)); });
    CHECK(f.code == failure_code::peer_lost);
    CHECK(f.culprit == rank_id{1});
    CHECK(f.detail == "rank 1 has left, but all ranks must take part");
  });
}

TEST_CASE("tcp_rendezvous: rank 0 stays until all others have left, and knows when") {
  std::atomic<std::uint32_t> gone = 0;
  on_ranks(4, usual(), [&](tcp_rendezvous& b) {
    b.barrier(in(20s));
    if (b.rank() != rank_id{0}) {
      std::this_thread::sleep_for(5ms * index(b.rank()));
      ++gone;
      return;
    }
    CHECK(b.wait_until(in(20s)));
    CHECK_FALSE(b.poll());
    b.leave(in(20s));
    CHECK(gone == 3);
  });
}

TEST_CASE("tcp_rendezvous: ranks still end after rank 0 has left") {
  on_ranks(3, usual(), [&](tcp_rendezvous& b) {
    b.barrier(in(20s));
    if (b.rank() == rank_id{0}) return b.leave(in(0ms));
    while (b.alive().front() == rank_id{0}) std::this_thread::sleep_for(1ms);
    CHECK_FALSE(b.poll());
    auto const f = b.rank() == rank_id{1} ? failure_in([&] { b.barrier(in(20s)); })
                                          : (b.publish(out_of_memory(2)), b.poll().value());
    CHECK(f.detail ==
          (b.rank() == rank_id{1} ? "rank 0 has left, but all ranks must take part" : "out of memory"));
  });
}

TEST_CASE("tcp_rendezvous: an incomplete barrier tells all ranks which ranks are missing") {
  on_ranks(4, usual(), [&](tcp_rendezvous& b) {
    if (index(b.rank()) % 2 == 1) {
      CHECK(b.wait_until(in(20s)));
      CHECK(b.poll()->code == failure_code::timeout);
      return;
    }
    auto const f = failure_in([&] { b.barrier(b.rank() == rank_id{2} ? in(30ms) : in(20s)); });
    CHECK(describe(f) ==
          "rank 0: timed out: only 2 of 4 ranks reached a barrier before the deadline: rank 1 and rank 3 are "
          "missing");
  });
}

TEST_CASE("tcp_rendezvous: ranks that call different barriers or broadcasts learn of both calls") {
  on_ranks(3, usual(), [&](tcp_rendezvous& b) {
    std::vector<std::byte> bytes(b.rank() == rank_id{1} ? 8 : 4);
    auto const f = failure_in([&] { b.broadcast(bytes, rank_id{0}, in(20s)); });
    CHECK(f.code == failure_code::mismatch);
    CHECK(f.detail.find("rank 1 ") != std::string::npos);
    CHECK(f.detail.find("at a broadcast of 8 bytes from rank 0") != std::string::npos);
    CHECK(f.detail.find("at a broadcast of 4 bytes from rank 0") != std::string::npos);
  });
  on_ranks(2, usual(), [&](tcp_rendezvous& b) {
    std::vector<std::byte> bytes(4);
    auto const f = failure_in(
        [&] { b.rank() == rank_id{0} ? b.barrier(in(20s)) : b.broadcast(bytes, rank_id{1}, in(20s)); });
    CHECK(f.detail.find("at a barrier") != std::string::npos);
    CHECK(f.detail.find("at a broadcast of 4 bytes from rank 1") != std::string::npos);
  });
}

namespace {
struct fixed_activity : activity_source {
  rank_activity what;
  explicit fixed_activity(rank_activity a) : what(std::move(a)) {}
  rank_activity activity() const override { return what; }
};
rank_activity waits_for(std::uint32_t peer) {
  return {activity_kind::waiting, {rank_id{peer}}, {}, "recv F0 stage 1<-0"};
}
}  // namespace

TEST_CASE("tcp_rendezvous: finds the rank that others wait for, whichever rank reports the wait") {
  for (std::uint32_t const noticed : {0u, 1u, 2u}) {
    std::vector<std::string> read(4);
    on_ranks(4, usual(), [&](tcp_rendezvous& b) {
      auto const r = index(b.rank());
      fixed_activity const does(r == 3 ? rank_activity{activity_kind::computing,
                                                       {},
                                                       stage_call{stage_id{3}, microbatch_id{1}},
                                                       "forward"}
                                       : waits_for(r + 1));
      b.answer_with(&does);
      b.barrier(in(20s));
      if (r == noticed) b.report_waiting(does.what);
      CHECK(b.wait_until(in(20s)));
      read[r] = describe(b.poll().value());
      CHECK(b.poll()->culprit == rank_id{3});
      CHECK(b.poll()->reporter == rank_id{noticed});
      b.answer_with(nullptr);
    });
    CHECK(read == std::vector(4, read[0]));
    CHECK(read[0].find("rank 3 computes stage 3 microbatch 1 (forward)") != std::string::npos);
  }
}

TEST_CASE("tcp_rendezvous: a rank that does not answer an inquiry is the culprit") {
  on_ranks(3, usual(), [&](tcp_rendezvous& b) {
    b.barrier(in(20s));
    auto const began = std::chrono::steady_clock::now();
    if (b.rank() == rank_id{0}) b.report_waiting(waits_for(1));
    if (b.rank() == rank_id{1}) {
      while (!b.is_asked()) std::this_thread::sleep_for(1ms);
      b.report_waiting(waits_for(2));
      CHECK_FALSE(b.is_asked());
    }
    CHECK(b.wait_until(in(20s)));
    CHECK(std::chrono::steady_clock::now() - began < 5s);
    CHECK(b.poll()->culprit == rank_id{2});
    CHECK(b.poll()->detail.ends_with("rank 2 does not answer"));
  });
}

TEST_CASE("tcp_rendezvous: ranks that wait in a cycle are a deadlock") {
  on_ranks(3, usual(), [&](tcp_rendezvous& b) {
    b.report_waiting(waits_for((index(b.rank()) + 1) % 3));
    CHECK(b.wait_until(in(20s)));
    CHECK(b.poll()->culprit == no_rank);
    CHECK(b.poll()->detail.starts_with("deadlock: rank "));
  });
}

namespace {
/// A relay to `to` that alters the bytes of rank 1 after a call of alter().
class tampered_way {
 public:
  explicit tampered_way(network_address const& to) : thread_([this, to] { relay(to); }) {}
  ~tampered_way() { thread_.join(); }
  network_address address() const { return listener_.address(); }
  void alter() { alters_ = true; }

 private:
  void relay(network_address const& to) {
    if (!wait_for_socket(listener_.socket(), POLLIN, in(20s))) return;
    auto const near = listener_.accept().value();
    auto const far = try_connect(system_addresses(to), in(20s)).value();
    std::string bytes(4096, '\0');
    for (;;) {
      std::array<pollfd, 2> both = {pollfd{near.descriptor(), POLLIN, 0},
                                    pollfd{far.descriptor(), POLLIN, 0}};
      if (::poll(both.data(), both.size(), 20'000) <= 0) return;
      auto const up = receive_some(near, bytes);
      if (up.ended) return;
      if (up.count > 0 && alters_) bytes[up.count - 1] = static_cast<char>(bytes[up.count - 1] ^ 1);
      send_some(far, std::string_view(bytes).substr(0, up.count));
      auto const down = receive_some(far, bytes);
      if (down.ended) return;
      send_some(near, std::string_view(bytes).substr(0, down.count));
    }
  }

  tcp_listener listener_;
  std::atomic<bool> alters_ = false;
  std::thread thread_;
};
}  // namespace

TEST_CASE("tcp_rendezvous: an altered message is not read and fails the run") {
  tcp_listener listener;
  auto const at = listener.address();
  tampered_way way(at);
  std::vector<failure> read(3);
  auto const on_rank = [&](tcp_rendezvous& b) {
    b.barrier(in(20s));
    if (b.rank() == rank_id{1}) {
      way.alter();
      b.publish(out_of_memory(1));
    }
    CHECK(b.wait_until(in(20s)));
    read[index(b.rank())] = b.poll().value();
  };
  std::vector<std::thread> others;
  for (std::uint32_t const r : {1u, 2u})
    others.emplace_back([&, r] {
      tcp_rendezvous b(rank_id{r}, 3, r == 1 ? way.address() : at, usual());
      on_rank(b);
    });
  {
    tcp_rendezvous b(std::move(listener), 3, usual());
    on_rank(b);
  }
  for (auto& t : others) t.join();
  CHECK(read[0].code == failure_code::transport);
  CHECK(read[0].culprit == rank_id{1});
  CHECK(read[0].detail.starts_with("a message of rank 1 (127.0.0.1:"));
  CHECK(read[0].detail.ends_with(") is not authentic"));
  CHECK(describe(read[2]) == describe(read[0]));
  CHECK(read[1].culprit == rank_id{0});
  CHECK(read[1].code == failure_code::peer_lost);
}

TEST_CASE("tcp_rendezvous: rejects keys that are too short and ranks that do not exist") {
  auto options = usual();
  CHECK_THROWS_WITH_AS(tcp_rendezvous(rank_id{4}, 4, network_address(), options), "there is no rank 4 of 4",
                       error);
  CHECK_THROWS_WITH_AS(tcp_rendezvous(rank_id{0}, 4, network_address(), options),
                       "rank 0 cannot join a rendezvous; construct it with a tcp_listener", error);
  options.key = "short";
  CHECK_THROWS_WITH_AS(
      tcp_rendezvous(tcp_listener(), 1, options),
      "the key of the rendezvous has 5 bytes; give it at least 16, as random_rendezvous_key() does", error);
  CHECK(random_rendezvous_key().size() == 64);
  CHECK(random_rendezvous_key() != random_rendezvous_key());
}
