// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/backward/check_backward.hpp"
#include "cleave/backward/loss.hpp"
#include "cleave/backward/with_backward.hpp"
#include "cleave/graph/result_structure.hpp"
#include "cleave/pipe/module_pipe.hpp"
#include "cleave/split/modules/outline.hpp"
#include "conformance_runner/backward_graph_json.hpp"
#include "conformance_runner/outcome.hpp"
#include "conformance_runner/stage_tree_json.hpp"
#include "support/toy_staged.hpp"

/// Models with a loss: cut, with their backward pass, and run whole and in stages.
namespace cleave::conformance {

using namespace detail;
namespace {

using testing::parameter_gradients;

double const rounding = 1e-12;

/// Returns the cases of a file, which refer to each other.
std::vector<test_case> const& cases_of(std::filesystem::path const& file) {
  static std::map<std::filesystem::path, std::vector<test_case>> read;
  auto const known = read.find(file);
  if (known != read.end()) return known->second;
  auto& cases = read[file];
  schema const layout(layouts);
  json top = read_json(file);
  for (auto& body : top["cases"]) try {
      cases.push_back(read_case(layout, "pipe", file.filename().string(), std::move(body), json::object()));
    } catch (layout_error const&) {
      continue;  // the runner of the case reports it
    }
  return cases;
}

/// Returns the number of values in a specification.
std::size_t leaves_of_spec(json const& spec) { return leaves_of(read_operand(spec, {}, "spec")); }

/// Appends differences: numbers further apart than rounding explains, and any other difference.
void compare_numbers(json const& expected, json const& got, std::string const& what,
                     std::vector<difference>& to) {
  if (expected.is_number() && got.is_number()) {
    auto const a = expected.get<double>(), b = got.get<double>();
    if (!(std::abs(a - b) <= rounding * std::max(1.0, std::abs(a))))
      to.push_back({what, expected.dump(), got.dump()});
  } else if (expected.is_array() && got.is_array() && expected.size() == got.size()) {
    for (std::size_t i = 0; i < expected.size(); ++i)
      compare_numbers(expected[i], got[i], what + "[" + std::to_string(i) + "]", to);
  } else if (expected.is_object() && got.is_object() && expected.size() == got.size()) {
    for (auto const& [key, value] : expected.items())
      compare_numbers(value, got.value(key, json("nothing")), what + "." + key, to);
  } else {
    compare(expected, got, what, to);
  }
}

json write_sum(std::optional<testing::tensor> const& t) { return t ? json(t->data) : json(); }

/// Returns the values of a result as a flat list.
json write_values(testing::tape_value const& v) {
  json list = json::array();
  if (v.what == testing::tape_value::kind::tensor) list.push_back(v.get().data);
  if (v.what == testing::tape_value::kind::composite)
    for (auto const& item : *v.items)
      for (auto const& inside : write_values(item)) list.push_back(inside);
  return list;
}

/// A cut model, with its backward pass if it has a loss.
struct cut_model {
  module_pipe pipe;
  std::optional<position> loss;
  module_argument spec;
  module_graph root;
};

class traced_case {
 public:
  traced_case(test_case const& c, json const& body)
      : c_(c), body_(body), in_(body["input"]), defect_(body.contains("defect")) {}

  outcome run() {
    try {
      check();
    } catch (loss_error const& e) {
      check_refusal(e);
    }
    return {std::move(differences_), ""};
  }

 private:
  void differ(std::string what, std::string expected, std::string got) {
    differences_.push_back({std::move(what), std::move(expected), std::move(got)});
  }

  /// Returns the case itself, or one of the same model that has the program and as many results as the
  /// specification has marks.
  test_case const& model_case() const {
    if (c_.graphs.contains("graph")) return c_;
    for (auto const& other : cases_of(c_.source)) {
      bool same = other.graphs.contains("graph");
      for (auto const* key : {"state", "values", "args"})
        same = same && other.input().value(key, json()) == in_.value(key, json());
      if (same && other.graph().outputs().size() == leaves_of_spec(in_["spec"])) return other;
    }
    throw unjudged_error("no case has the program of this model");
  }

  module_argument read_spec() const { return read_operand(in_["spec"], {}, c_.name); }

  module_pipe_options options() const {
    module_pipe_options o;
    o.prefix = "submod_pp_";
    if (!defect_) o.run = order::upstream;
    if (!defect_) o.state.names = alias_policy::beside_modules;
    if (auto const use = in_.find("multi_use"); use != in_.end() && use->is_object()) {
      for (auto const& [name, what] : use->items()) o.state.by_name.emplace_back(name, read_use(what));
    } else if (use != in_.end()) {
      o.state.shared = read_use(*use);
    }
    return o;
  }

