// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cleave/formats/pipe_info.hpp"
#include "cleave/graph/bind_arguments.hpp"
#include "cleave/graph/interpreter.hpp"
#include "cleave/pipe/module_pipe.hpp"
#include "conformance_runner/outcome.hpp"
#include "support/integer_interpretation.hpp"

/// Compares the root of a pipe with its recordings: stage numbers, call arguments and info.
namespace cleave::conformance {

using namespace detail;
namespace {

constexpr char prefix[] = "submod_pp_";

module_node make(node_kind kind, std::string name, std::vector<position> reads = {}) {
  module_node n;
  n.kind = kind;
  n.name = n.target = std::move(name);
  for (auto const v : reads) n.args.push_back(node_argument(v));
  return n;
}

void refuse_like(json const& body, std::string const& type, std::string const& said, std::string const& names,
                 outcome& o) {
  if (!body.contains("error")) {
    o.differences.push_back({"the call", "a result", said});
    return;
  }
  compare(body["error"]["type"], type, "error.type", o.differences);
  if (said.find(names) == said.npos) o.differences.push_back({"the message", names, said});
}

/// Returns a program with one stage per list in `reads`. Each stage reads these parameters and the stage
/// before.
module_graph program_of_stages(std::vector<std::string> const& parameters,
                               std::vector<std::vector<std::size_t>> const& reads) {
  module_graph g;
  std::vector<position> inputs, before;
  for (auto const& name : parameters) inputs.push_back(g.add(make(node_kind::placeholder, name)));
  for (auto const& list : reads) {
    if (!before.empty()) g.add(make(node_kind::call_function, "pipe_split"));
    for (auto const i : list) before.push_back(inputs[i]);
    before = {g.add(make(node_kind::call_function, "f", before))};
  }
  auto output = make(node_kind::output, "output");
  output.args = {tuple_argument(before)};
  g.add(output);
  return g;
}

module_pipe_options recorded_names() {
  module_pipe_options o;
  o.prefix = prefix;
  return o;
}

/// Returns the quoted word at the end of a recorded message, or `''`.
std::string quoted_word(std::string const& message) {
  auto const last = message.rfind('\'');
  auto const first = last == message.npos ? last : message.rfind('\'', last - 1);
  return first == message.npos ? "" : message.substr(first, last - first + 1);
}

/// Runs a call of the root without its stages.
outcome run_root_alone(json const& body) {
  outcome o;
  auto const g = program_of_stages({"x"}, {{0}, {}});
  auto const p = make_module_pipe(g, recorded_names());
  try {
    check_stages(p.outer, prefix);
    check_stages(detached_root(p.outer, prefix), prefix);
    o.differences.push_back({"the call", "an error", "a result"});
  } catch (detached_stage_error const& e) {
    refuse_like(body, "RuntimeError", e.what(), "run the pipe", o);
  }
  return o;
}

/// Compares the parameters of the first stage of a program that has those of `model`.
outcome run_first_stage(json const& body) {
  outcome o;
  auto parameters = body["input"]["model"].get<std::vector<std::string>>();
  std::erase(parameters, "*");  // parameters after it are passed by name
  json const& expected = body["expect"]["first_stage_parameters"];
  std::vector<std::vector<std::size_t>> reads(2);
  for (std::size_t i = 0; i < parameters.size(); ++i) reads[i < expected.size() ? 0 : 1].push_back(i);
  auto const g = program_of_stages(parameters, reads);
  auto const p = make_module_pipe(g, recorded_names());
  json got = json::array();
  auto const& stage = p.stage(stage_id{0});
  for (auto const n : stage.inputs()) got.push_back(stage[n].target);
  compare(expected, got, "first_stage_parameters", o.differences);
  return o;
}

}  // namespace

outcome run_tools_number(test_case const&, json const& body) {
  outcome o;
  module_graph root;
  std::vector<position> calls;
  for (auto const& path : body["input"]["calls"])
    calls.push_back(root.add(make(node_kind::call_module, path.get<std::string>())));
  try {
    auto const stages = stage_calls_of(root, prefix);
    json numbers = json::array();
    for (auto const n : calls) {
      auto const at = std::ranges::find(stages, n, &numbered_stage::node);
      numbers.push_back(at == stages.end() ? json() : json(at->number));
    }
    compare(body.value("expect", json()), {{"num_stages", stages.size()}, {"stage_idx", numbers}}, "expect",
            o.differences);
  } catch (stage_number_error const& e) {
    refuse_like(body, "ValueError", e.what(), quoted_word(body["error"]["message"]), o);
  }
  return o;
}

outcome run_tools_bind(test_case const&, json const& body) {
  json const& input = body["input"];
  if (input.contains("model")) return run_first_stage(body);
  if (!input.contains("parameters")) return run_root_alone(body);
  outcome o;
  auto const g = program_of_stages(input["parameters"], {{0}, {1}});
  auto const value = [](std::string const& name) {
    return testing::integer_value::computed(testing::fold(name.size(), testing::fnv(name)));
  };
  std::vector<testing::integer_value> passed, whole;
  std::vector<std::string> named;
  for (json const& name : input["positional"]) passed.push_back(value(name));
  for (json const& pair : input["named"]) {
    named.push_back(pair[0]);
    passed.push_back(value(pair[1]));
  }
  for (json const& name : input["parameters"]) whole.push_back(value(name));
  try {
    auto const p = make_module_pipe(g, recorded_names());
    auto const binding =
        bind_arguments(p.outer, input["positional"].size(), named, surplus_arguments::ignored);
    std::vector<testing::integer_value> bound;
    for (auto const& at : binding) bound.push_back(passed[at.front()]);
    testing::integer_interpretation meaning;
    bool const equal = evaluate(p.outer, bound, meaning) == evaluate(g, whole, meaning);
    compare(body.value("expect", json()), {{"equals_positional_call", equal}}, "expect", o.differences);
  } catch (binding_error const& e) {
    // A missing positional argument is reported before the run, like a missing named one.
    auto const message = body.contains("error") ? body["error"]["message"].get<std::string>() : "";
    bool const in_the_run = named.empty() && message.find("'") == message.npos;
    refuse_like(body, in_the_run ? "RuntimeError" : "TypeError", e.what(),
                in_the_run ? "'" + input["parameters"].back().get<std::string>() + "'" : quoted_word(message),
                o);
  }
  return o;
}

outcome run_tools_info(test_case const&, json const& body) {
  outcome o;
  auto const g = program_of_stages({"x", "y"}, {{0}, {1}});
  auto const p = make_module_pipe(g, recorded_names());
  auto const info = pipe_info_of(p, recorded_names());
  json got{{"num_stages", info.stages.size()}, {"has_loss_and_backward", info.has_loss_and_backward}};
  auto nodes = write_nodes(info.root);
  for (auto& n : nodes) n.erase("meta");
  got["graph"] = {{"nodes", nodes}};
  json expected = body["expect"];
  expected["graph"]["nodes"] = normal_nodes(expected["graph"]["nodes"]);
  compare(expected, got, "expect", o.differences);
  auto const written = json::parse(write_pipe_info_json(info));  // the same as text for tools
  compare(expected["num_stages"], written["stages"].size(), "the JSON", o.differences);
  return o;
}

}  // namespace cleave::conformance
