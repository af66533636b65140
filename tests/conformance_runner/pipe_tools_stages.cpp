// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cleave/backward/with_backward.hpp"
#include "cleave/pipe/module_pipe.hpp"
#include "conformance_runner/outcome.hpp"
#include "support/toy_batches.hpp"
#include "support/toy_staged.hpp"

/// Compares stages that run one after another with their recordings: the values detached between them, and
/// the pipes that can be trained.
namespace cleave::conformance {

using namespace detail;
namespace {

using testing::state_values;
using testing::tape_value;
using testing::tape_values;
using testing::tensor;

/// Writes a module_graph node by node.
class graph_writer {
 public:
  position add(node_kind kind, std::string const& name, std::string const& target,
               std::vector<module_argument> args = {}) {
    module_node n;
    n.kind = kind;
    n.name = name;
    n.target = target;
    n.args = std::move(args);
    return made.add(std::move(n));
  }
  position call(std::string const& target, std::vector<module_argument> args) {
    return add(node_kind::call_function, target + "_" + std::to_string(made.list().size()), target,
               std::move(args));
  }
  position parameter(std::string const& path) {
    if (!made.find_attribute(path))
      made.add_attribute({path, module_attribute::kind::parameter, {}, {}, {}, {}});
    return add(node_kind::get_attr, path, path);
  }

  module_graph made;
};

/// Returns a stage with `given` inputs, which returns their sum times a parameter. If the root takes elements
/// of it, it returns the loss (the sum of its elements) and that value.
module_graph some_stage(std::size_t given, bool with_loss) {
  graph_writer w;
  std::vector<position> inputs;
  for (std::size_t i = 0; i < given; ++i)
    inputs.push_back(w.add(node_kind::placeholder, "x" + std::to_string(i), "x" + std::to_string(i)));
  auto sum = inputs.front();
  for (std::size_t i = 1; i < given; ++i) sum = w.call("add", {node_argument(sum), node_argument(inputs[i])});
  auto const y = w.call("mul", {node_argument(sum), node_argument(w.parameter("w"))});
  auto const loss = with_loss ? w.call("sum", {node_argument(y)}) : y;
  w.add(node_kind::output, "output", "output", {with_loss ? tuple_argument({loss, y}) : node_argument(y)});
  return w.made;
}

/// Returns `root` with a stage for each call.
module_graph with_stages(module_graph const& root) {
  module_graph made;
  std::vector<char> projected(root.list().size());
  for (auto const& n : root.list()) {
    if (n.target == "getitem") each_node(n.args.front(), [&](auto v) { projected[v] = 1; });
    made.add(n);
  }
  for (position n = 0; n < root.list().size(); ++n)
    if (root[n].kind == node_kind::call_module)
      made.add_attribute({root[n].target,
                          module_attribute::kind::module,
                          {},
                          {some_stage(root[n].args.size(), projected[n] != 0)},
                          {},
                          {}});
  return made;
}

/// Writes arguments; two are equal if they are the same tensor.
json write_arguments(tape_values const& given, testing::tape const& t,
                     std::vector<testing::tensor const*>& known) {
  json list = json::array();
  for (auto const& v : given) {
    auto const at = std::ranges::find(known, v.of.get());
    auto const identity = at - known.begin();
    if (at == known.end()) known.push_back(v.of.get());
    list.push_back({{"identity", identity},
                    {"needs_gradient", v.node.has_value()},
                    {"leaf", !v.node || t.nodes()[*v.node].is_leaf()}});
  }
  return list;
}

/// The reads of a model of three linear stages beyond the stage before, parsed from `a value of stage 0 used
/// by stages 1 and 2` or `a graph input used by stages 1 and 2 as well`. Other words are ignored.
struct described_model {
  bool from_input = false, adjacent_markers = false;
  std::vector<std::size_t> used_by;

