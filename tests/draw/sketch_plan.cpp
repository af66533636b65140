// SPDX-License-Identifier: MIT
#include "cleave/draw/dot.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "cleave/draw/stage_graph.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/split/make_plan.hpp"
#include "support/random_program.hpp"
#include "support/rng.hpp"
#include "support/toy_ir.hpp"

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("sketch_plan: a valid partition without copies has the quotient of its plan") {
  testing::rng random(12);
  for (int round = 0; round < 50; ++round) {
    auto program = testing::random_program(random, 2 + random.below(40));
    for (auto& o : program.ops) o->cheap = false;
    auto const g = snapshot_of(toy::graph(program));
    auto const p = testing::equal_slices(g.nodes(), 3);
    CHECK(quotient_of(g, sketch_plan(g, p)) == quotient_of(g, make_plan(g, p)));
  }
}

TEST_CASE("sketch_plan: accepts parts in a cycle and puts nodes without a part into an extra stage") {
  snapshot_arrays g;  // 0 -> 1 -> 2 -> 3
  for (std::uint32_t n = 0; n < 4; ++n) {
    if (n > 0) g.operands.add(n - 1);
    g.operands.close();
    g.results.add(n);
    g.results.close();
    g.producer.push_back(n);
    g.from.push_back(source::node);
  }
  auto const p = sketch_plan(g, {{part_id{0}, part_id{1}, part_id{0}, no_part}, 2});
  REQUIRE(p.stages.size() == 3);
  CHECK(p.stages[0].nodes == std::vector<std::uint32_t>{0, 2});
  CHECK(p.stages[2].nodes == std::vector<std::uint32_t>{3});
  CHECK(p.transfers == std::vector<transfer>{{1, stage_id{1}, stage_id{0}},
                                             {0, stage_id{0}, stage_id{1}},
                                             {2, stage_id{0}, stage_id{2}}});
}
