// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/backward/loss.hpp"
#include "cleave/backward/make_backward_plan.hpp"
#include "cleave/backward/with_backward.hpp"
#include "cleave/backward/with_loss.hpp"
#include "conformance_runner/backward_graph_json.hpp"
#include "conformance_runner/outcome.hpp"
#include "support/linear_gradients.hpp"
#include "support/toy_autograd.hpp"

namespace cleave::conformance {

using namespace detail;

namespace {

/// Returns nested lists of numbers as a tensor.
testing::tensor read_matrix(json const& rows) {
  testing::tensor t{{rows.size(), rows.at(0).size()}, {}};
  for (auto const& row : rows)
    for (auto const& x : row) t.data.push_back(x.get<double>());
  return t;
}

module_node make_node(node_kind kind, std::string name, std::string target,
                      std::vector<module_argument> args = {}) {
  module_node n;
  n.kind = kind;
  n.name = std::move(name);
  n.target = std::move(target);
  n.args = std::move(args);
  return n;
}

/// The search that upstream's message is about, and the names in it.
struct refusal {
  loss_fault::kind what;
  std::string named;
};

/// Converts Python's text of an operand to the form of the library's messages.
std::string in_our_words(std::string text) {
  static constexpr std::pair<std::string_view, std::string_view> words[] = {
      {",)", ")"}, {"None", "null"}, {"True", "true"}, {"False", "false"}};
  for (auto const& [theirs, ours] : words)
    for (auto at = text.find(theirs); at != text.npos; at = text.find(theirs, at + ours.size()))
      text.replace(at, theirs.size(), ours);
  return text;
}

std::optional<refusal> read_refusal(std::string const& said) {
  using enum loss_fault::kind;
  auto const between = [&](std::string const& from, std::string const& to) {
    auto const begin = said.find(from) + from.size();
    return in_our_words(said.substr(begin, to.empty() ? said.npos : said.find(to, begin) - begin));
  };
  std::vector<std::pair<std::string, loss_fault::kind>> const musts = {
      {" must match type", different_kind},
      {" must match length", different_count},
      {" must match keys", different_keys},
  };
  for (auto const& [must, what] : musts)
    if (said.find(must) != said.npos) return refusal{what, between("Output value ", must)};
  if (said.starts_with("Loss spec must specify a dynamic value"))
    return refusal{not_a_value, between("got ", "")};
  if (said.starts_with("Did not find loss value")) return refusal{not_found, ""};
  if (said.starts_with("Unsupported type")) return refusal{unknown_mark, ""};
  return std::nullopt;
}

/// One case of loss.json.
class loss_case {
 public:
  loss_case(test_case const& c, json const& body) : c_(c), body_(body), defect_(body.contains("defect")) {}

  outcome run() {
    if (body_["input"].contains("graph"))
      check_backward();
    else if (body_["input"].contains("targets"))
      check_wrapper_value();
    else if (!body_["input"].contains("output"))
      check_wrapper_without_loss();
    else
      check_search();
    return {std::move(differences_), ""};
  }

 private:
  void differ(std::string what, std::string expected, std::string got) {
    differences_.push_back({std::move(what), std::move(expected), std::move(got)});
  }

  /// Returns a program whose output, made of placeholders, is that of the case.
  module_graph read_program() const {
    module_graph g;
    node_names names;
    auto const add_nodes = [&](auto const& self, json const& j) -> void {
      if (j.is_object() && j.contains("node") && !names.contains(j["node"].get<std::string>())) {
        auto const name = j["node"].get<std::string>();
        names.emplace(name, g.add(make_node(node_kind::placeholder, name, name)));
      } else if (j.is_structured()) {
        for (auto const& inside : j) self(self, inside);
      }
    };
    json const& output = body_["input"]["output"];
    add_nodes(add_nodes, output);
    g.add(make_node(node_kind::output, "output", "output", {read_operand(output, names, c_.name)}));
    return g;
  }

