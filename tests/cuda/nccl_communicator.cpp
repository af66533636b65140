// SPDX-License-Identifier: MIT
#include "cleave/cuda/pipeline.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cleave/run/sums/sum_in_order.hpp"
#include "support/cuda/fake_cuda.hpp"
#include "support/cuda/nccl_ranks.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;
using namespace std::chrono_literals;

namespace {

using lines = std::vector<std::string>;
using bytes = std::vector<std::byte>;
using clock_type = std::chrono::steady_clock;

/// Random numbers of a type as bytes, none of them NaN.
bytes random_numbers(rng& random, element_type t, std::size_t count) {
  bytes made(count * size_of(t));
  for (std::size_t i = 0; i < made.size(); ++i) made[i] = static_cast<std::byte>(random.below(256));
  for (std::size_t i = 0; i < count; ++i) {
    auto* const at = made.data() + i * size_of(t);
    auto const x = (static_cast<double>(random.below(2000)) - 1000) / 7;
    auto const f = static_cast<float>(x);
    if (t == element_type::f64) std::memcpy(at, &x, sizeof x);
    if (t == element_type::f32) std::memcpy(at, &f, sizeof f);
    if (t == element_type::f16 || t == element_type::bf16) at[1] &= std::byte{0xbf};  // keeps it finite
  }
  return made;
}

/// Options under which a call that hangs is given up soon, though not before ranks of a busy machine meet.
cleave::cuda::nccl_options soon() {
  return {.connect_within = 1000ms, .settle_within = 1000ms, .abort_within = 200ms, .finish_within = 200ms};
}
/// Options for ranks that fail before any limit.
cleave::cuda::nccl_options patient() {
  return {.connect_within = 20s, .settle_within = 20s, .abort_within = 20s, .finish_within = 20s};
}

/// Connects ranks; returns the error text of each.
lines connect(std::uint32_t ranks, cleave::cuda::nccl_options const& o) {
  return on_ranks(ranks, [&](process_start const& s) {
    nccl_place here(s, o);
    nccl_communicator all(here.rank, here.rendezvous, s.rank, s.size);
  });
}

double seconds_since(clock_type::time_point t) {
  return std::chrono::duration<double>(clock_type::now() - t).count();
}

}  // namespace

TEST_CASE("nccl_communicator: messages of a pair arrive in the order sent") {
  for (std::uint32_t const ranks : {2u, 3u, 5u}) {
    fake_cuda const fake(fake_gpus(ranks, ranks));
    auto const thrown = on_ranks(ranks, [&](process_start const& s) {
      nccl_place here(s);
      nccl_communicator all(here.rank, here.rendezvous, s.rank, s.size);
      CHECK(all.rank() == s.rank);
      CHECK(all.size() == ranks);
      auto const to = rank_id{(index(s.rank) + 1) % ranks},
                 from = rank_id{(index(s.rank) + ranks - 1) % ranks};
      auto const own = here.put({std::byte(index(s.rank)), std::byte{7}});
      auto const got = here.device.allocate(2);
      auto* const sent = static_cast<std::byte*>(own.data());
      auto* const received = static_cast<std::byte*>(got.data());
      auto ended = here.device.make_event();
      for (std::uint32_t n = 0; n < 2; ++n) {
        all.begin_group();
        all.send({sent + n, 1}, {to, n, {}}, here.stream);
        all.receive({received + n, 1}, {from, n, {}}, here.stream);
        all.end_group(ended, here.stream);
      }
      CHECK(here.take(got) == bytes{std::byte(index(from)), std::byte{7}});
    });
    CHECK(thrown == lines(ranks));
    CHECK(fake.reports() == lines());
    CHECK(fake.leaks() == lines());
  }
}