  static shared_state read_use(json const& text) {
    return text == "TRANSMIT" ? shared_state::transmit : shared_state::replicate;
  }

  cut_model cut(module_graph const& g, module_argument const& spec) const {
    cut_model made{make_module_pipe(g, options()), {}, spec, {}};
    made.loss = loss_of(made.pipe.outer, spec,
                        {.several = several_losses::first,
                         .missing = in_["spec"].is_null() ? missing_loss::allow : missing_loss::refuse});
    made.root = made.loss ? with_backward(made.pipe.outer, *made.loss) : made.pipe.outer;
    return made;
  }

  void check() {
    auto const& model = model_case();
    json const rule = defect_ && body_.contains("better") ? body_["better"] : json();
    if (rule.contains("rule") && rule["rule"] == "the specification follows the model's own output structure")
      return check_structured(model);
    auto const made = cut(model.graph(), read_spec());
    check_soundness(model, made);
    if (!defect_)
      check_expected(model, made, body_["expect"]);
    else if (rule.contains("same_as"))
      check_same(model, made, rule["same_as"]);
    else if (rule.contains("rule"))
      check_wrapper(model, made, rule["rule"]);
    else
      check_transmit(made, rule);
  }

  void check_refusal(loss_error const& e) {
    auto const said = body_.contains("error") ? body_["error"]["message"].get<std::string>() : "";
    bool const fits = said.starts_with("Did not find") && e.witness.what == loss_fault::kind::not_found;
    if (defect_ || !fits || body_["error"]["type"] != "RuntimeError")
      differ("error", body_.value("error", json()).dump(), e.what());
  }

  /// Checks that a specification in the model's original structure acts like a flat one.
  void check_structured(test_case const& model) {
    auto const spec = read_spec();
    auto const g = with_result_structure(model.graph(), spec);
    auto const made = cut(g, spec), other = cut(model.graph(), flat(spec));
    check_soundness(model, made);
    json expected = write_nodes(other.root), got = write_nodes(made.root);
    for (auto* nodes : {&expected, &got}) nodes->erase(nodes->size() - 1);  // without the output
    compare(expected, got, "root", differences_);
    check_numbers(model, made.pipe, model.body["expect"]);
  }

  /// Returns the marks of `spec` as one flat tuple.
  static module_argument flat(module_argument const& spec) {
    module_argument row{container{container::kind::tuple, 0}};
    for (auto const& t : spec)
      if (std::holds_alternative<bool>(t)) row.push_back(t);
    std::get<container>(row.front()).size = static_cast<std::uint32_t>(row.size() - 1);
    return row;
  }

  void check_same(test_case const& model, cut_model const& made, json const& name) {
    if (name != model.name) return differ("better.same_as", model.name, name.dump());
    check_expected(model, made, model.body["expect"]);
  }

  void check_wrapper(test_case const& model, cut_model const& made, json const& rule) {
    if (rule != "backward as with (True) as a one-element tuple")
      throw unjudged_error("no comparison for the rule " + rule.dump());
    auto const other = cut(model.graph(), {container{container::kind::tuple, 1}, true});
    compare(write_nodes(other.root), write_nodes(made.root), "root", differences_);
    if (!made.loss) differ("loss", "found", "none");
  }

  /// Checks that state read by several stages is sent by its owner and that its gradient returns there.
  void check_transmit(cut_model const& made, json const& better) {
    auto const& pipe = made.pipe;
    if (pipe.state.sent.size() != 1)
      return differ("sent", "one tensor", std::to_string(pipe.state.sent.size()));
    auto const& sent = pipe.state.sent.front();
    auto const number = [&](stage_id i) { return std::to_string(pipe.plan.number[index(i)]); };
    auto const name = pipe.model.tensors[sent.tensor].name;
    json state, holders = json::array();
    for (std::uint32_t i = 0; i < pipe.state.stages.size(); ++i)
      for (auto const& held : pipe.state.stages[i])
        if (pipe.model.tensors[held.tensor].name == name) holders.push_back("stage " + number(stage_id{i}));
    state[name] = holders.size() == 1 ? holders[0].get<std::string>() + " only" : holders.dump();
    std::string edges;
    for (auto const& e : pipe.plan.edges)
      if (e.from == sent.owner && e.to == sent.to && is_state(pipe, e.value))
        edges = name + " goes from stage " + number(e.from) + " to stage " + number(e.to.front()) +
                " as a value; its gradient comes back along that edge and is summed in stage " +
                number(e.from);
    if (better.is_object()) compare(better, json{{"state", state}, {"edges", edges}}, "better", differences_);
    if (edges.empty() || holders.size() != 1) differ(name, "sent by its only holder", state.dump() + edges);
  }

