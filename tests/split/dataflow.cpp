// SPDX-License-Identifier: MIT
#include "cleave/split/dataflow.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "cleave/split/split.hpp"
#include "support/toy_ir.hpp"

using namespace cleave;

using namespace cleave::detail;

TEST_CASE(
    "dataflow_of: lists inputs, skip edges, results of early stages and values that the caller gets back") {
  toy::program p{{"x", "y"}, {"w"}, {"c", "y", "w", "a"}};
  p.add({"f", {"x", "w"}, {"a", "b"}});
  p.add({"g", {"b"}, {"b2"}});
  p.add({"h", {"b2", "a", "y"}, {"c"}});
  toy::graph const g(p);
  auto const stages = split(g, partition{{part_id{0}, part_id{1}, part_id{2}}, 3});
  auto const t = dataflow_of(stages.snapshot(), stages.plan());
  CHECK_FALSE(find_dataflow_fault(t));
  auto const v = [&](char const* name) {
    return stages.snapshot().latest[stages.snapshot().find_slot(name)];
  };
  CHECK(t.stages == 3);
  CHECK(t.edges == std::vector<dataflow::edge>{
                       {the_caller, 0, stage_id{0}, 0, v("x"), 1},
                       {stage_id{0}, 1, stage_id{1}, 0, v("b"), 1},
                       {stage_id{1}, 0, stage_id{2}, 0, v("b2"), 2},
                       {stage_id{0}, 0, stage_id{2}, 1, v("a"), 1},
                       {the_caller, 1, stage_id{2}, 2, v("y"), 1},
                       {stage_id{2}, 0, the_caller, 0, v("c"), 1},
                       {the_caller, 1, the_caller, 1, v("y"), 1},
                       {stage_id{0}, 0, the_caller, 2, v("a"), 1},
                   });
}
