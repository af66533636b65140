// SPDX-License-Identifier: MIT
#include "cleave/formats/pipe_info.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "cleave/formats/json/json_reader.hpp"
#include "support/module_nodes.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

using position = module_graph::position;

using testing::make;

/// x -> f(w) -> | -> g -> | | -> h(f, g) -> |
module_graph skipping() {
  module_graph g;
  g.add_attribute({"w", module_attribute::kind::parameter, {}, {}, {}, {}});
  g.add_attribute({"spare", module_attribute::kind::module, {}, {}, {}, {}});
  auto const x = g.add(make(node_kind::placeholder, "x", "x"));
  auto const w = g.add(make(node_kind::get_attr, "weight", "w"));
  auto const f = g.add(make(node_kind::call_function, "f", "f", {x, w}));
  g.add(make(node_kind::call_function, "cut", "pipe_split"));
  auto const h = g.add(make(node_kind::call_function, "g", "g", {f}));
  g.add(make(node_kind::call_function, "cut_1", "pipe_split"));
  g.add(make(node_kind::call_function, "cut_2", "pipe_split"));
  auto const i = g.add(make(node_kind::call_function, "h", "h", {f, h}));
  g.add(make(node_kind::call_function, "cut_3", "pipe_split"));
  g.add(make(node_kind::output, "output", "output", {i}));
  return g;
}

}  // namespace

TEST_CASE("write_pipe_info: lists stages, edges and cuts without effect") {
  auto const g = skipping();
  module_pipe_options const options{.cuts = {{"spare"}}};
  auto const p = make_module_pipe(g, options);
  CHECK(write_pipe_info(pipe_info_of(p, options)) ==
        "3 stages, without loss and backward\n"
        "stage_0 (after 0 cuts): 1 nodes\n  takes x\n  holds w\n  gives f\n"
        "stage_1 (after 1 cuts): 1 nodes\n  takes f\n  holds -\n  gives g\n"
        "stage_2 (after 3 cuts): 1 nodes\n  takes f, g\n  holds -\n  gives h\n"
        "x: the caller -> stage 0\n"
        "f: stage 0 -> stage 1, stage 2 (skips)\n"
        "g: stage 1 -> stage 2\n"
        "h: stage 2 -> the caller\n"
        "marker 'cut_2' has no effect: there is another cut at the same place\n"
        "marker 'cut_3' has no effect: no node comes after it\n"
        "the cut at the begin of module 'spare' has no effect: the module is never called\n");
}

TEST_CASE("write_pipe_info_json: lists stages and edges, with null for the caller") {
  auto const g = skipping();
  auto const p = make_module_pipe(g);
  auto const info = pipe_info_of(p);
  json_document const document(write_pipe_info_json(info));
  json_value const top(document);
  CHECK(top["format"].text() == "cleave pipe 1");
  std::vector<std::string> paths, values;
  top["stages"].each_element([&](json_value const& s) { paths.push_back(std::string(s["path"].text())); });
  top["edges"].each_element([&](json_value const& e) { values.push_back(std::string(e["value"].text())); });
  CHECK(paths == p.paths);
  CHECK(values == std::vector<std::string>{"x", "f", "g", "h"});
  CHECK(write_pipe_info_json(info).find(R"({"value":"f","from":0,"to":[1,2],"skips":true})") !=
        std::string::npos);
  CHECK(write_pipe_info_json(info).find(R"({"value":"x","from":null,"to":[0],"skips":false})") !=
        std::string::npos);
}

TEST_CASE("pipe_info_of: the root has no stage graphs, and a backward pass is detected") {
  auto const g = skipping();
  auto p = make_module_pipe(g);
  auto const info = pipe_info_of(p);
  CHECK(find_detached_stage(info.root));
  CHECK_FALSE(find_detached_stage(p.outer));
  CHECK_FALSE(info.has_loss_and_backward);
  p.outer.add(make(node_kind::call_function, "back", "stage_backward"));
  CHECK(pipe_info_of(p).has_loss_and_backward);
}

TEST_CASE("write_pipe_info: names from elsewhere cannot break a line") {
  auto info = pipe_info();
  info.stages.push_back({"a\nb", 0, {}, {"x\ty"}, {}, {}});
  CHECK(write_pipe_info(info).find("a\nb") == std::string::npos);
  CHECK(write_pipe_info_json(info).find('\n') == std::string::npos);
}