  static bool is_state(module_pipe const& pipe, std::uint32_t v) {
    return pipe.program.s.from[v] == source::state;
  }

  testing::state_values values(test_case const& model) const {
    testing::state_values state;
    for (auto const& s : in_["state"]) {
      auto const at = in_["values"].find(s["fqn"].get<std::string>());
      if (at == in_["values"].end()) continue;
      state[s["fqn"]] = {s["shape"].get<testing::toy_shape>(), at->get<std::vector<double>>()};
    }
    return with_ties(model.graph(), std::move(state));
  }

  testing::tape_values inputs() const {
    testing::tape_values list;
    for (auto const& a : in_["args"])
      list.push_back(
          testing::constant_of({a["shape"].get<testing::toy_shape>(), a["data"].get<std::vector<double>>()}));
    return list;
  }

  /// Checks that a run in stages gives the results of the whole model, and the same gradients summed over
  /// copies.
  void check_soundness(test_case const& model, cut_model const& made) {
    auto const state = values(model);
    testing::tape whole_tape, tape;
    testing::toy_autograd whole(whole_tape, state);
    auto const given = evaluate(model.graph(), inputs(), whole);
    testing::staged_autograd staged(tape, made.root, state);
    outputs_ = write_values(staged.run(inputs()));
    stages_ = staged.gradients();
    whole_outputs_ = write_values(given);
    compare_numbers(whole_outputs_, outputs_, "whole = staged", differences_);
    if (!made.loss) return;
    auto const plan_fault =
        find_backward_plan_fault(stage_root_of(made.pipe.outer), *made.loss,
                                 make_backward_plan(stage_root_of(made.pipe.outer), *made.loss));
    if (plan_fault) differ("the verifier", "nothing", backward_plan_fault_text(*plan_fault));
    auto const place = search_for_loss(made.pipe.outer, made.spec, {.several = several_losses::first});
    auto const returned = made.pipe.outer.outputs();
    auto const at = static_cast<std::size_t>(std::ranges::find(returned, *place.node) - returned.begin());
    auto const& loss = given.items ? given.items->at(at) : given;
    whole_tape.backward({{loss.node.value(), {{}, {1}}}});
    whole_ = whole.gradients();
    auto const sum = sum_of_copies(stages_);
    for (auto const& [holder, g] : whole_) {
      auto const found = sum.find(holder);
      compare_numbers(write_sum(g), found == sum.end() ? json() : write_sum(found->second),
                      "the gradient of " + holder, differences_);
    }
  }

  /// Returns the recorded name of a stage, which counts the markers before it.
  std::string recorded_name(module_pipe const& pipe, std::size_t i) const {
    return "submod_pp_" + std::to_string(pipe.plan.number[i]);
  }

  json write_root(cut_model const& made) const {
    std::map<std::string, std::string> names;
    for (std::size_t i = 0; i < made.pipe.paths.size(); ++i)
      names[made.pipe.paths[i]] = recorded_name(made.pipe, i);
    json nodes = write_nodes(made.root);
    auto const rename = [&](auto const& self, json& j) -> void {
      if (j.is_string())
        if (auto const at = names.find(j.get<std::string>()); at != names.end()) j = at->second;
      if (j.is_structured())
        for (auto& inside : j) self(self, inside);
    };
    rename(rename, nodes);
    for (auto& n : nodes) n.erase("meta");
    return nodes;
  }

  static std::size_t count_stages(module_pipe const& pipe) { return pipe.paths.size(); }

  void check_expected(test_case const& model, cut_model const& made, json const& expect) {
    auto const& pipe = made.pipe;
    json expected, got;
    for (auto const* key : {"num_stages", "has_loss_and_backward"}) expected[key] = expect[key];
    got["num_stages"] = count_stages(pipe);
    got["has_loss_and_backward"] = made.loss.has_value();
    expected["loss_spec"] = in_["spec"];
    if (&model == &c_ || model.name == c_.name) expected["loss_spec"] = expect["loss_spec"];
    got["loss_spec"] = write_argument(made.root, made.spec);

    backward_graph_json const ours(write_root(made)), theirs(expect["root"]["nodes"]);
    expected["root"] = theirs.nodes();
    got["root"] = ours.nodes();
    write_stages(pipe, expect, expected, got);
    compare(expected, got, "expect", differences_);
    check_numbers(model, pipe, expect);
  }

  void check_numbers(test_case const& model, module_pipe const& pipe, json const& expect) {
    compare_numbers(expect["outputs"], outputs_, "expect.outputs", differences_);
    if (!expect.contains("uncut")) return;
    compare_numbers(expect["stage_gradients"], stage_gradients(pipe), "expect.stage_gradients", differences_);
    compare_numbers(expect["uncut"], {{"outputs", whole_outputs_}, {"gradients", whole_gradients(model)}},
                    "expect.uncut", differences_);
  }

