// SPDX-License-Identifier: MIT
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "conformance_runner/outcome.hpp"

#if __has_include(<flatbuffers/flatbuffers.h>) && __has_include(<xxhash.h>)

#include "cleave/formats/stage_buffer.hpp"
#include "cleave/graph/interpreter.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/pipe/module_pipe.hpp"
#include "support/integer_interpretation.hpp"
#include "support/rich_module_graph.hpp"
#include "support/same_graph.hpp"

/// Stages as bytes. The recordings name a model without showing it, and the stages that torch could not
/// write. The runner cuts models of each kind into stages with the same numbers.
namespace cleave::conformance {

using namespace detail;
namespace {

constexpr char the_rule[] =
    "every stage can be written and read back: same graph, same state names, same result";

/// The layers of a model: function calls, modules without a graph, or nested modules.
enum class layers : std::uint8_t { functions, modules, nested };

class model_writer {
 public:
  /// Makes one layer per stage; `numbers` count the markers before it.
  model_writer(layers kind, std::vector<std::size_t> const& numbers) : kind_(kind) {
    auto x = add(node_kind::placeholder, "x", {});
    std::size_t markers = 0;
    for (auto const number : numbers) {
      for (; markers < number; ++markers) add(node_kind::call_function, "pipe_split", {});
      x = layer(x, "layer_" + std::to_string(number));
    }
    add(node_kind::output, "output", {x});
  }

  module_graph const& graph() const { return g_; }

 private:
  position add(node_kind kind, std::string const& target, std::vector<position> const& reads) {
    module_node n;
    n.kind = kind;
    n.name = target + "_" + std::to_string(g_.list().size());
    n.target = target;
    for (auto const v : reads) n.args.push_back(node_argument(v));
    return g_.add(std::move(n));
  }

  /// Adds a layer with parameters of its own.
  position layer(position x, std::string const& path) {
    if (kind_ == layers::functions) {
      g_.add_attribute({path + ".weight", module_attribute::kind::parameter, "memory " + path, {}, {}, {}});
      return add(node_kind::call_function, "linear", {x, add(node_kind::get_attr, path + ".weight", {})});
    }
    module_attribute called{path, module_attribute::kind::module, {}, {}, {}, {}};
    if (kind_ == layers::nested) called.body.push_back(body(path, 2));
    g_.add_attribute(std::move(called));
    return add(node_kind::call_function, "relu", {add(node_kind::call_module, path, {x})});
  }

  static module_graph body(std::string const& path, int levels) {
    module_graph inside;
    module_node n;
    auto const put = [&](node_kind kind, std::string const& target, std::vector<module_argument> args) {
      n.kind = kind;
      n.name = n.target = target;
      n.args = std::move(args);
      return inside.add(n);
    };
    auto const x = put(node_kind::placeholder, "x", {});
    auto const w = put(node_kind::get_attr, "weight", {});
    inside.add_attribute({"weight", module_attribute::kind::parameter, {}, {}, path + ".weight", {}});
    auto y = put(node_kind::call_function, "linear", {node_argument(x), node_argument(w)});
    if (levels > 0) {
      module_attribute inner{"inner", module_attribute::kind::module, {}, {}, {}, {}};
      inner.body.push_back(body(path + ".inner", levels - 1));
      inside.add_attribute(std::move(inner));
      y = put(node_kind::call_module, "inner", {node_argument(y)});
    }
    put(node_kind::output, "output", {node_argument(y)});
    return inside;
  }

  module_graph g_;
  layers kind_;
};

std::vector<std::string> state_names(module_graph const& g) {
  std::vector<std::string> names;
  std::vector<std::pair<module_graph const*, std::string>> rest{{&g, ""}};
  while (!rest.empty()) {
    auto const [inner, prefix] = rest.back();
    rest.pop_back();
    for (auto const& a : inner->attributes()) {
      if (a.what != module_attribute::kind::module) names.push_back(prefix + a.path);
      for (auto const& b : a.body) rest.emplace_back(&b, prefix + a.path + ".");
    }
  }
  return names;
}

testing::integer_value result_of(module_graph const& g) {
  testing::integer_interpretation i;
  std::vector<testing::integer_value> inputs;
  for (auto const v : g.inputs()) inputs.push_back(testing::integer_value::computed(v + 7));
  return evaluate(g, std::move(inputs), i);
}

/// Returns the requirement of the rule that `g` violates, or "".
std::string find_broken(module_graph const& g) {
  auto const back = read_stage_bytes(write_stage_bytes(g), testing::operators_of(g));
  if (!testing::same_graph(g, back)) return "another graph";
  if (state_names(g) != state_names(back)) return "other state names";
  if (!(result_of(g) == result_of(back))) return "another result";
  return {};
}

/// Returns the numbers at the ends of the recorded names. Returns an empty list if a name has none or they do
/// not ascend.
std::vector<std::size_t> numbers_of(json const& stages) {
  std::vector<std::size_t> numbers;
  for (auto const& stage : stages) {
    auto const name = stage.at("stage").get<std::string>();
    auto const digits = name.substr(name.find_last_not_of("0123456789") + 1);
    if (digits.empty() || digits.size() > 4) return {};
    numbers.push_back(std::stoul(digits));
    if (numbers.size() > 1 && numbers[numbers.size() - 2] >= numbers.back()) return {};
  }
  return numbers;
}

/// Returns a violation by the stages of such a model, or ""; `names` receives the names of the stages.
std::string find_broken(layers kind, std::vector<std::size_t> const& numbers, json& names) {
  model_writer const model(kind, numbers);
  auto const pipe = make_module_pipe(model.graph());
  std::string broken = find_broken(pipe.outer);
  names = json::array();
  for (std::uint32_t i = 0; i < pipe.paths.size(); ++i) {
    names.push_back("submod_pp_" + std::to_string(pipe.plan.number[i]));
    if (broken.empty()) broken = find_broken(pipe.stage(stage_id{i}));
  }
  if (broken.empty() && !(result_of(pipe.outer) == result_of(model.graph())))
    broken = "a pipe of another result";
  return broken;
}

}  // namespace

outcome run_pipe_serialise(test_case const&, json const& body) {
  outcome result;
  auto recorded = json::array();
  for (auto const& stage : body["expect"]) recorded.push_back(stage.at("stage"));
  auto const numbers = numbers_of(body["expect"]);
  for (auto const kind : {layers::functions, layers::modules, layers::nested}) {
    json names;
    auto const broken = find_broken(kind, numbers, names);
    compare(recorded, names, "stages", result.differences);
    compare(body["better"]["rule"], broken.empty() ? the_rule : broken, "better.rule", result.differences);
  }
  return result;
}

}  // namespace cleave::conformance

#else

namespace cleave::conformance {

outcome run_pipe_serialise(test_case const& c, json const&) {
  return {{}, c.file + ", without FlatBuffers and xxHash"};
}

}  // namespace cleave::conformance

#endif