TEST_CASE(
    "nccl_communicator: ordered reductions match the host bit for bit, on all ranks and for all types") {
  rng random(5);
  for (int i = 0; i < 12; ++i) {
    auto const ranks = static_cast<std::uint32_t>(1 + random.below(5));
    auto const type = static_cast<element_type>(random.below(9));
    auto const op = random.one_in(3) ? reduce_op::max : reduce_op::sum;
    auto const count = 1 + random.below(random.one_in(2) ? 40 : 4000);
    CAPTURE(i);
    fake_cuda const fake(fake_gpus(ranks, static_cast<std::uint64_t>(i)));
    std::vector<bytes> given;
    for (std::uint32_t r = 0; r < ranks; ++r) given.push_back(random_numbers(random, type, count));
    auto wanted = given;
    std::vector<region> parts;
    for (auto& w : wanted) parts.push_back({w.data(), count, type});
    sum_in_order(parts, op);

    cleave::cuda::nccl_options o{.shortest_slice = 512};
    o.largest_group = static_cast<std::uint32_t>(1 + random.below(8));
    std::vector<bytes> made(ranks);
    auto const thrown = on_ranks(ranks, [&](process_start const& s) {
      nccl_place here(s, o);
      nccl_communicator all(here.rank, here.rendezvous, s.rank, s.size);
      auto const memory = here.put(given[index(s.rank)]);
      auto ended = here.device.make_event();
      all.begin_group();
      all.all_reduce({memory.data(), count, type}, op, 0, here.stream);
      all.end_group(ended, here.stream);
      made[index(s.rank)] = here.take(memory);
    });
    CHECK(thrown == lines(ranks));
    CHECK(made == wanted);
    CHECK(fake.reports() == lines());
  }
}

TEST_CASE(
    "nccl_communicator: groups mix messages with NCCL's reductions; types unknown to NCCL work as well") {
  fake_cuda const fake(fake_gpus(3));
  auto const thrown = on_ranks(3, [&](process_start const& s) {
    nccl_place here(s, {.reductions = cleave::cuda::nccl_reductions::library});
    nccl_communicator all(here.rank, here.rendezvous, s.rank, s.size);
    std::vector<double> numbers = {1.0 + index(s.rank), 10};
    bytes given(2 * sizeof(double));
    std::memcpy(given.data(), numbers.data(), given.size());
    auto const memory = here.put(given);
    auto ended = here.device.make_event();
    auto const peer = rank_id{index(s.rank) == 0 ? 1u : 0u};
    auto const note = here.device.allocate(2);
    all.begin_group();
    all.all_reduce({memory.data(), 2, element_type::f64}, reduce_op::sum, 0, here.stream);
    if (index(s.rank) == 0) all.send({note.data(), 2}, {peer, 1, {}}, here.stream);
    if (index(s.rank) == 1) all.receive({note.data(), 2}, {peer, 1, {}}, here.stream);
    all.end_group(ended, here.stream);
    auto const sum = here.take(memory);
    std::memcpy(numbers.data(), sum.data(), sum.size());
    CHECK(numbers == std::vector<double>{6, 30});

    auto const small = here.put({std::byte(index(s.rank) + 1), std::byte{0}});
    all.begin_group();
    all.all_reduce({small.data(), 1, element_type::i16}, reduce_op::sum, 2, here.stream);
    all.end_group(ended, here.stream);
    CHECK(here.take(small) == bytes{std::byte{6}, std::byte{0}});
  });
  CHECK(thrown == lines(3));
  CHECK(fake.calls("ncclAllReduce") == 3);
  CHECK(fake.reports() == lines());
}

TEST_CASE("nccl_communicator: a split holds the ranks of one color in the order of their keys") {
  fake_cuda const fake(fake_gpus(5));
  auto const thrown = on_ranks(5, [&](process_start const& s) {
    nccl_place here(s);
    nccl_communicator all(here.rank, here.rendezvous, s.rank, s.size);
    auto const r = index(s.rank);
    nccl_communicator const parity(all, r % 2, 10 - r);
    CHECK(parity.size() == (r % 2 == 0 ? 3 : 2));
    CHECK(index(parity.rank()) == (r % 2 == 0 ? 2 - r / 2 : 1 - r / 2));
    nccl_communicator sums(all, r < 3 ? std::optional(0u) : std::nullopt, r, nccl_communicator::use::sums);
    CHECK(sums.size() == (r < 3 ? 3 : 1));
    sums.warm_up({}, here.stream);
  });
  CHECK(thrown == lines(5));
  CHECK(fake.reports() == lines());
  CHECK(fake.leaks() == lines());
}

