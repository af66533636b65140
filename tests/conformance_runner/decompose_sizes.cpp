// SPDX-License-Identifier: MIT
#include "cleave/graph/decompose_sizes.hpp"

#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/graph/interpreter.hpp"
#include "conformance_runner/outcome.hpp"
#include "conformance_runner/write_value.hpp"
#include "support/integer_interpretation.hpp"

/// Compares the decomposition of sizes with its recordings: rule 14 of split_module/README.md.
namespace cleave::conformance {

using namespace detail;
namespace {

/// The integer interpretation, in which a size is the tuple of its `sym_size.int` results. A tuple as a
/// direct operand counts as its elements. A graph and its decomposed form then give the same value.
class size_interpretation : public testing::integer_interpretation {
 public:
  value call(module_graph const& g, position n, std::span<value const> args,
             std::span<value const> kwargs) const {
    module_node const& node = g[n];
    auto const* of = node.args.empty() ? nullptr : std::get_if<node_ref>(&node.args[0].front());
    bool const whole = node.target == "size" && args.size() == 1 && kwargs.empty();
    if (of && g[of->node].shape && (whole || node.target == "sym_size.int")) {
      std::vector<value> dimensions;
      for (auto const& d : *g[of->node].shape) {
        auto const* number = std::get_if<std::int64_t>(&d);
        dimensions.push_back(number ? constant(*number)
                                    : value::computed(testing::fold(args[0].digest, dimensions.size())));
      }
      if (!whole) return dimensions.at(args[1].bits);
      return collect({container::kind::tuple, static_cast<std::uint32_t>(dimensions.size())}, dimensions);
    }
    if (node.target == "getitem") return integer_interpretation::call(g, n, args, kwargs);
    std::vector<value> flat;
    for (auto const& a : args)
      if (a.items && a.shape.what == container::kind::tuple)
        flat.insert(flat.end(), a.items->begin(), a.items->end());
      else
        flat.push_back(a);
    return integer_interpretation::call(g, n, flat, kwargs);
  }
};

/// Writes the nodes as the recording does: properties of a new node come from its typed members.
json write_decomposed(module_graph const& g) {
  json list = write_nodes(g);
  for (position n = 0; n < g.list().size(); ++n) {
    if (!g[n].metadata.empty() || g[n].expression.empty()) continue;
    json value{{"kind", "sym_int"}, {"expr", g[n].expression}};
    if (!g[n].binds.empty()) value["binds"] = g[n].binds;
    value["free"] = g[n].symbols;
    list[n]["meta"] = {{"val", value}};
  }
  return list;
}

/// Returns the replacement in `made` for a getitem of `g`: `target(operand, index)`, or a constant.
json in_place_of_item(module_graph const& g, module_graph const& made) {
  for (auto const& reader : g.list())
    for (std::size_t a = 0; a < reader.args.size(); ++a) {
      auto const* ref = std::get_if<node_ref>(&reader.args[a].front());
      if (!ref || g[ref->node].target != "getitem") continue;
      for (auto const& copy : made.list()) {
        if (copy.name != reader.name) continue;
        token const& t = copy.args.at(a).front();
        auto const* to = std::get_if<node_ref>(&t);
        if (!to) return write_constant(t);
        auto const& dimension_node = made[to->node];
        std::string text = dimension_node.target + "(";
        for (auto const& operand : dimension_node.args) {
          json const j = write_argument(made, operand);
          text += (text.back() == '(' ? "" : ", ") +
                  (j.contains("node") ? j["node"].get<std::string>() : j.dump());
        }
        return text + ")";
      }
    }
  return "nothing";
}

}  // namespace

outcome run_decompose_sizes(test_case const& c, json const& body) {
  auto const& g = c.graph();
  auto const made = decompose_sizes(g);
  std::vector<difference> differences;
  size_interpretation meaning;
  compare(write_value(evaluate(g, own_inputs(g), meaning)),
          write_value(evaluate(made, own_inputs(g), meaning)), "value", differences);

  if (!body.contains("defect")) {
    compare(normal_nodes(body["expect"]["nodes"]), write_decomposed(made), "expect.nodes", differences);
    return {differences, ""};
  }
  for (auto const& [key, value] : body["better"].items()) {
    if (key == "succeeds") {
      compare(value, json(true), key, differences);
    } else if (key == "getitem replaced by") {
      compare(value, in_place_of_item(g, made), key, differences);
    } else if (key == "output" && value == "a tuple of the dimensions") {
      auto const& given = made[*made.output()].args;
      auto const* tuple = given.size() == 1 ? std::get_if<container>(&given[0].front()) : nullptr;
      if (!tuple || tuple->what != container::kind::tuple)
        differences.push_back({key, value, write_decomposed(made).back().dump()});
    } else {
      differences.push_back({"better." + key, value.dump(), "no comparison of that name"});
    }
  }
  return {differences, ""};
}

}  // namespace cleave::conformance
