// SPDX-License-Identifier: MIT
#include "cleave/cuda/threads.hpp"

#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cleave/run/sums/sum_in_order.hpp"
#include "support/comes_true.hpp"
#include "support/cuda/fake_cuda.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;

namespace {

using namespace std::chrono_literals;
using sentences = std::vector<std::string>;

/// Ranks with one device each, and a group of all of them.
struct loopback_ranks {
  host_ranks ranks;
  std::deque<cleave::cuda::device> devices;
  std::vector<cleave::cuda::device*> of_members;
  std::vector<rank_id> members;
  std::optional<cleave::cuda::loopback_group> group;
  std::deque<cleave::cuda::loopback_communicator> communicators;

  explicit loopback_ranks(std::vector<int> const& gpus) : ranks(static_cast<std::uint32_t>(gpus.size())) {
    for (std::uint32_t r = 0; r < gpus.size(); ++r) {
      of_members.push_back(&devices.emplace_back(cleave::cuda::options{.device = gpus[r]}));
      members.push_back(rank_id{r});
    }
    group.emplace(ranks, members, of_members);
    for (std::uint32_t r = 0; r < gpus.size(); ++r) communicators.emplace_back(*group, r);
  }
};

message numbered(std::uint32_t peer, std::uint32_t number) {
  return {rank_id{peer}, number, {stage_id{0}, microbatch_id{0}}};
}

}  // namespace

TEST_CASE("cuda::loopback_communicator: reduces in member order, whichever GPUs the members use") {
  rng random(3);
  for (auto const& gpus : {std::vector{0, 0, 0}, std::vector{0, 1, 0}, std::vector{1, 0, 1}}) {
    fake_cuda fake({.longest_delay = 100us, .devices = {2, fake_gpu()}});
    {
      loopback_ranks all(gpus);
      std::vector<std::vector<float>> numbers(3);
      for (auto& n : numbers)
        for (int i = 0; i < 500; ++i)
          n.push_back(static_cast<float>(random.below(1000)) / 7 * (i % 2 ? 1e8f : 1.0f));
      auto wanted = numbers;
      std::vector<region> regions;
      for (auto& w : wanted) regions.push_back({w.data(), w.size(), element_type::f32});
      sum_in_order(regions, reduce_op::sum);

      std::deque<cleave::cuda::buffer> memory;
      for (std::uint32_t r = 0; r < 3; ++r) memory.push_back(all.devices[r].allocate(2000));
      std::vector<std::thread> threads;
      for (std::uint32_t r = 0; r < 3; ++r)
        threads.emplace_back([&, r] {
          auto& d = all.devices[r];
          d.use();
          auto s = d.make_stream(0);
          auto e = d.make_event();
          auto& c = all.communicators[r];
          for (std::uint32_t turn = 0; turn < 2; ++turn) {  // the second reduces the results of the first
            if (turn == 0) d.copy(s, memory[r].data(), numbers[r].data(), 2000);
            c.begin_group();
            c.all_reduce({memory[r].data(), 500, element_type::f32},
                         turn == 0 ? reduce_op::sum : reduce_op::max, turn, s);
            c.end_group(e, s);
            d.wait(s, e);
          }
          d.copy(s, numbers[r].data(), memory[r].data(), 2000);
          d.record(e, s);
          CHECK(comes_true([&] { return d.query(e); }));
        });
      for (auto& t : threads) t.join();
      CHECK(numbers == wanted);
    }
    CHECK(fake.reports() == sentences());
    CHECK(fake.leaks() == sentences());
  }
}

TEST_CASE("cuda::loopback_communicator: a receive without a sender stays open until the run fails") {
  fake_cuda fake;
  loopback_ranks all({0, 0});
  auto& d = all.devices[1];
  auto s = d.make_stream(0);
  auto e = d.make_event();
  auto const room = d.allocate(8);
  auto& c = all.communicators[1];
  c.begin_group();
  c.end_group(e, s);
  CHECK(comes_true([&] { return d.query(e); }));  // of nothing
  c.begin_group();
  c.receive({room.data(), 8, element_type::u8}, numbered(0, 4), s);
  c.end_group(e, s);
  CHECK_FALSE(d.query(e));
  CHECK_FALSE(c.poll());
  std::thread other([&] { all.communicators[0].abort({failure_code::cancelled, {}, "enough"}); });
  CHECK_THROWS_WITH_AS(d.wait(s, e), "enough", run_error);
  other.join();
  REQUIRE(c.poll());
  CHECK(c.poll()->detail == "enough");
}

TEST_CASE("cuda::loopback_communicator: a message whose ends disagree names both and does not complete") {
  for (bool number : {true, false}) {
    fake_cuda fake;
    loopback_ranks all({0, 0});
    std::array streams{all.devices[0].make_stream(0), all.devices[1].make_stream(0)};
    std::array events{all.devices[0].make_event(), all.devices[1].make_event()};
    auto const from = all.devices[0].allocate(8), to = all.devices[1].allocate(8);
    auto& a = all.communicators[0];
    a.begin_group();
    a.send({from.data(), 8, element_type::u8}, numbered(1, 4), streams[0]);
    a.end_group(events[0], streams[0]);
    auto& b = all.communicators[1];
    b.begin_group();
    b.receive({to.data(), number ? 8u : 4u, element_type::u8}, numbered(0, number ? 5 : 4), streams[1]);
    b.end_group(events[1], streams[1]);
    REQUIRE(a.poll());
    CHECK(a.poll()->code == failure_code::mismatch);
    CHECK(a.poll()->detail == "rank 0 sends message 4 of 8 bytes, but rank 1 receives message " +
                                  std::string(number ? "5 of 8" : "4 of 4") +
                                  " bytes; both must run the same program");
    CHECK_FALSE(all.devices[1].query(events[1]));
  }
}
