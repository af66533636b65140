// SPDX-License-Identifier: MIT
#include "cleave/pipe/device_assignment.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "support/small_stack.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

using position = module_graph::position;
using kind = device_site::kind;

module_argument device(std::string const& name) { return {opaque{"device", name}}; }

position add(module_graph& g, node_kind what, std::string const& name, std::vector<module_argument> args,
             std::vector<keyword_argument> kwargs = {}) {
  module_node n;
  n.kind = what;
  n.name = n.target = name;
  n.args = std::move(args);
  n.kwargs = std::move(kwargs);
  return g.add(std::move(n));
}

void add_module(module_graph& g, std::string const& path, std::vector<module_graph> body) {
  g.add_attribute({path, module_attribute::kind::module, {}, std::move(body), {}, {}});
}

/// A function with a device keyword, a method with a positional and a keyword device, a tensor attribute on a
/// device, and a module with an unknown body.
module_graph stage(std::string const& on) {
  module_graph g;
  g.add_attribute({"mask", module_attribute::kind::tensor, {}, {}, {}, {{"device", device(on)}}});
  add_module(g, "opaque", {});
  auto const x = add(g, node_kind::placeholder, "x", {});
  add(g, node_kind::call_function, "zeros", {{std::int64_t{3}}},
      {{"device", device(on)}, {"dtype", {opaque{"dtype", "f32"}}}});
  add(g, node_kind::call_method, "to", {node_argument(x), device(on)}, {{"device", {on}}});
  auto const y = add(g, node_kind::call_module, "opaque", {node_argument(x)});
  add(g, node_kind::output, "output", {node_argument(y)});
  return g;
}

module_graph outer() {
  module_graph g;
  auto nested = stage("cpu");
  add_module(nested, "inner", {stage("cpu")});
  add_module(g, "s.0", {std::move(nested)});
  add_module(g, "s.1", {stage("cpu")});
  auto const x = add(g, node_kind::placeholder, "x", {});
  auto const y = add(g, node_kind::call_module, "s.0", {node_argument(x)});
  auto const z = add(g, node_kind::call_module, "s.1", {node_argument(y)});
  add(g, node_kind::output, "output", {node_argument(z)});
  return g;
}

std::vector<std::string> named(module_graph const& g) {
  std::vector<std::string> all;
  for (auto const& s : devices_of(g))
    all.push_back(s.body + ": " + s.owner + " " + s.key + " on " + s.device);
  return all;
}

}  // namespace

TEST_CASE(
    "devices_of: finds each keyword, argument and attribute that names a device, in nested bodies too") {
  auto const found = devices_of(stage("cpu"));
  CHECK(found == std::vector<device_site>{
                     {kind::keyword, "", "", "zeros", "device", "cpu", node_kind::call_function},
                     {kind::argument, "", "", "to", "", "cpu", node_kind::call_method},
                     {kind::keyword, "", "", "to", "device", "cpu", node_kind::call_method},
                     {kind::attribute, "", "", "mask", "device", "cpu"},
                 });
  CHECK(named(outer()).size() == 12);
  CHECK(named(outer())[8] == "s.0.inner: zeros device on cpu");
  CHECK(devices_of(outer())[8].stage == "s.0");
}

TEST_CASE("with_devices: sets one device everywhere and leaves the given graph unchanged") {
  auto const before = stage("cpu");
  auto const made = with_devices(before, to_device{"cuda:1"});
  CHECK(devices_of(made.graph) == devices_of(stage("cuda:1")));
  CHECK(made.changed == devices_of(before));
  CHECK(devices_of(before) == devices_of(stage("cpu")));
  CHECK(made.graph.list()[1].kwargs[1].value == module_argument{opaque{"dtype", "f32"}});
  CHECK(with_devices(made.graph, to_device{"cuda:1"}).changed.empty());
}

TEST_CASE("with_devices: to_device::sites::keywords changes only the device keywords of functions") {
  auto const made = with_devices(stage("cpu"), to_device{"meta", to_device::sites::keywords});
  REQUIRE(made.changed.size() == 1);
  CHECK(made.changed[0].owner == "zeros");
}

TEST_CASE("with_devices: lists the modules whose body is unknown") {
  CHECK(with_devices(outer(), to_device{"meta"}).unseen ==
        std::vector<std::string>{"s.0.inner.opaque", "s.0.opaque", "s.1.opaque"});
}

TEST_CASE("with_devices: a callback chooses the device of each site") {
  auto const made = with_devices(stage("cpu"), [](device_site const& s) {
    return s.what == kind::attribute ? std::optional<std::string>("cuda:0") : std::nullopt;
  });
  REQUIRE(made.changed.size() == 1);
  CHECK(made.changed[0].owner == "mask");
}

TEST_CASE("with_stage_devices: sets the device of each listed stage, nested bodies included") {
  auto const made = with_stage_devices(outer(), {{"s.1", "cuda:1"}, {"s.0", "cuda:0"}});
  for (auto const& s : devices_of(made.graph)) CHECK(s.device == (s.stage == "s.0" ? "cuda:0" : "cuda:1"));
  auto const one = with_stage_devices(outer(), {{"s.1", "cuda:1"}});
  for (auto const& s : devices_of(one.graph)) CHECK(s.device == (s.stage == "s.0" ? "cpu" : "cuda:1"));
}

TEST_CASE("with_stage_devices: rejects an unknown stage, naming the nearest, and a stage with two devices") {
  CHECK_THROWS_WITH_AS(with_stage_devices(outer(), {{"s.7", "cuda:1"}}),
                       "stage devices: 's.7' is not a stage of this graph; nearest: 's.0', 's.1'",
                       stage_device_error);
  CHECK_THROWS_WITH_AS(with_stage_devices(outer(), {{"s.0", "cuda:1"}, {"s.0", "cuda:2"}}),
                       "stage devices: 's.0' is listed twice; list each stage once", stage_device_error);
}

TEST_CASE("with_devices: handles bodies nested 2,000 deep on a small stack") {
  testing::on_small_stack([] {
    module_graph g = stage("cpu");
    for (int i = 0; i < 2'000; ++i) {
      module_graph wrapped;
      module_attribute a{"m", module_attribute::kind::module, {}, {}, {}, {}};
      a.body.push_back(std::move(g));
      wrapped.add_attribute(std::move(a));
      g = std::move(wrapped);
    }
    CHECK(with_devices(g, to_device{"meta"}).changed.size() == 4);
  });
}
