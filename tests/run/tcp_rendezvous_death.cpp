// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cleave/run/processes/process_pipeline.hpp"
#include "cleave/run/rendezvous/tcp_rendezvous.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace std::chrono_literals;
using cleave::testing::rng;

namespace {

using steady = std::chrono::steady_clock;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr auto known_within = 2000ms;
#else
constexpr auto known_within = 100ms;
#endif

/// A rank's message on its pipe: the failure that it learnt, and when.
struct knowledge {
  std::uint32_t rank;
  steady::time_point when;
  std::array<char, 400> text;
};

/// Ranks that are processes. Those still running at the end are killed.
class processes {
 public:
  /// Each process runs `f` and sends its result to this process.
  processes(std::uint32_t ranks, tcp_rendezvous_options const& options,
            std::function<std::string(tcp_rendezvous&, processes&)> const& f) {
    REQUIRE(::pipe(told_.data()) == 0);
    REQUIRE(::pipe(ready_.data()) == 0);
    std::optional<tcp_listener> listener(std::in_place);
    auto const at = listener->address();
    for (std::uint32_t r = 0; r < ranks; ++r) {
      auto const child = ::fork();
      REQUIRE(child >= 0);
      if (child == 0) {
        std::string text;
        try {
          if (r == 0) {
            tcp_rendezvous b(std::move(*listener), ranks, options);
            text = f(b, *this);
            tell(r, text);
          } else {
            listener.reset();
            tcp_rendezvous b(rank_id{r}, ranks, at, options);
            text = f(b, *this);
            tell(r, text);
          }
        } catch (std::exception const& e) {
          tell(r, e.what());
        }
        ::_exit(0);
      }
      children_.push_back(child);
    }
    ::close(std::exchange(told_[1], -1));
    ::close(std::exchange(ready_[1], -1));
  }
  ~processes() {
    for (auto const child : children_) ::kill(child, SIGKILL);
    for (auto const child : children_) ::waitpid(child, nullptr, 0);
    for (int const end : {told_[0], ready_[0]}) ::close(end);
  }

  /// Called by a child that has reached the point at which the test continues.
  void be_ready() const { CHECK(::write(ready_[1], "r", 1) == 1); }
  void wait_until_ready(std::size_t ranks) const {
    for (char c; ranks > 0; --ranks) REQUIRE(::read(ready_[0], &c, 1) == 1);
  }
  void send(std::uint32_t rank, int signal) const { CHECK(::kill(children_[rank], signal) == 0); }
  /// Waits for the messages of `expected` ranks and returns them.
  std::map<std::uint32_t, knowledge> learnt(std::size_t expected) const {
    std::map<std::uint32_t, knowledge> all;
    for (knowledge k; all.size() < expected && ::read(told_[0], &k, sizeof k) == sizeof k;) all[k.rank] = k;
    return all;
  }

 private:
  void tell(std::uint32_t r, std::string const& text) const {
    knowledge k{r, steady::now(), {}};
    std::strncpy(k.text.data(), text.c_str(), k.text.size() - 1);
    CHECK(::write(told_[1], &k, sizeof k) == sizeof k);  // short enough to be written in one piece
  }

  std::array<int, 2> told_{}, ready_{};
  std::vector<pid_t> children_;
};

tcp_rendezvous_options usual(std::chrono::milliseconds join_within = 20s) {
  tcp_rendezvous_options o{.key = "a key that all of them know"};
  o.join_within = join_within;
  o.leave_within = 300ms;
  o.decide_within = 300ms;
  return o;
}

auto in(std::chrono::milliseconds d) { return steady::now() + d; }

/// Passes a barrier and returns the first failure that the rank learns.
std::string first_failure(tcp_rendezvous& b, processes& here) {
  b.barrier(in(20s));
  here.be_ready();
  if (!b.wait_until(in(20s))) return "nothing";
  auto const f = b.poll();
  return f ? describe(*f) + " <" + std::to_string(index(f->culprit)) + ">" : "all have left";
}

}  // namespace

TEST_CASE("tcp_rendezvous: all ranks learn of a killed rank within 100 ms") {
  rng random(31);
  auto slowest = 0ns;
  for (std::uint32_t const ranks : {2u, 4u, 8u, 16u})
    for (auto const victim : {0u, 1u + static_cast<std::uint32_t>(random.below(ranks - 1))}) {
      processes p(ranks, usual(), first_failure);
      p.wait_until_ready(ranks);
      auto const killed = steady::now();
      p.send(victim, SIGKILL);
      auto const learnt = p.learnt(ranks - 1);
      CHECK(learnt.size() == ranks - 1);
      for (auto const& [r, k] : learnt) {
        std::string const text = k.text.data();
        CHECK(r != victim);
        CHECK_MESSAGE(k.when - killed < known_within, std::chrono::nanoseconds(k.when - killed).count());
        slowest = std::max<std::chrono::nanoseconds>(slowest, k.when - killed);
        CHECK(text.ends_with("<" + std::to_string(victim) + ">"));
        CHECK(text.find("caused by rank " + std::to_string(victim) + ": peer lost: the connection to rank " +
                        std::to_string(victim) + " (127.0.0.1:") != std::string::npos);
        if (victim != 0) CHECK(text == learnt.begin()->second.text.data());
      }
    }
  MESSAGE("known after ", static_cast<double>(slowest.count()) * 1e-6, " ms at most");
}

