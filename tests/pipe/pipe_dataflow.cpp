// SPDX-License-Identifier: MIT
#include "cleave/pipe/pipe_dataflow.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cleave/graph/module_graph.hpp"
#include "cleave/pipe/module_pipe.hpp"
#include "support/module_nodes.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

using testing::make;

module_node shaped(module_node n) {
  n.shape = {std::int64_t{2}, std::string("s0")};
  n.metadata = {{"dtype", {std::string("f32")}}, {"bytes", {std::int64_t{24}}}};
  return n;
}

/// x -> f -> | -> g -> | -> h(f, g): `f` skips a stage.
module_graph skipping(bool with_shapes) {
  auto const dress = [&](module_node n) { return with_shapes ? shaped(std::move(n)) : n; };
  module_graph g;
  auto const x = g.add(dress(make(node_kind::placeholder, "x", "x")));
  auto const f = g.add(dress(make(node_kind::call_function, "f", "f", {x})));
  g.add(make(node_kind::call_function, "cut", "pipe_split"));
  auto const h = g.add(dress(make(node_kind::call_function, "g", "g", {f})));
  g.add(make(node_kind::call_function, "cut_1", "pipe_split"));
  auto const i = g.add(dress(make(node_kind::call_function, "h", "h", {f, h})));
  g.add(make(node_kind::output, "output", "output", {i}));
  return g;
}

}  // namespace

TEST_CASE("pipe_dataflow_of: an edge states sender, receiver, positions, bytes, dtype and shape") {
  auto const g = skipping(true);
  auto const p = make_module_pipe(g);
  auto const t = pipe_dataflow_of(p, layout_need::between_stages);
  REQUIRE(t.edges.size() == 5);
  auto const& skip = t.edges[2];
  CHECK(skip.from == stage_id{0});
  CHECK(skip.output == 0);
  CHECK(skip.to == stage_id{2});
  CHECK(skip.input == 0);
  CHECK(skip.bytes == 24);
  REQUIRE(skip.layout < t.layouts.size());
  CHECK(t.layouts[skip.layout].dtype == "f32");
  CHECK(t.layouts[skip.layout].shape ==
        std::vector<std::variant<std::int64_t, std::string>>{std::int64_t{2}, std::string("s0")});
  CHECK(t.edges[1].layout == skip.layout);  // one value, one layout
  CHECK(t.layouts.size() == 4);
  CHECK_FALSE(find_dataflow_fault(t));
}

TEST_CASE("pipe_dataflow_of: rejects a value between stages without a shape if layouts are required") {
  auto const g = skipping(false);
  auto const p = make_module_pipe(g);
  auto const t = pipe_dataflow_of(p);
  CHECK(t.layouts.empty());
  REQUIRE(find_unknown_layout(t));
  CHECK(find_unknown_layout(t)->to == stage_id{1});
  CHECK_THROWS_WITH_AS(pipe_dataflow_of(p, layout_need::between_stages),
                       "the value of node f (#0) goes from stage 0 to stage 1 but its shape is unknown; the "
                       "receiver must know its size: record shapes, or use layout_need::known_ones",
                       layout_error);
}

TEST_CASE("pipe_dataflow_of: values that only the caller passes or receives need no shape") {
  module_graph g;
  auto const x = g.add(make(node_kind::placeholder, "x", "x"));
  auto const f = g.add(make(node_kind::call_function, "f", "f", {x}));
  g.add(make(node_kind::output, "output", "output", {f}));
  auto const p = make_module_pipe(g);
  CHECK_FALSE(find_unknown_layout(pipe_dataflow_of(p, layout_need::between_stages)));
}
