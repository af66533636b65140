// SPDX-License-Identifier: MIT
#include "cleave/run/host/host_threads.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

using namespace cleave;

using namespace cleave::detail;

namespace {

constexpr rank_id r0{0}, r1{1};

/// Two ranks; rank 1 is member 0 of the group.
struct two_ranks {
  host_ranks ranks{2};
  host_group group{ranks, {r1, r0}};
  host_communicator a{group, 0}, b{group, 1};
  host_device device{ranks, r1};
  host_device::stream s;
};

region of(std::vector<double>& x) { return {x.data(), x.size(), element_type::f64}; }
message to(std::uint32_t peer, std::uint32_t number) { return {rank_id{peer}, number, {}}; }

}  // namespace

TEST_CASE("host_communicator: numbers ranks and peers within its group") {
  two_ranks x;
  CHECK(x.a.rank() == r0);
  CHECK(x.b.rank() == r1);
  CHECK(x.b.size() == 2);
  std::vector<double> sent{1}, received{0};
  host_event left, arrived;
  x.a.begin_group();
  x.a.send(of(sent), to(1, 3), x.s);
  x.a.end_group(left, x.s);
  x.b.begin_group();
  x.b.receive(of(received), to(0, 3), x.s);
  x.b.end_group(arrived, x.s);
  CHECK(received[0] == 1);
}

TEST_CASE("host_communicator: a group's event happens when all of it has ended; an empty group's at once") {
  two_ranks x;
  std::vector<double> out{1}, in{0}, out_b{2}, in_b{0}, sum{5}, sum_b{6};
  host_event a, b, none;
  x.a.begin_group();
  x.a.send(of(out), to(1, 0), x.s);
  x.a.receive(of(in), to(1, 1), x.s);
  x.a.all_reduce(of(sum), reduce_op::sum, 2, x.s);
  x.a.end_group(a, x.s);
  CHECK_FALSE(a.happened());
  x.b.begin_group();
  x.b.receive(of(in_b), to(0, 0), x.s);
  x.b.send(of(out_b), to(0, 1), x.s);
  x.b.end_group(b, x.s);
  CHECK(b.happened());
  CHECK_FALSE(a.happened());
  x.b.begin_group();
  x.b.all_reduce(of(sum_b), reduce_op::sum, 2, x.s);
  x.b.end_group(b, x.s);
  CHECK(a.happened());
  CHECK(in[0] == 2);
  CHECK(in_b[0] == 1);
  CHECK(sum[0] == 11);
  CHECK(sum_b[0] == 11);
  x.a.begin_group();
  x.a.end_group(none, x.s);
  CHECK(none.happened());
}

TEST_CASE("host_communicator: reduce_op::max takes the maximum of each element") {
  two_ranks x;
  std::vector<double> a{1, 9}, b{4, 2};
  host_event ended_a, ended_b;
  x.a.begin_group();
  x.a.all_reduce(of(a), reduce_op::max, 0, x.s);
  x.a.end_group(ended_a, x.s);
  x.b.begin_group();
  x.b.all_reduce(of(b), reduce_op::max, 0, x.s);
  x.b.end_group(ended_b, x.s);
  CHECK(a == std::vector<double>{4, 9});
  CHECK(b == std::vector<double>{4, 9});
}

TEST_CASE("host_communicator: a wait for a message ends when another thread sends it") {
  two_ranks x;
  for (int i = 0; i < 200; ++i) {
    std::vector<double> received{0};
    host_event arrived;
    std::thread other([&] {
      std::vector<double> sent{static_cast<double>(i)};
      host_device device(x.ranks, r0);
      host_device::stream s;
      host_event left;
      x.b.begin_group();
      x.b.send(of(sent), to(0, 1), s);
      x.b.end_group(left, s);
      device.wait(s, left);
    });
    x.a.begin_group();
    x.a.receive(of(received), to(1, 1), x.s);
    x.a.end_group(arrived, x.s);
    x.device.wait(x.s, arrived);
    CHECK(received[0] == i);
    other.join();
  }
}

TEST_CASE("host_communicator: abort() releases a waiting rank, and both ranks read the reason") {
  two_ranks x;
  std::vector<double> received{0};
  host_event arrived;
  x.a.begin_group();
  x.a.receive(of(received), to(1, 1), x.s);
  x.a.end_group(arrived, x.s);
  CHECK_FALSE(x.a.poll());
  std::thread other([&] { x.b.abort({.code = failure_code::cancelled, .detail = "enough"}); });
  CHECK_THROWS_WITH_AS(x.device.wait(x.s, arrived), "enough", run_error);
  other.join();
  REQUIRE(x.a.poll());
  CHECK(x.a.poll()->detail == "enough");
}

TEST_CASE("host_communicator: wakes the right rank if members and ranks are numbered differently") {
  host_ranks ranks(4);
  host_group group(ranks, {rank_id{3}, rank_id{2}});
  host_communicator a(group, 0), b(group, 1);
  host_device device(ranks, rank_id{3});
  host_device::stream s;
  std::vector<double> sent{1}, received{0};
  host_event left, arrived;
  a.begin_group();
  a.receive(of(received), to(1, 1), s);
  a.end_group(arrived, s);
  std::thread other([&] {
    host_device::stream mine;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // until the other rank waits
    b.begin_group();
    b.send(of(sent), to(0, 1), mine);
    b.end_group(left, mine);
  });
  device.wait(s, arrived);
  CHECK(received[0] == 1);
  other.join();
}
