// SPDX-License-Identifier: MIT
#include <string>
#include <utility>

#include "cleave/pipe/device_assignment.hpp"
#include "conformance_runner/outcome.hpp"
#include "conformance_runner/write_case.hpp"

/// Compares the devices of stages with their recordings.
namespace cleave::conformance {
namespace {

/// Returns the graph at `place` with its children as bodies. Recordings are not deep.
module_graph assembled(test_case const& c, std::string const& place, json const& tree) {
  module_graph g = c.graphs.at(place);
  if (tree.contains("children"))
    for (auto const& [name, child] : tree["children"].items()) {
      module_attribute a{name, module_attribute::kind::module, {}, {}, {}, {}};
      if (child.contains("graph")) a.body.push_back(assembled(c, place + "." + name, child));
      g.add_attribute(std::move(a));
    }
  return g;
}

/// Returns `like` with the graphs of `g`.
json write_assembled(module_graph const& g, json const& like) {
  json tree = normal_tree(like);
  tree["graph"] = write_nodes(g);
  if (like.contains("children"))
    for (auto const& [name, child] : like["children"].items())
      if (auto const& body = g.find_attribute(name)->body; !body.empty())
        tree["children"][name] = write_assembled(body.front(), child);
  return tree;
}

}  // namespace

outcome run_tools_device(test_case const& c, json const& body) {
  to_device const choice{body["input"]["device"], to_device::sites::keywords};
  json expected = json::array(), ours = json::array();
  auto const& stages = body["input"]["stages"];
  for (std::size_t i = 0; i < stages.size(); ++i) {
    auto const stage = assembled(c, "stages[" + std::to_string(i) + "]", stages[i]);
    ours.push_back(write_assembled(with_devices(stage, choice).graph, stages[i]));
  }
  for (json const& stage : body["expect"]["stages"]) expected.push_back(normal_tree(stage));
  outcome o;
  compare(expected, ours, "expect.stages", o.differences);
  return o;
}

}  // namespace cleave::conformance
