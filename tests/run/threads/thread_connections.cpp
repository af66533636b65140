// SPDX-License-Identifier: MIT
#include "cleave/run/threads/thread_pipeline.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "cleave/schedule/families/generate.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

using members_list = std::vector<rank_id>;

/// Notes the members of the groups it makes.
struct noting_threads : host_threads {
  std::vector<members_list> made = {};

  group& make_group(stable_list<group>& to, host_ranks& ranks, members_list members, std::span<device> all) {
    made.push_back(members);
    return host_threads::make_group(to, ranks, std::move(members), all);
  }
};

rank_grid replicas_of(std::uint32_t pipe, std::uint32_t data) {
  return {{.pipe = pipe, .data = data, .model = 1}, {rank_axis::data, rank_axis::model, rank_axis::pipe}};
}

members_list ranks(std::vector<std::uint32_t> const& numbers) {
  members_list r;
  for (auto const n : numbers) r.push_back(rank_id{n});
  return r;
}

struct connected {
  noting_threads backend;
  host_ranks threads;
  std::vector<host_device> devices;
  thread_connections<noting_threads> connections;
  std::vector<rank_communicators<host_communicator>> with;

  connected(rank_grid const& grid, std::vector<tie_set> const& sets)
      : threads(grid.size()), devices(devices_of(grid.size())), connections(backend, threads, devices) {
    with = connections.connect(grid, one_f_one_b(grid.size(rank_axis::pipe), 4).place, sets);
  }
  std::vector<host_device> devices_of(std::uint32_t n) {
    std::vector<host_device> all;
    for (std::uint32_t r = 0; r < n; ++r) all.push_back(backend.make_device(threads, rank_id{r}));
    return all;
  }
};

tie_set ties_between(std::vector<std::uint32_t> const& stages) {
  tie_set set;
  for (auto const s : stages) set.stages.push_back(stage_id{s});
  return set;
}

}  // namespace

TEST_CASE(
    "thread_connections: groups the ranks of each replica, of each tie, and the replicas of each rank") {
  connected const c(replicas_of(3, 2), {ties_between({0, 2})});
  CHECK(c.backend.made == std::vector<members_list>{ranks({0, 1, 2}), ranks({0, 2}), ranks({3, 4, 5}),
                                                    ranks({3, 5}), ranks({0, 3}), ranks({1, 4}),
                                                    ranks({2, 5})});
  REQUIRE(c.with.size() == 6);
  for (std::uint32_t r = 0; r < 6; ++r) {
    CHECK(c.with[r].here == rank_id{r});
    CHECK(c.with[r].pipe != nullptr);
    CHECK(c.with[r].replicas != nullptr);
    REQUIRE(c.with[r].ties.size() == 1);
    CHECK((c.with[r].ties[0] != nullptr) == (r % 3 != 1));
  }
}

TEST_CASE("thread_connections: no two ranks share a communicator") {
  connected const c(replicas_of(3, 2), {ties_between({0, 2}), ties_between({0, 1})});
  std::map<host_communicator const*, int> uses;
  for (auto const& w : c.with) {
    ++uses[w.pipe], ++uses[w.replicas];
    for (auto const* t : w.ties)
      if (t != nullptr) ++uses[t];
  }
  CHECK(uses.size() == 6 + 6 + 4 + 4);
  for (auto const& [communicator, times] : uses) CHECK(times == 1);
}

TEST_CASE("thread_connections: one replica needs no replica group, and ties within a rank no tie group") {
  connected const c(replicas_of(2, 1), {ties_between({1})});
  CHECK(c.backend.made == std::vector<members_list>{ranks({0, 1})});
  for (auto const& w : c.with) {
    CHECK(w.replicas == nullptr);
    CHECK(w.ties == std::vector<host_communicator*>{nullptr});
  }
}

TEST_CASE("thread_connections: rejects ties of stages that do not exist") {
  CHECK_THROWS_AS(connected(replicas_of(2, 1), {ties_between({0, 7})}), tie_stage_error);
}