  explicit described_model(std::string const& text) {
    from_input = text.find("a graph input used") != text.npos;
    adjacent_markers = text.find("two adjacent markers") != text.npos;
    auto const at = text.find("used by stages ");
    if (at == text.npos) return;
    std::istringstream words(text.substr(at + 15));
    for (std::string word; words >> word;)
      if (word.find_first_not_of("0123456789,") == word.npos) used_by.push_back(std::stoul(word));
  }
};

/// Returns a program with one layer per stage, two in the last, and then the sum of squares.
module_graph described_program(described_model const& m, std::size_t stages) {
  graph_writer w;
  auto const x = w.add(node_kind::placeholder, "x", "x");
  auto h = x, skipped = x;
  for (std::size_t layer = 0; layer <= stages; ++layer) {
    if (layer > 0 && layer < stages) w.call("pipe_split", {});
    if (layer == 1 && m.adjacent_markers) w.call("pipe_split", {});
    auto const path = "l" + std::to_string(layer);
    h = w.call("linear", {node_argument(h), node_argument(w.parameter(path + ".weight")),
                          node_argument(w.parameter(path + ".bias"))});
    if (layer == 0 && !m.from_input) skipped = h;
    if (layer > 0 && layer < stages && std::ranges::find(m.used_by, layer) != m.used_by.end())
      h = w.call("add", {node_argument(h), node_argument(skipped)});
  }
  auto const squares = w.call("pow", {node_argument(h), {std::int64_t{2}}});
  auto const loss = w.call("sum", {node_argument(squares)});
  w.add(node_kind::output, "output", "output", {node_argument(loss)});
  return w.made;
}

tensor some_tensor(testing::toy_shape shape, std::size_t from) {
  auto t = tensor::filled(std::move(shape), 0);
  for (std::size_t i = 0; i < t.data.size(); ++i)
    t.data[i] = static_cast<double>((from + i) * 5 % 7) / 4 - 0.75;
  return t;
}

state_values some_state(module_graph const& g) {
  state_values state;
  for (auto const& a : g.attributes())
    state[a.path] = some_tensor(a.path.ends_with("bias") ? testing::toy_shape{3} : testing::toy_shape{3, 3},
                                state.size());
  return state;
}

}  // namespace

outcome run_tools_detach(test_case const& c, json const& body) {
  auto const root = with_stages(c.graphs.at("root"));
  state_values const state{{"w", some_tensor({2, 3}, 1)}};
  testing::tape t;
  tape_values inputs;
  for (std::size_t i = 0; i < root.inputs().size(); ++i) {
    auto const value = some_tensor({2, 3}, i);
    bool const needed = i == 0 && body["input"]["input_needs_gradient"].get<bool>();
    inputs.push_back(needed ? t.leaf("x", value) : testing::constant_of(value));
  }
  testing::staged_autograd run(t, root, state);
  run.run(inputs);

  json ours{{"calls", json::array()}};
  std::vector<testing::tensor const*> known;
  for (auto const& [stage, given] : run.given())
    ours["calls"].push_back({{"stage", stage}, {"arguments", write_arguments(given, t, known)}});
  ours["memo_size"] = run.detached_values();
  auto const on_input = t.gradient_of(inputs.front());
  ours["gradient_on_callers_input"] = on_input ? json(on_input->data) : json(nullptr);
  outcome o;
  compare(body["expect"], ours, "expect", o.differences);
  return o;
}

outcome run_tools_traced_stage(test_case const&, json const& body) {
  auto const& input = body["input"];
  auto const stages = input["ranks"].get<std::size_t>();
  auto const g = described_program(described_model(input["model"]), stages);
  auto const state = some_state(g);
  auto const pipe = make_module_pipe(g);
  auto const root = with_backward(pipe.outer, pipe.outer.outputs().front());
  auto const batch = some_tensor({4, 3}, 3);
  auto const parts = testing::divided({batch}, input["microbatches"].get<std::int64_t>());
  auto const step = run_step(root, parts.values, std::vector<double>(parts.values.size(), 1), state);

  outcome o;
  testing::tape t;
  testing::toy_autograd whole(t, state);
  auto const loss = evaluate(g, tape_values{testing::constant_of(batch)}, whole);
  t.backward({{loss.node.value(), {{}, {1}}}});
  auto const sums = sum_of_copies(step.gradients);
  for (auto const& [holder, gradient] : whole.gradients())
    if (auto const known = sums.find(holder);
        known == sums.end() || !known->second || largest_difference(*gradient, *known->second) > 1e-12)
      o.differences.push_back({"gradient of " + holder, "as uncut", "another"});

  if (body.contains("defect")) {
    compare(body["better"]["rule"], "runs; gradients as uncut", "better.rule", o.differences);
    if (pipe.paths.size() != stages)
      o.differences.push_back({"stages", std::to_string(stages), std::to_string(pipe.paths.size())});
    return o;
  }
  json ranks = json::array();
  for (auto const& path : pipe.paths) {
    json present = json::array();
    for (auto const& [holder, gradient] : step.gradients.at(path))
      if (gradient) present.push_back(holder.substr(holder.find(' ') + 1));
    ranks.push_back({{"step", "done"}, {"num_stages", pipe.paths.size()}, {"gradients_present", present}});
  }
  compare(body["expect"], json{{"ranks", ranks}}, "expect", o.differences);
  return o;
}

}  // namespace cleave::conformance
