// SPDX-License-Identifier: MIT
#include "cleave/partition/model/model_parameters.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("tensor_bytes: multiplies the extents by the size of the element type") {
  CHECK(tensor_bytes({3, 5}, "f32") == 60);
  CHECK(tensor_bytes({3, 5}, "bfloat16") == 30);
  CHECK(tensor_bytes({3, 5}, "f64") == 120);
  CHECK(tensor_bytes({3, 5}, "bool") == 15);
  CHECK(tensor_bytes({}, "half") == 2);
  CHECK(tensor_bytes({0, 1'000'000'000'000, 1'000'000'000'000}, "f32") == 0);
}

TEST_CASE("tensor_bytes: an unknown type, a negative extent or an overflow has no size") {
  CHECK(!tensor_bytes({3}, "quaternion"));
  CHECK(!tensor_bytes({3, -1}, "f32"));
  CHECK(!tensor_bytes({-1, 0}, "f32"));
  CHECK(!tensor_bytes({1LL << 62}, "f32"));
  CHECK(!tensor_bytes({1LL << 40, 1LL << 40, 4}, "i8"));
}

TEST_CASE("parameters_of: each parameter belongs to the innermost module above it") {
  using kind = module_attribute::kind;
  module_graph g;
  for (auto const* path : {"net", "net.0", "head"}) g.add_attribute({path, kind::module, {}, {}, {}, {}});
  for (auto const* path : {"net.0.weight", "net.scale", "net.0.sub.bias", "free"})
    g.add_attribute({path, kind::parameter, "", {}, {}, {}});
  g.add_attribute({"head.mean", kind::buffer, {}, {}, {}, {}});
  g.add_attribute({"head.weight", kind::parameter, "net.0.weight", {}, {}, {}});
  auto const p = parameters_of(g, [](module_attribute const& a) { return a.path.size(); });
  std::vector<std::pair<std::string, std::string>> held;
  for (auto const& m : p.modules)
    for (auto const& h : m.holds) held.emplace_back(m.path, h.name);
  CHECK(held == std::vector<std::pair<std::string, std::string>>{
                    {"net", "scale"}, {"net.0", "weight"}, {"net.0", "sub.bias"}, {"head", "weight"}});
  CHECK(p.list.size() == 5);
  CHECK(p.list[0].bytes == std::string("net.0.weight").size());
  CHECK(p.list[4].storage == "net.0.weight");
  CHECK(p.attributes[3].path == "free");
  CHECK(!find_parameter_fault(p));
}

TEST_CASE("find_parameter_fault: reports paths that are listed twice and unknown parameters") {
  model_parameters p;
  p.list = {{.bytes = 4}};
  p.modules = {{"a", "a", {{"w", 0}}}};
  p.attributes = {{"w", 0}};
  p.placeholders = {{"x", 0}};
  CHECK(!find_parameter_fault(p));
  auto twice = p;
  twice.modules.push_back({"a", "b", {}});
  CHECK(find_parameter_fault(twice)->path == "a");
  twice = p;
  twice.placeholders.push_back({"x", 0});
  CHECK(find_parameter_fault(twice) == parameter_fault{"x", "is listed twice"});
  auto unknown = p;
  unknown.attributes[0].parameter = 1;
  CHECK(find_parameter_fault(unknown)->path == "w");
  unknown = p;
  unknown.modules[0].holds[0].parameter = 7;
  CHECK(find_parameter_fault(unknown)->path == "a.w");
  CHECK(std::string(parameter_error(*find_parameter_fault(unknown)).what()) ==
        "parameters: 'a.w' refers to parameter #7, but the list has 1 entries");
}
