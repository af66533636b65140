// SPDX-License-Identifier: MIT
#include "cleave/run/forward/forward.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

using namespace cleave;

using namespace cleave::detail;

namespace {
constexpr stage_id s0{0}, s1{1};
constexpr microbatch_id m0{0}, m1{1};
constexpr std::uint32_t given_to_0 = 0, between = 1, taken_from_1 = 2, passed_by = 3;
dataflow const chain{
    .stages = 2,
    .edges = {
        {the_caller, 0, s0, 0}, {s0, 0, s1, 0}, {s1, 0, the_caller, 1}, {the_caller, 1, the_caller, 0}}};

std::vector<std::vector<std::string>> words() { return {{"a", "b"}, {"c", "d"}}; }
}  // namespace

static_assert(value_communicator<value_queues<std::string>, host_clock, std::string>);
static_assert(value_communicator<value_queues<std::unique_ptr<int>>, host_clock, std::unique_ptr<int>>);

TEST_CASE("value_queues: carries values from the caller through stages back to the caller") {
  value_queues<std::string> c(chain, words(), 1);
  host_clock::stream s;
  std::string v;
  for (auto const m : {m0, m1}) {
    c.recv(v, {given_to_0, m}, s);
    v += "0";
    c.send(v, {between, m}, s);
    c.recv(v, {between, m}, s);
    v += "1";
    c.send(v, {taken_from_1, m}, s);
  }
  CHECK(c.take_results() == std::vector<std::vector<std::string>>{{"b", "a01"}, {"d", "c01"}});
  CHECK(c.most_queued() == std::vector<std::size_t>{0, 1, 0, 0});
}

TEST_CASE("value_queues: copies a caller's input that has several readers") {
  dataflow t = chain;
  t.edges[passed_by].output = 0;
  value_queues<std::string> c(t, words(), 1);
  host_clock::stream s;
  std::string v;
  c.recv(v, {given_to_0, m0}, s);
  CHECK(v == "a");
  CHECK(c.take_results()[0][0] == "a");
}

TEST_CASE("value_queues: an error names both ends that disagree about the microbatch") {
  value_queues<std::string> c(chain, words(), 1);
  host_clock::stream s;
  std::string v = "x";
  c.send(v, {between, m1}, s);
  try {
    c.recv(v, {between, m0}, s);
    FAIL("a wrong value was taken");
  } catch (run_error const& e) {
    CHECK(e.info.code == failure_code::mismatch);
    CHECK(e.info.at == stage_call{s1, m0});
    CHECK(std::string(e.what()) ==
          "stage 1, microbatch 0: operation mismatch: stage 0 sent microbatch 1 on edge #1");
  }
}

TEST_CASE("value_queues: abort() releases current and later waits with the first reason") {
  value_queues<std::string> c(chain, words(), 1);
  std::string said;
  std::thread waiting([&] {
    host_clock::stream s;
    std::string v;
    try {
      c.recv(v, {between, m0}, s);
    } catch (run_error const& e) {
      said = e.what();
    }
  });
  c.abort({failure_code::cancelled, {}, "first"});
  c.abort({failure_code::cancelled, {}, "second"});
  waiting.join();
  CHECK(said == "first");
  host_clock::stream s;
  std::string v;
  CHECK_THROWS_WITH_AS(c.send(v, {between, m0}, s), "first", run_error);
}