TEST_CASE("failure_reporter: a loss that names no rank gets the rank whose connection ended") {
  for (std::uint32_t const victim : {0u, 2u}) {
    processes p(3, usual(), [](tcp_rendezvous& b, processes& here) {
      struct : activity_source {
        rank_activity activity() const override { return {}; }
      } idle;
      failure_reporter const reporter(b, idle);
      b.barrier(in(20s));
      b.publish({.code = failure_code::peer_lost, .detail = "NCCL: a remote process exited"});
      here.be_ready();
      auto const f = reporter.named(b.poll().value());
      return describe(f) + " <" + std::to_string(index(f.culprit)) + ">";
    });
    p.wait_until_ready(3);
    p.send(victim, SIGKILL);
    auto const learnt = p.learnt(2);
    CHECK(learnt.size() == 2);
    for (auto const& [r, k] : learnt) {
      std::string const text = k.text.data();
      CHECK_MESSAGE(text.ends_with("<" + std::to_string(victim) + ">"), text);
      CHECK_MESSAGE(text.find("peer lost: NCCL: a remote process exited") != std::string::npos, text);
    }
  }
}

TEST_CASE("tcp_rendezvous: a process that exits abruptly is lost, one that ends normally is not") {
  processes lost(3, usual(), [](tcp_rendezvous& b, processes& here) {
    if (b.rank() == rank_id{1}) {
      b.barrier(in(20s));
      ::_exit(7);
    }
    return first_failure(b, here);
  });
  for (auto const& [r, k] : lost.learnt(2)) CHECK(std::string(k.text.data()).ends_with("<1>"));
  processes left(3, usual(), [](tcp_rendezvous& b, processes& here) -> std::string {
    if (b.rank() == rank_id{0}) return first_failure(b, here);
    b.barrier(in(20s));
    return "left";
  });
  auto const learnt = left.learnt(3);
  REQUIRE(learnt.size() == 3);
  CHECK(std::string(learnt.at(0).text.data()) == "all have left");
  CHECK(std::string(learnt.at(1).text.data()) == "left");
}

TEST_CASE("tcp_rendezvous: a stopped rank is blamed by a rank that waits for it") {
  for (std::uint32_t const victim : {0u, 2u}) {
    processes p(3, usual(), [](tcp_rendezvous& b, processes& here) {
      struct : activity_source {
        rank_activity activity() const override {
          return {activity_kind::waiting, {rank_id{(r + 2) % 3}}, stage_call{}, "recv F0"};
        }
        std::uint32_t r = 0;
      } does;
      does.r = index(b.rank());
      b.answer_with(&does);
      b.barrier(in(20s));
      here.be_ready();
      std::this_thread::sleep_for(50ms);
      if (b.rank() == rank_id{1}) b.report_waiting(does.activity());
      b.wait_until(in(20s));
      auto const text = describe(b.poll().value());
      b.answer_with(nullptr);
      return text;
    });
    p.wait_until_ready(3);
    p.send(victim, SIGSTOP);
    // One of the two running ranks asks; if rank 0 is stopped, only that one learns the failure.
    auto const learnt = p.learnt(victim == 0 ? 1 : 2);
    for (auto const& [r, k] : learnt) {
      std::string const text = k.text.data();
      CHECK(text.find("caused by rank " + std::to_string(victim)) != std::string::npos);
      CHECK(text.find("rank " + std::to_string(victim) + " does not answer") != std::string::npos);
    }
    CHECK(learnt.contains(1));
  }
}

TEST_CASE("tcp_rendezvous: a rank killed while joining or meeting does not hold up the others") {
  rng random(37);
  for (int round = 0; round < 8; ++round) {
    auto const ranks = 2 + static_cast<std::uint32_t>(random.below(5));
    auto const victim = static_cast<std::uint32_t>(random.below(ranks));
    auto const began = steady::now();
    processes p(ranks, usual(300ms), [](tcp_rendezvous& b, processes&) {
      for (int i = 0; i < 100'000; ++i) b.barrier(in(20s));
      return std::string("nothing");
    });
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(8000)));
    p.send(victim, SIGKILL);
    auto const learnt = p.learnt(ranks - 1);
    CHECK(learnt.size() == ranks - 1);
    for (auto const& [r, k] : learnt) {
      std::string const text = k.text.data();
      auto const name = "rank " + std::to_string(victim);
      CHECK_MESSAGE(text.find(name) != std::string::npos, text);
    }
    CHECK(steady::now() - began < 10s);
  }
}
