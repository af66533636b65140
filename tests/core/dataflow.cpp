// SPDX-License-Identifier: MIT
#include "cleave/core/dataflow.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;
using enum dataflow_fault::kind;

namespace {

constexpr stage_id s0{0}, s1{1}, s2{2}, s3{3};

/// Stage 0 feeds 1 and 3, 1 feeds 2, and 2 feeds 3. The caller gets results of 1 and 3.
dataflow sound() {
  return {.stages = 4,
          .edges = {{the_caller, 0, s0, 0},
                    {s0, 0, s1, 0},
                    {s0, 1, s3, 1},
                    {s1, 0, s2, 0},
                    {s1, 0, the_caller, 1},
                    {s2, 0, s3, 0},
                    {s3, 0, the_caller, 0}}};
}

/// Returns whether stage `from` reaches `to` by at least one edge. Tries every path.
bool reaches(dataflow const& t, stage_id from, stage_id to, std::uint32_t steps) {
  return steps > 0 && std::ranges::any_of(t.edges, [&](dataflow::edge const& e) {
           return e.from == from && e.to != the_caller && (e.to == to || reaches(t, e.to, to, steps - 1));
         });
}

}  // namespace

TEST_CASE(
    "find_dataflow_fault: accepts skip edges, values with several readers and results of inner stages") {
  CHECK_FALSE(find_dataflow_fault(sound()));
  CHECK_FALSE(find_dataflow_fault({}));
  CHECK_FALSE(find_dataflow_fault({.stages = 3, .edges = {}}));
  CHECK_FALSE(find_dataflow_fault({.stages = 0, .edges = {{the_caller, 0, the_caller, 0}}}));
}

TEST_CASE("find_dataflow_fault: accepts inputs of the caller that no stage reads") {
  auto t = sound();
  t.edges[0].output = 4'000'000'000;
  CHECK_FALSE(find_dataflow_fault(t));
}

TEST_CASE("find_dataflow_fault: names an edge to or from a stage that does not exist") {
  auto t = sound();
  t.edges[3].to = stage_id{4};
  CHECK(find_dataflow_fault(t) == dataflow_fault{unknown_stage, stage_id{4}, 0, 3});
  CHECK(describe(*find_dataflow_fault(t)) ==
        "edge #3 names stage 4, which does not exist; stages are numbered from 0");
  t = sound();
  t.edges[5].from = stage_id{7};
  CHECK(find_dataflow_fault(t) == dataflow_fault{unknown_stage, stage_id{7}, 0, 5});
}

TEST_CASE("find_dataflow_fault: names an input that two edges fill, with the second edge") {
  auto t = sound();
  t.edges[5].input = 1;
  CHECK(find_dataflow_fault(t) == dataflow_fault{filled_twice, s3, 1, 5});
  t = sound();
  t.edges[4].input = 0;
  CHECK(find_dataflow_fault(t) == dataflow_fault{filled_twice, the_caller, 0, 6});
}

TEST_CASE("find_dataflow_fault: names a gap in the numbers of inputs or outputs, even for large numbers") {
  auto t = sound();
  t.edges[2].input = 4'294'967'295;
  CHECK(find_dataflow_fault(t) == dataflow_fault{nothing_arrives, s3, 1});
  t = sound();
  t.edges[6].input = 2;
  CHECK(find_dataflow_fault(t) == dataflow_fault{nothing_arrives, the_caller, 0});
  CHECK(describe(*find_dataflow_fault(t)).starts_with("no edge fills input #0 of the caller"));
  t = sound();
  t.edges[1].output = 4'294'967'295;
  CHECK(find_dataflow_fault(t) == dataflow_fault{unread_result, s0, 0});
  t.edges[1].output = 2;
  CHECK(find_dataflow_fault(t) == dataflow_fault{unread_result, s0, 0});
}

TEST_CASE("find_dataflow_fault: lists a cycle of stages in the order of its edges") {
  auto t = sound();
  t.edges.push_back({s3, 1, s1, 1});
  auto const fault = find_dataflow_fault(t);
  REQUIRE(fault);
  CHECK(fault->what == cycle);
  CHECK(fault->path == std::vector{s1, s2, s3});
  CHECK(describe(*fault) == "stages wait for each other: stage 1 -> stage 2 -> stage 3 -> stage 1");
  CHECK(std::string(dataflow_error(*fault).what()) == "dataflow: " + describe(*fault));

  dataflow const alone{.stages = 1, .edges = {{s0, 0, s0, 0}}};
  CHECK(find_dataflow_fault(alone)->path == std::vector{s0});
}

TEST_CASE("find_stage_cycle: returns a cycle exactly if a stage reaches itself, with each stage once") {
  testing::rng random(7);
  int cyclic = 0;
  for (int round = 0; round < 2000; ++round) {
    dataflow t{.stages = static_cast<std::uint32_t>(1 + random.below(6)), .edges = {}};
    for (std::size_t e = random.below(9); e > 0; --e)
      t.edges.push_back({stage_id{static_cast<std::uint32_t>(random.below(t.stages))}, 0,
                         stage_id{static_cast<std::uint32_t>(random.below(t.stages))}, 0});
    bool expected = false;
    for (std::uint32_t s = 0; s < t.stages; ++s)
      expected = expected || reaches(t, stage_id{s}, stage_id{s}, t.stages);
    auto const found = find_stage_cycle(t);
    REQUIRE(found.has_value() == expected);
    if (!found) continue;
    ++cyclic;
    for (std::size_t i = 0; i < found->size(); ++i)
      CHECK(reaches(t, (*found)[i], (*found)[(i + 1) % found->size()], 1));
    auto once = *found;
    std::ranges::sort(once);
    CHECK(std::ranges::adjacent_find(once) == once.end());
  }
  CHECK(cyclic > 200);
  CHECK(cyclic < 1800);
}
