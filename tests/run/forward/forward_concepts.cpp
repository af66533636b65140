// SPDX-License-Identifier: MIT
#include "cleave/run/forward/forward.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

using namespace cleave;

using namespace cleave::detail;

/// Minimal types that model each concept.
namespace archetype {

class token {  // movable, and made only by its device
 public:
  token(token&&) = default;
  token& operator=(token&&) = default;

 private:
  token() = default;
  friend struct ticking;
};

class cargo {  // only movable and default constructible
 public:
  cargo() = default;
  explicit cargo(int n) : n_(n) {}
  cargo(cargo&& other) noexcept : n_(std::exchange(other.n_, 0)) {}
  cargo& operator=(cargo&& other) noexcept {
    n_ = std::exchange(other.n_, 0);
    return *this;
  }
  int worth() const { return n_; }

 private:
  int n_ = 0;
};

struct ticking {
  using stream = token;
  class event {
   public:
    event(event&&) = default;
    event& operator=(event&&) = default;

   private:
    event() = default;
    int at_ = 0;
    friend struct ticking;
  };
  token make_stream(int) { return {}; }
  event make_event() { return {}; }
  void record(event& e, token&) { e.at_ = ++now; }
  std::chrono::seconds elapsed(event const& from, event const& to) {
    return std::chrono::seconds(to.at_ - from.at_);
  }
  int now = 0;
};

/// Keeps sent values until they are received, for one thread.
struct shelf {
  void send(cargo& v, envelope const& which, token&) { kept[{which.edge, which.microbatch}] = std::move(v); }
  void recv(cargo& v, envelope const& which, token&) {
    v = std::move(kept.at({which.edge, which.microbatch}));
  }
  void abort(failure const&) noexcept { aborted = true; }
  std::map<std::pair<std::uint32_t, microbatch_id>, cargo> kept{};
  bool aborted = false;
};

struct slate {
  void publish(failure const& f) noexcept { first = f; }
  std::optional<failure> poll() { return first; }
  std::optional<failure> first{};
};

struct doubling {
  void forward(token&, stage_id i, microbatch_id mb, std::span<cargo> in, std::span<cargo> out) {
    if (in[0].worth() < 0) throw error("negative");
    out[0] = cargo(2 * in[0].worth() + static_cast<int>(index(i) + index(mb)));
  }
};

}  // namespace archetype

static_assert(stage_value<archetype::cargo> && !std::copyable<archetype::cargo>);
static_assert(clocked_device<archetype::ticking>);
static_assert(value_communicator<archetype::shelf, archetype::ticking, archetype::cargo>);
static_assert(rendezvous<archetype::slate>);
static_assert(value_stage<archetype::doubling, archetype::ticking, archetype::cargo>);

static_assert(!clocked_device<int> && !rendezvous<archetype::shelf> && !stage_value<int const>);
static_assert(!value_stage<archetype::slate, archetype::ticking, archetype::cargo>);

TEST_CASE("forward_stage: needs no more of its backend than the concepts say") {
  archetype::ticking d;
  archetype::shelf c;
  archetype::slate b;
  archetype::doubling st;
  call_log<archetype::ticking> log;
  stage_ports const through{.arriving = {7}, .departing = {{0, 8}}, .outputs = 1};
  c.kept[{7, microbatch_id{0}}] = archetype::cargo(10);
  c.kept[{7, microbatch_id{1}}] = archetype::cargo(20);

  forward_stage<archetype::cargo>(d, c, b, st, stage_id{3}, through, 2, log);
  CHECK(c.kept.at({8, microbatch_id{0}}).worth() == 23);
  CHECK(c.kept.at({8, microbatch_id{1}}).worth() == 44);
  CHECK(log.ended == 2);
  CHECK_FALSE(b.first);
  CHECK_FALSE(c.aborted);

  auto origin = d.make_event();
  std::vector<interval> timeline;
  append_intervals(d, log, stage_id{3}, origin, timeline);
  REQUIRE(timeline.size() == 6);
  CHECK(timeline[4] ==
        interval{stage_id{3}, microbatch_id{1}, activity::forward, 6'000'000'000, 7'000'000'000});
}

TEST_CASE("forward_stage: publishes a stage's exception, aborts the communicator and returns") {
  archetype::ticking d;
  archetype::shelf c;
  archetype::slate b;
  archetype::doubling st;
  call_log<archetype::ticking> log;
  c.kept[{0, microbatch_id{0}}] = archetype::cargo(1);
  c.kept[{0, microbatch_id{1}}] = archetype::cargo(-1);
  forward_stage<archetype::cargo>(d, c, b, st, stage_id{0},
                                  {.arriving = {0}, .departing = {{0, 1}}, .outputs = 1}, 9, log);
  REQUIRE(b.first);
  CHECK(describe(*b.first) == "stage 0, microbatch 1: negative");
  CHECK(c.aborted);
  CHECK(log.ended == 1);
}