  void write_stages(module_pipe const& pipe, json const& expect, json& expected, json& got) const {
    for (auto const& stage : expect["stages"]) {
      json few{{"name", stage["name"]}, {"tree", numbered_tree(stage["tree"])}};
      few["state_dict"] = as_set(stage["state_dict"]);
      expected["stages"].push_back(few);
    }
    for (std::size_t i = 0; i < count_stages(pipe); ++i) {
      json names = json::array();
      for (auto const& held : pipe.state.stages[i]) names.push_back(pipe.model.tensors[held.tensor].name);
      got["stages"].push_back({{"name", recorded_name(pipe, i)},
                               {"tree", write_tree(outline_of(pipe, i))},
                               {"state_dict", as_set(names)}});
    }
    expected["replicated_params"] = json::array();
    for (auto const& copies : expect["replicated_params"])
      expected["replicated_params"].push_back(as_set(copies));
    got["replicated_params"] = json::array();
    for (auto const& copies : pipe.state.replicas) {
      json list = json::array();
      for (auto const& m : copies.members)
        list.push_back({recorded_name(pipe, index(m.stage)), first_name(pipe, m)});
      got["replicated_params"].push_back(as_set(list));
    }
    for (auto* all : {&expected, &got}) (*all)["replicated_params"] = as_set((*all)["replicated_params"]);
  }

  /// Returns torch's name of a copy: the name in its stage that the model registers first.
  static std::string first_name(module_pipe const& pipe, named_state const& copy) {
    auto first = none<std::uint32_t>;
    for (auto const& held : pipe.state.stages[index(copy.stage)]) {
      auto const& t = pipe.model.tensors[held.tensor];
      bool const same = (t.storage.empty() ? t.name : t.storage) == copy.storage;
      if (same) first = std::min(first, held.tensor);
    }
    return pipe.model.tensors[first].name;
  }

  static module_graph outline_of(module_pipe const& pipe, std::size_t i) {
    return outlined(pipe.stage(stage_id{static_cast<std::uint32_t>(i)}), {.state = root_state::upstream});
  }

  static json as_set(json list) {
    std::sort(list.begin(), list.end());
    return list;
  }

  /// Appends the paths under which a stage rebuilt as modules reads state.
  static void list_reads(module_graph const& g, std::string const& prefix, std::set<std::string>& to) {
    for (auto const& n : g.list())
      if (n.kind == node_kind::get_attr) to.insert(prefix + n.target);
    for (auto const& a : g.attributes())
      if (!a.body.empty()) list_reads(a.body.front(), prefix + a.path + ".", to);
  }

  /// Returns gradients by stage and name. If several stages have a tensor, its gradient is only under the
  /// name that is read. If one stage has it, all names share the tensor and its gradient.
  json stage_gradients(module_pipe const& pipe) const {
    json all = json::object();
    for (std::size_t i = 0; i < count_stages(pipe); ++i) {
      std::set<std::string> reads;
      list_reads(outline_of(pipe, i), "", reads);
      auto& of_stage = all[recorded_name(pipe, i)] = json::object();
      for (auto const& held : pipe.state.stages[i]) {
        auto const& [name, storage, what] = pipe.model.tensors[held.tensor];
        if (what != state_kind::parameter) continue;
        bool const copied = std::ranges::any_of(pipe.state.replicas, [&](tie const& copies) {
          return copies.members.front().storage == (storage.empty() ? name : storage);
        });
        auto const& gradients = stages_.at(pipe.paths[i]);
        auto const g = gradients.find(testing::holder_of(*pipe.program.whole().find_attribute(name)));
        bool const has = (!copied || reads.contains(name)) && g != gradients.end();
        of_stage[name] = has ? write_sum(g->second) : json();
      }
    }
    return all;
  }

  /// Returns gradients under the first name of each tensor.
  json whole_gradients(test_case const& model) const {
    json all = json::object();
    std::set<std::string> met;
    for (auto const& a : model.graph().attributes())
      if (a.what == module_attribute::kind::parameter && met.insert(testing::holder_of(a)).second)
        if (auto const g = whole_.find(testing::holder_of(a)); g != whole_.end())
          all[a.path] = write_sum(g->second);
    return all;
  }

  test_case const& c_;
  json const& body_;
  json const& in_;
  bool defect_;
  json outputs_, whole_outputs_;  // flat lists, in stages and whole
  std::map<std::string, parameter_gradients> stages_;
  parameter_gradients whole_;
  std::vector<difference> differences_;
};

}  // namespace

outcome run_pipe_traced_loss(test_case const& c, json const& body) { return traced_case(c, body).run(); }

}  // namespace cleave::conformance
