// SPDX-License-Identifier: MIT
#include "conformance_runner/ddp_json.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/graph/interpreter.hpp"
#include "conformance_runner/outcome.hpp"
#include "conformance_runner/write_value.hpp"
#include "support/integer_interpretation.hpp"

namespace cleave::conformance {

using namespace detail;

/// Runs a chain of linear layers whose weights are inputs, as Dynamo and an ahead-of-time backend see it.
/// Compares buckets, examples and results with the recording.
std::vector<difference> run_chain(json const& body) {
  auto const& input = body["input"];
  auto const& model = input["model"];
  std::size_t const layers = model["linears"];
  json const batch = 3;  // from the recording
  module_graph g;
  model_parameters parameters;
  std::vector<json> examples;
  auto const placeholder = [&](std::string const& name, json shape) {
    module_node n;
    n.kind = node_kind::placeholder;
    n.name = n.target = name;
    examples.push_back({{"shape", std::move(shape)}, {"dtype", "f32"}});
    return g.add(std::move(n));
  };
  std::vector<std::vector<position>> weights;
  std::optional<position> x;
  for (std::size_t i = 0; i < layers; ++i) {
    auto const at = std::to_string(i);
    weights.push_back({placeholder("w" + at, json::array({model["out"], model["in"]})),
                       placeholder("b" + at, json::array({model["out"]}))});
    for (std::size_t j = 0; j < 2; ++j) {
      parameters.placeholders.push_back(
          {g[weights.back()[j]].name, static_cast<std::uint32_t>(parameters.list.size())});
      parameters.list.push_back({.bytes = model["bytes_each"][j]});
    }
    if (!x) x = placeholder("x", json::array({batch, model["in"]}));
  }
  position last = *x;
  for (std::size_t i = 0; i < layers; ++i) {
    module_node n;
    n.name = "linear_" + std::to_string(i);
    n.target = "linear";
    n.args = {node_argument(last), node_argument(weights[i][0]), node_argument(weights[i][1])};
    last = g.add(std::move(n));
  }
  module_node output;
  output.kind = node_kind::output;
  output.name = output.target = "output";
  output.args = {tuple_argument({last})};
  g.add(std::move(output));

  auto const cut =
      split_at_buckets(g, parameters,
                       {{input["bucket_bytes_cap"], input["first_bucket_cap"].get<std::uint64_t>()},
                        parameter_counting::torch_2_15},
                       order::upstream);
  json ours{{"compiles", 0},
            {"inputs", json::array()},
            {"bucket_sizes", json::array()},
            {"first_call_fakified", json::array()},
            {"metadata_per_bucket", nullptr},
            {"last_bucket", nullptr}};
  for (auto const& b : cut.buckets) ours["bucket_sizes"].push_back(b.bytes);
  auto const compile = [&](compile_request<json> const& r) {
    ours["inputs"].push_back(std::vector<json>(r.examples.begin(), r.examples.end()));
    return backend_product{json::array({json{{"shape", {batch, model["out"]}}, {"dtype", "f32"}}})};
  };
  testing::integer_interpretation meaning;
  bool equal = true;  // the same expression, so the same gradients
  if (cut.split) {
    json const graph{{"params", json::object()}};
    example_interpretation glue(g, graph);
    auto const fake = [&](compile_request<json> const& r, backend_product& c) {
      ours["first_call_fakified"].push_back(true);
      return c(r.examples);
    };
    auto const all = compile_pieces(*cut.split, examples, glue, compile, fake);
    ours["metadata_per_bucket"] = all.asked().size();
    ours["last_bucket"] = all.asked().back();
    equal = evaluate(cut.split->outer, own_inputs(g), meaning) == evaluate(g, own_inputs(g), meaning);
  } else {
    compile_whole(g, examples, compile);
    ours["first_call_fakified"].push_back(false);
  }
  ours["compiles"] = ours["inputs"].size();
  ours["equals_unsplit_with_gradients"] = equal;
  std::vector<difference> differences;
  compare(body["expect"], ours, "expect", differences);
  return differences;
}

}  // namespace cleave::conformance