  void check_search() {
    auto const g = read_program();
    bool const wrapper = body_["input"].value("model", "") == "trivial_loss_wrapper";
    auto const spec = wrapper ? sole_output() : read_operand(body_["input"]["spec"], {}, c_.name);
    auto const several = defect_ ? several_losses::refuse : several_losses::first;
    auto const search = search_for_loss(g, spec, {.several = several});
    json const loss = search.node ? json(g[*search.node].name) : json();
    if (search.fault) {
      check_refusal(*search.fault, loss_fault_text(g, spec, *search.fault));
    } else if (defect_ && body_["better"].is_object()) {
      compare(body_["better"], json{{"loss", loss}}, "better", differences_);
    } else if (defect_ || body_.contains("error")) {
      differ("error", "a refusal", loss.dump());
    } else {
      compare(body_["expect"], json{{"loss", loss}, {"generated_spec", write_argument(g, search.spec)}},
              "expect", differences_);
    }
  }

  void check_refusal(loss_fault const& fault, std::string const& message) {
    if (defect_) {
      if (body_["better"] != "error") differ("better", body_["better"].dump(), message);
      return;
    }
    if (!body_.contains("error")) return differ("result", body_["expect"].dump(), message);
    auto const said = body_["error"]["message"].get<std::string>();
    auto const expected = read_refusal(said);
    if (body_["error"]["type"] != "RuntimeError" || !expected || expected->what != fault.what)
      differ("error", body_["error"].dump(), message);
    else if (message.find(expected->named) == message.npos)
      differ("error names " + expected->named, said, message);
  }

  /// Checks a wrapper that computes no loss.
  void check_wrapper_without_loss() {
    module_graph identity;
    auto const x = identity.add(make_node(node_kind::placeholder, "x", "x"));
    identity.add(make_node(node_kind::output, "output", "output", {node_argument(x)}));
    auto const fault = find_with_loss_fault(identity, module_graph());
    bool const refused = fault && fault->what == with_loss_fault::kind::no_loss;
    if (!refused || body_["input"]["model"] != "loss_wrapper" ||
        body_["error"]["type"] != "NotImplementedError")
      differ("error", body_["error"].dump(), refused ? "a refusal" : "a program");
  }

  void check_wrapper_value() {
    if (body_["input"]["model"] != "identity then mean squared error")
      throw unjudged_error("no wrapper is known as " + body_["input"]["model"].dump());
    module_graph identity, mean;
    auto const x = identity.add(make_node(node_kind::placeholder, "x", "x"));
    identity.add(make_node(node_kind::output, "output", "output", {node_argument(x)}));
    auto const y = mean.add(make_node(node_kind::placeholder, "y", "y"));
    auto const t = mean.add(make_node(node_kind::placeholder, "t", "t"));
    auto const d =
        mean.add(make_node(node_kind::call_function, "d", "mse_loss", {node_argument(y), node_argument(t)}));
    mean.add(make_node(node_kind::output, "output", "output", {node_argument(d)}));

    auto const program = with_loss(identity, mean);
    testing::tape tape;
    testing::state_values const nothing;
    testing::toy_autograd meaning(tape, nothing);
    std::vector<testing::tape_value> const inputs{
        testing::constant_of(read_matrix(body_["input"]["x"])),
        testing::constant_of(read_matrix(body_["input"]["targets"]))};
    auto const value = evaluate(program, inputs, meaning);
    bool const found = loss_of(program, sole_output()).has_value();
    compare(body_["expect"], json{{"loss", value.get().data.at(0)}, {"loss_spec", found}}, "expect",
            differences_);
  }

  void check_backward() {
    auto const& g = c_.graph();
    auto const loss = position_of(g, body_["input"]["loss"]);
    if (!loss) return differ("input.loss", "a node", body_["input"]["loss"].dump());
    try {
      auto const made = with_backward(g, *loss);
      if (body_.contains("error")) return differ("error", body_["error"].dump(), "a graph");
      if (!defect_) check_graph(made);
    } catch (backward_error const& e) {
      check_root_refusal(e);
      return;
    }
    if (defect_) check_nothing_lost(*loss);
    if (defect_ && body_.contains("better")) check_rule(*loss);
  }

