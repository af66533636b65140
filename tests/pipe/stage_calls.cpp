// SPDX-License-Identifier: MIT
#include "cleave/formats/pipe_info.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace cleave;

using namespace cleave::detail;

namespace {

module_graph calling(std::vector<std::string> const& paths) {
  module_graph g;
  for (auto const& path : paths) {
    module_node n;
    n.kind = node_kind::call_module;
    n.name = n.target = path;
    g.add(n);
  }
  return g;
}

}  // namespace

TEST_CASE("stage_calls_of: lists a stage once for each call and skips other modules") {
  auto const g = calling({"prep", "stage_1", "stage_0", "stage_1", "loss"});
  CHECK(stage_calls_of(g) == std::vector<numbered_stage>{{1, 1}, {2, 0}, {3, 1}});
  CHECK(stage_calls_of(g, "submod_").empty());
  CHECK(stage_calls_of(calling({"s7"}), "s") == std::vector<numbered_stage>{{0, 7}});
}

TEST_CASE("stage_calls_of: rejects a stage prefix without a number after it and names the call") {
  CHECK_THROWS_WITH_AS(
      stage_calls_of(calling({"stage_x"})),
      "node 'stage_x' calls 'stage_x'; after 'stage_' the number of a stage is expected, not 'x'",
      stage_number_error);
  for (auto const* path : {"stage_", "stage_-1", "stage_1a", "stage_99999999999"})
    CHECK_THROWS_AS(stage_calls_of(calling({path})), stage_number_error);
}

TEST_CASE("check_stages: rejects a root without the graphs of its stages and names the stage") {
  auto g = calling({"stage_0"});
  module_graph body;
  body.add(module_node{});
  g.add_attribute({"stage_0", module_attribute::kind::module, {}, {body}, {}, {}});
  g.add_attribute({"other", module_attribute::kind::module, {}, {body}, {}, {}});
  CHECK_FALSE(find_detached_stage(g));
  auto const root = detached_root(g);
  CHECK(root.find_attribute("other")->body.size() == 1);
  CHECK(find_detached_stage(root) == 0);
  CHECK_THROWS_WITH_AS(check_stages(root),
                       "the root of this pipe cannot run, because stage 'stage_0' has no graph in it; run "
                       "the pipe that the root was taken from",
                       detached_stage_error);
  CHECK_THROWS_AS(check_stages(calling({"stage_0"})), detached_stage_error);
}