TEST_CASE("nccl_communicator: after warm_up(), a rank can send before its peer receives") {
  for (bool const warm : {true, false}) {
    fake_cuda const fake(fake_gpus(2));
    std::atomic<bool> sent = false;
    auto const thrown = on_ranks(2, [&](process_start const& s) {
      nccl_place here(s, {.connect_within = 20s, .settle_within = warm ? 20'000ms : 500ms});
      auto const memory = here.device.allocate(8);
      auto ended = here.device.make_event();
      nccl_communicator all(here.rank, here.rendezvous, s.rank, s.size);
      auto const peer = rank_id{1 - index(s.rank)};
      if (warm) all.warm_up({peer}, here.stream);
      all.begin_group();
      if (index(s.rank) == 0) {
        all.send({memory.data(), 8}, {peer, 0, {}}, here.stream);
        all.end_group(ended, here.stream);
        sent = true;
      } else {
        auto const until = clock_type::now() + (warm ? 20s : 2s);
        while (!sent && clock_type::now() < until) std::this_thread::yield();
        CHECK(sent == warm);
        if (!sent) return;
        all.receive({memory.data(), 8}, {peer, 0, {}}, here.stream);
        all.end_group(ended, here.stream);
      }
      here.take(memory);
    });
    CHECK((thrown == lines(2)) == warm);
  }
}

TEST_CASE("nccl_communicator: an init, split or group that never ends times out") {
  struct {
    fake_nccl_hang what;
    char const* call;
  } const cases[] = {{fake_nccl_hang::init, "ncclCommInitRankConfig"},
                     {fake_nccl_hang::split, "ncclCommSplit"},
                     {fake_nccl_hang::group, "ncclGroupEnd"}};
  for (auto const& c : cases) {
    fake_cuda fake(fake_gpus(2));
    fake.hang_nccl(c.what);
    auto const begin = clock_type::now();
    auto const thrown = on_ranks(2, [&](process_start const& s) {
      nccl_place here(s, soon());
      nccl_communicator all(here.rank, here.rendezvous, s.rank, s.size);
      nccl_communicator part(all, 0, index(s.rank));
      part.warm_up({rank_id{1 - index(s.rank)}}, here.stream);
    });
    CHECK(seconds_since(begin) < 10);
    for (std::uint32_t r = 0; r < 2; ++r)
      CHECK(thrown[r] ==
            "rank " + std::to_string(r) + ": timed out: " + c.call +
                " did not finish within 1000 ms; check that all ranks are running and can reach each other: "
                "NCCL_SOCKET_IFNAME selects the interface, NCCL_DEBUG=INFO prints details");
    CHECK(fake.reports() == lines());
  }
}

TEST_CASE("nccl_communicator: two ranks on one GPU are rejected with a remedy unless NCCL accepts them") {
  {
    fake_cuda const fake(fake_gpus(2));
    auto const thrown = on_ranks(2, [&](process_start const& s) {
      nccl_place here(s, patient(), 1);
      nccl_communicator all(here.rank, here.rendezvous, s.rank, s.size);
    });
    for (auto const& text : thrown) {
      CHECK(text.find("ncclCommInitRankConfig: ") != text.npos);
      CHECK(text.find("Duplicate GPU detected") != text.npos);
      CHECK(text.find("; give each rank a GPU of its own; ") != text.npos);
    }
    CHECK(fake.reports() == lines());
  }
  fake_cuda fake(fake_gpus(1));
  auto const thrown = on_ranks(2, [&](process_start const& s) {
    fake.host("host" + std::to_string(index(s.rank)));
    nccl_place here(s, patient(), 0);
    nccl_communicator all(here.rank, here.rendezvous, s.rank, s.size);
  });
  CHECK(thrown == lines(2));
}

TEST_CASE("nccl_communicator: rejects an NCCL older than the compiled one before using it") {
  auto o = fake_gpus(2);
  o.nccl_version = NCCL_VERSION(2, 18, 1);
  fake_cuda const fake(o);
  auto const thrown = connect(2, patient());
  CHECK(thrown[0] == thrown[1]);
  CHECK(thrown[0].starts_with("rank 0 has loaded NCCL 2.18.1, but was compiled for "));
  CHECK(fake.calls("ncclCommInitRankConfig") == 0);
}

TEST_CASE("nccl_communicator: if rank 0 cannot make an id, every rank gets rank 0's error") {
  fake_cuda fake(fake_gpus(3));
  fake.fail("ncclGetUniqueId", 1, ncclSystemError);
  for (auto const& text : connect(3, {.connect_within = 20s}))
    CHECK(text.starts_with("rank 0: transport error: ncclGetUniqueId: "));
}

TEST_CASE("nccl_communicator: a failed call is named, and later groups fail with the same error") {
  fake_cuda fake(fake_gpus(1));
  fake.fail("ncclCommSplit", 1, ncclInternalError);
  auto const thrown = on_ranks(1, [&](process_start const& s) {
    nccl_place here(s);
    nccl_communicator all(here.rank, here.rendezvous, s.rank, s.size);
    CHECK(!all.poll());
    CHECK_THROWS_WITH(nccl_communicator(all, 0, 0), doctest::Contains("transport error: ncclCommSplit: "));
    REQUIRE(all.poll());
    CHECK(all.poll()->detail.starts_with("ncclCommSplit: "));
    auto ended = here.device.make_event();
    all.begin_group();
    all.end_group(ended, here.stream);
  });
  CHECK(thrown[0].starts_with("rank 0: transport error: ncclCommSplit: "));
  CHECK(fake.reports() == lines());
  CHECK(fake.leaks() == lines());
}

TEST_CASE(
    "nccl_communicator: a failure from any thread ends the rank's waits; only the rank's thread calls NCCL") {
  for (bool const connected : {true, false}) {
    fake_cuda fake(fake_gpus(2));
    auto const thrown = on_ranks(2, [&](process_start const& s) {
      nccl_place here(s, {.connect_within = 30s, .settle_within = 30s});
      if (!connected) fake.hang_nccl(fake_nccl_hang::init);
      std::thread other([&] {
        std::this_thread::sleep_for(50ms);
        here.rank.publish({.code = failure_code::cancelled, .detail = "the caller has enough"});
      });
      struct joined {
        std::thread& t;
        ~joined() { t.join(); }
      } const at_end{other};
      auto const memory = here.device.allocate(8);
      auto ended = here.device.make_event();
      nccl_communicator all(here.rank, here.rendezvous, s.rank, s.size);
      all.begin_group();
      all.receive({memory.data(), 8}, {rank_id{1 - index(s.rank)}, 0, {}}, here.stream);
      all.end_group(ended, here.stream);  // no rank sends
    });
    CHECK(thrown == lines(2, "the caller has enough"));
    CHECK(fake.reports() == lines());
    CHECK(fake.leaks() == lines());
  }
}

TEST_CASE("nccl_communicator: an asynchronous NCCL error becomes the run's failure") {
  fake_cuda fake(fake_gpus(2));
  auto const thrown = on_ranks(2, [&](process_start const& s) {
    nccl_place here(s, patient());
    nccl_communicator all(here.rank, here.rendezvous, s.rank, s.size);
    here.rendezvous.barrier(clock_type::now() + 10s);
    if (index(s.rank) == 0) fake.fail_communicators(0, ncclRemoteError);
    here.rendezvous.barrier(clock_type::now() + 10s);
    auto const f = all.poll();
    CHECK(f.has_value() == (index(s.rank) == 0));
    if (f) {
      CHECK(f->code == failure_code::peer_lost);
      CHECK(f->reporter == rank_id{0});
      all.abort(*f);
      auto ended = here.device.make_event();
      all.begin_group();
      all.end_group(ended, here.stream);
    }
  });
  CHECK(thrown[0].starts_with("rank 0: peer lost: NCCL: remote process exited"));
  CHECK(thrown[1] == "");
  CHECK(fake.reports() == lines());
}

TEST_CASE("nccl_communicator: rejects a group of more messages than largest_group") {
  fake_cuda const fake(fake_gpus(2));
  auto const thrown = on_ranks(2, [&](process_start const& s) {
    nccl_place here(s, {.largest_group = 2});
    nccl_communicator all(here.rank, here.rendezvous, s.rank, s.size);
    auto const memory = here.device.allocate(8);
    auto ended = here.device.make_event();
    all.begin_group();
    for (std::uint32_t n = 0; n < 3; ++n)
      all.send({memory.data(), 8}, {rank_id{1 - index(s.rank)}, n, {}}, here.stream);
    all.end_group(ended, here.stream);
  });
  for (std::uint32_t r = 0; r < 2; ++r)
    CHECK(thrown[r] ==
          "rank " + std::to_string(r) +
              ": transport error: 3 messages are in one group, but at most 2 are allowed; use smaller groups "
              "(message_grouping::none), or raise cuda::nccl_options::largest_group");
}