  static std::optional<position> position_of(module_graph const& g, json const& name) {
    auto const at = std::ranges::find(g.list(), name.get<std::string>(), &module_node::name);
    if (at == g.list().end()) return std::nullopt;
    return static_cast<position>(at - g.list().begin());
  }

  void check_root_refusal(backward_error const& e) {
    if (!body_.contains("error")) return differ("result", "a graph", e.what());
    auto const said = body_["error"]["message"].get<std::string>();
    using enum root_fault::kind;
    bool const fits =
        (said.starts_with("Found non-getitem call") && e.witness.what == work_between_stages) ||
        (said.starts_with("Found malformed getitem call") && e.witness.what == malformed_element);
    if (!fits || body_["error"]["type"] != "AssertionError") differ("error", body_["error"].dump(), e.what());
  }

  void check_graph(module_graph const& made) {
    auto const& expected = body_["expect"];
    backward_graph_json const ours(write_nodes(made)), theirs(expected["graph"]["nodes"]);
    compare(theirs.nodes(), ours.nodes(), "expect.graph.nodes", differences_);
    compare(theirs.numbers(expected["order"]), ours.added(), "expect.order", differences_);
    compare(theirs.numbers(expected["unused_gradients"]), ours.unused(), "expect.unused_gradients",
            differences_);
  }

  /// Checks, with stages that are linear over integers, that the backward pass equals reverse mode on the
  /// whole.
  void check_nothing_lost(position loss) {
    auto const root = stage_root_of(c_.graph());
    testing::linear_stages const stages(root);
    testing::linear_gradients meaning(stages, loss);
    std::vector<testing::linear_value> inputs;
    for (auto const x : c_.graph().inputs()) inputs.push_back(meaning.input(x));
    auto const given =
        evaluate(with_backward(c_.graph(), loss, {.inputs = input_gradients::returned}), inputs, meaning);
    auto all = meaning.received;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      testing::linear_gradients::flatten(given.items.at(1).items.at(i), *inputs[i].shape,
                                         all[inputs[i].base]);
    for (auto const& [v, numbers] : stages.whole_gradients(loss)) {
      auto const nothing = std::vector<testing::whole_number>(numbers.size());
      auto const got = all.contains(v) ? all[v] : nothing;
      if (got != numbers)
        differ("the gradient of " + c_.graph()[v].name, json(numbers).dump(), json(got).dump());
    }
  }

  /// Checks the rules that the recordings give where upstream is wrong.
  void check_rule(position loss) {
    auto const rule = body_["better"]["rule"].get<std::string>();
    auto const plan =
        make_backward_plan(stage_root_of(c_.graph()), loss, {.inputs = input_gradients::returned});
    auto const is_sum = [&](gradient_place const& place) {
      return place.gradient != none<std::uint32_t> && plan.gradients[place.gradient].is_sum();
    };
    static constexpr std::array known{"sum of both gradients at element 0",
                                      "gradient tree keyed by the path (0,1)",
                                      "sum, when gradients of inputs are asked for"};
    if (std::ranges::find(known, rule) == known.end())
      throw unjudged_error("no comparison for the rule '" + rule + "'");
    bool holds = false;
    for (auto const& call : plan.calls) {
      if (call.outputs.empty()) continue;
      if (rule == "sum of both gradients at element 0") holds |= is_sum(call.outputs.front());
      bool const nested = call.outputs.front().elements == 2;
      if (rule == "gradient tree keyed by the path (0,1)")
        holds |= nested && call.outputs[2].gradient != none<std::uint32_t>;
    }
    if (rule == "sum, when gradients of inputs are asked for")
      for (auto const& tree : plan.inputs) holds |= is_sum(tree.front());
    if (!holds) differ("better.rule", rule, "a plan without that");
  }

  test_case const& c_;
  json const& body_;
  bool defect_;
  std::vector<difference> differences_;
};

}  // namespace

outcome run_pipe_loss(test_case const& c, json const& body) { return loss_case(c, body).run(); }

}  // namespace cleave::conformance
