// SPDX-License-Identifier: MIT
#include "cleave/backward/stage_root.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cleave/backward/make_backward_plan.hpp"
#include "cleave/split/make_plan.hpp"
#include "support/random_plan.hpp"
#include "support/rng.hpp"
#include "support/snapshot_builder.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

constexpr auto no = none<std::uint32_t>;

TEST_CASE("planned_root_of: each stage call reads its inputs from the stages that send them") {
  testing::rng random(8);
  std::size_t elements = 0, bare = 0;
  for (int i = 0; i < 300; ++i) {
    auto const g = testing::random_rich_graph(random, 3 + random.below(40));
    auto const parts = 1 + static_cast<std::uint32_t>(random.below(6));
    auto const plan = make_plan(g, testing::random_legal_partition(random, g, parts));
    auto const made = planned_root_of(g, plan);
    auto const& root = made.root;
    CHECK(find_root_fault(root, 0) == std::nullopt);
    for (std::uint32_t k = 0; k < plan.stages.size(); ++k) {
      auto const call = made.stage[k];
      CHECK(root.kind[call] == root_kind::stage);
      auto const reads = root.reads[call];
      REQUIRE(reads.size() == plan.stages[k].inputs.size());
      for (std::size_t j = 0; j < reads.size(); ++j) {
        CHECK(made.value[reads[j]] == plan.stages[k].inputs[j]);
        auto const whole =
            root.kind[reads[j]] == root_kind::element ? root.reads[reads[j]].front() : reads[j];
        auto const sender = std::ranges::find_if(plan.transfers, [&](transfer const& t) {
          return index(t.to) == k && t.value == plan.stages[k].inputs[j];
        });
        if (sender != plan.transfers.end())
          CHECK(whole == made.stage[index(sender->from)]);
        else
          CHECK(root.kind[whole] != root_kind::stage);
      }
      auto const& outputs = plan.stages[k].outputs;
      for (std::uint32_t j = 0; j < outputs.size(); ++j) {
        auto const at = made.made_at[outputs[j]];
        if (outputs.size() == 1) {
          CHECK(at == call);
          ++bare;
        } else {
          CHECK(root.reads[at].front() == call);
          CHECK(root.element[at] == j);
          ++elements;
        }
      }
    }
  }
  CHECK(elements > 100);
  CHECK(bare > 100);
}

TEST_CASE("planned_root_of: a stage that only passes a value on passes its gradient back") {
  testing::snapshot_builder b;
  auto const x = b.input();
  auto const skip = b.node(1, {x});
  auto const middle = b.node(1, {skip});
  auto const last = b.node(1, {middle, skip});
  b.output(last);
  auto const g = b.build();
  auto const stage = [](std::uint32_t i) { return stage_id{i}; };
  plan p{{{{0}, {x}, {}, {skip}}, {{1}, {skip}, {}, {middle, skip}}, {{2}, {middle, skip}, {}, {last}}},
         {stage(0), stage(1), stage(2)},
         {{skip, stage(0), stage(1)}, {middle, stage(1), stage(2)}, {skip, stage(1), stage(2)}},
         {}};
  auto const made = planned_root_of(g, p);
  auto const backward = make_backward_plan(made.root, made.made_at[last]);
  REQUIRE(backward.calls.size() == 3);
  CHECK(backward.calls[1].selected == std::vector<std::uint32_t>{0, 1});
  CHECK(backward.calls[2].outputs == std::vector<gradient_place>{{made.stage[0], 2, 0}});
  CHECK(std::ranges::none_of(backward.gradients, &gradient_step::is_sum));
}

TEST_CASE("planned_root_of: an input that neither a stage nor the caller provides has no gradient") {
  testing::snapshot_builder b;
  auto const w = b.state();
  auto const y = b.node(1, {w});
  b.output(y);
  plan const p{{{{0}, {w}, {}, {y}}}, {stage_id{0}}, {}, {}};
  auto const made = planned_root_of(b.build(), p);
  CHECK(made.root.kind == std::vector{root_kind::other, root_kind::stage});
  CHECK(made.value == std::vector<std::uint32_t>{w, y});
  CHECK(make_backward_plan(made.root, 1, {.inputs = input_gradients::returned}).inputs.empty());
  CHECK(made.made_at[y] != no);
}

}  // namespace
