// SPDX-License-Identifier: MIT
#include <string>
#include <utility>
#include <vector>

#include "conformance_runner/outcome.hpp"

#if __has_include(<flatbuffers/flatbuffers.h>) && __has_include(<xxhash.h>)

#include "cleave/graph/interpreter.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/io/stage_buffer.hpp"
#include "cleave/split/module_pipe.hpp"
#include "support/integer_interpretation.hpp"
#include "support/rich_module_graph.hpp"
#include "support/same_graph.hpp"

/// Stages as bytes. The recordings name a model and the stages that torch made of it, none of which it could
/// write; the models here are cut into stages of these numbers.
namespace cleave::conformance {
namespace {

constexpr char the_rule[] =
    "every stage can be written and read back: same graph, same state names, same result";

class model_writer {
 public:
  explicit model_writer(std::string const& model)
      : nested_(model == "nested"), flat_(model == "no_nested_modules") {
    known_ = nested_ || flat_ || model == "flat" || model == "gap";
    auto x = add(node_kind::placeholder, "x", {});
    x = layer(x, "a");
    add(node_kind::call_function, "pipe_split", {});
    if (model == "gap") add(node_kind::call_function, "pipe_split", {});
    x = layer(x, "b");
    add(node_kind::output, "output", {x});
  }

  bool known() const { return known_; }
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

  /// With parameters of its own: as functions, as a module without a graph, or as modules in modules.
  position layer(position x, std::string const& path) {
    if (flat_) {
      g_.add_attribute({path + ".weight", module_attribute::kind::parameter, "memory " + path, {}, {}, {}});
      return add(node_kind::call_function, "linear", {x, add(node_kind::get_attr, path + ".weight", {})});
    }
    module_attribute called{path, module_attribute::kind::module, {}, {}, {}, {}};
    if (nested_) called.body.push_back(body(path, 2));
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
  bool nested_, flat_, known_ = false;
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

/// What the rule demands and `g` does not meet, or nothing.
std::string find_broken(module_graph const& g) {
  auto const back = read_stage_bytes(write_stage_bytes(g), testing::operators_of(g));
  if (!testing::same_graph(g, back)) return "another graph";
  if (state_names(g) != state_names(back)) return "other state names";
  if (!(result_of(g) == result_of(back))) return "another result";
  return {};
}

}  // namespace

outcome run_pipe_serialise(test_case const& c, json const& body) {
  model_writer const model(c.input().at("model").get<std::string>());
  outcome result;
  if (!model.known()) {
    result.differences.push_back({"input.model", "a model that is known", shortened(c.input()["model"])});
    return result;
  }
  auto const pipe = make_module_pipe(model.graph());
  std::string broken;
  auto names = json::array();
  for (std::uint32_t i = 0; i < pipe.paths.size(); ++i) {
    names.push_back("submod_pp_" + std::to_string(pipe.plan.number[i]));
    if (broken.empty()) broken = find_broken(pipe.stage(stage_id{i}));
  }
  if (broken.empty()) broken = find_broken(pipe.outer);
  if (broken.empty() && !(result_of(pipe.outer) == result_of(model.graph())))
    broken = "a pipe of another result";
  auto recorded = json::array();
  for (auto const& stage : body["expect"]) recorded.push_back(stage.at("stage"));
  compare(recorded, names, "stages", result.differences);
  compare(body["better"]["rule"], broken.empty() ? the_rule : broken, "better.rule", result.differences);
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
