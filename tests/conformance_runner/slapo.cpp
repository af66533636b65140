// SPDX-License-Identifier: MIT
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/backward/ties.hpp"
#include "cleave/graph/interpreter.hpp"
#include "cleave/pipe/pytree.hpp"
#include "cleave/split/modules/liveness.hpp"
#include "cleave/split/modules/split_hierarchy.hpp"
#include "cleave/split/modules/wrapped_stage.hpp"
#include "cleave/split/stage_contract.hpp"
#include "conformance_runner/outcome.hpp"
#include "conformance_runner/slapo_model.hpp"
#include "conformance_runner/slapo_write.hpp"
#include "conformance_runner/write_value.hpp"

/// Compares hierarchical cuts with Slapo's recordings. The area's README.md lists what is compared.
namespace cleave::conformance {

using namespace detail;

outcome run_slapo_part(test_case const& c, json const& body);

namespace {

using values = std::vector<integer_value>;

/// One case of a module tree: the split or the reason for refusing it, and the differences.
class hierarchy_case {
 public:
  hierarchy_case(test_case const& c, json const& body)
      : body_(body),
        defect_(body.contains("defect")),
        root_(model_reader(body["input"]["modules"], c.file + ", " + c.name).read()) {
    for (json const& cut : body["input"]["cuts"]) cuts_.push_back(cut);
  }

  std::vector<difference> run() {
    split();
    if (!defect_ && body_.contains("error"))
      check_error();
    else if (has_result())
      defect_ ? check_better() : check_expected();
    return std::move(differences_);
  }

 private:
  void split() {
    try {
      split_hierarchy_options options;
      if (!defect_) options.unread = unread_work::dropped;
      if (!defect_) options.elements = element_reading::by_reader;
      result_ = split_hierarchy(root_, cuts_, options);
    } catch (module_cut_error const& e) {
      fault_ = e.witness;
      message_ = e.what();
    }
  }

  void differ(std::string what, std::string expected, std::string got) {
    differences_.push_back({std::move(what), std::move(expected), std::move(got)});
  }

  bool has_result() {
    if (!result_) differ("result", "a split", "refused: " + message_);
    return result_.has_value();
  }

  void check_error() {
    using enum module_cut_fault::kind;
    auto const type = body_["error"]["type"].get<std::string>();
    auto const said = body_["error"]["message"].get<std::string>();
    if (!fault_) return differ("error", type, "a split");
    bool const fits = type == "ValueError"       ? fault_->what == whole_graph
                      : type == "KeyError"       ? fault_->what == unknown || fault_->what == never_called
                      : type == "AssertionError" ? fault_->what == no_cuts
                      : type == "RuntimeError"   ? fault_->what == inside_opaque
                                                 : false;
    if (!fits) differ("error", type + ": " + said, message_);
    if (said.find('\'') != said.npos && type == "KeyError" && said.find(fault_->path) == said.npos)
      differ("witness", said, fault_->path);
  }

  json labels(std::vector<level_call> const& runs) const {
    json list = json::array();
    for (auto const& run : runs) list.push_back(label(result_->cut, run));
    return list;
  }

  json stages_as_cut() const {
    json stages = json::array();
    for (auto const& runs : stages_of(result_->cut)) stages.push_back(labels(runs));
    return stages;
  }

  json stages() const {
    json stages = json::array();
    for (auto const& stage : result_->stages) stages.push_back(labels(stage.runs));
    return stages;
  }

  void check_better() {
    auto const& better = body_.value("better", json::object());
    compare(stages_as_cut(), stages(), "stages as cut", differences_);
    if (better.contains("stages")) compare(better["stages"], stages(), "better.stages", differences_);
    compare(json("equal"), json(whole_program()), "whole_program", differences_);
    compare(better.value("piped_program", json("equal")), json(piped_program(pytree_form::exact)),
            "piped_program", differences_);
    check_every_tie();
  }

  /// Checks that ties list every name: names of one storage are in one group, and other names are not.
  void check_every_tie() {
    auto const state = state_of_stages(result_->outer);
    auto const ties = ties_of(state, tie_scope::stages);
    for (auto const& a : state) {
      bool const tied = std::ranges::any_of(
          state, [&](auto const& b) { return a.storage == b.storage && a.stage != b.stage; });
      bool const listed = std::ranges::any_of(
          ties, [&](tie const& t) { return std::ranges::find(t.members, a) != t.members.end(); });
      if (tied != listed) differ("ties", a.name, listed ? "listed" : "not listed");
    }
  }

  void check_expected() {
    auto const& expect = body_["expect"];
    auto const table = liveness_of(result_->outer);
    json ours;
    ours["cut_levels"] = cut_levels();
    ours["stages"] = write_stages();
    ours["intended"] = stages_as_cut();
    if (auto const gone = dropped(); !gone.empty()) ours["dropped"] = gone;
    ours["as_intended"] = without(ours["intended"], dropped()) == stages();
    ours["ties_before"] = write_ties(ties_of(state_of(root_), tie_scope::names, tie_names::upstream));
    ours["ties_after"] =
        write_ties(ties_of(state_of_stages(result_->outer), tie_scope::stages, tie_names::upstream));
    ours["analysis"] = write_liveness(result_->outer, table);
    ours["whole_program"] = whole_program();
    ours["piped_program"] = piped_program(pytree_form::tuples);
    ours["wire"] = rows_;
    if (expect.contains("wire_with_gradients")) {
      ours["piped_with_gradients"] = piped_program(pytree_form::tuples, true);
      ours["wire_with_gradients"] = rows_;
    }
    json theirs = expect;
    tree_comparison trees(body_["input"]["modules"], differences_);
    trees.compare_graphs(normal_nodes(with_defaults(theirs["top"])), plain_nodes(result_->outer),
                         "expect.top", true);
    theirs.erase("top");
    for (std::size_t k = 0; k < theirs["stages"].size(); ++k) {
      if (k < result_->stages.size())
        trees.compare_trees(plain_tree(theirs["stages"][k]["tree"]),
                            write_tree(result_->graph(result_->stages[k])),
                            "expect.stages[" + std::to_string(k) + "].tree");
      theirs["stages"][k].erase("tree");
    }
    for (auto const* key : {"ties_before", "ties_after"}) theirs[key] = sorted_ties(theirs[key]);
    if (theirs.contains("wire_with_gradients"))
      for (json& row : theirs["wire_with_gradients"])
        if (row.contains("error")) row["error"] = stage_named_in(row["error"]["message"]);
    compare(theirs, ours, "expect", differences_);
  }

  json cut_levels() const {
    json paths = json::array();
    for (auto const& cut : cuts_)
      for (auto const& level : result_->cut.levels)
        for (auto const n : level.ends)
          if (joined_path(level.path, (*level.graph)[n].target) == cut &&
              std::ranges::find(paths, json(level.path)) == paths.end())
            paths.push_back(level.path);
    return paths;
  }

  json write_stages() const {
    json list = json::array();
    for (std::size_t k = 0; k < result_->stages.size(); ++k) {
      auto const& stage = result_->stages[k];
      json params = json::array();
      for (auto const& s : state_of(result_->graph(stage))) params.push_back(s.name);
      list.push_back({{"name", stage.path},
                      {"partition_idx", k},
                      {"runs", labels(stage.runs)},
                      {"params", std::move(params)}});
    }
    return list;
  }

  static json plain_nodes(module_graph const& g) {
    json list = normal_nodes(write_nodes(g));
    for (json& n : list) n.erase("from");
    return list;
  }

  static json write_tree(module_graph const& g) {
    json tree{{"graph", plain_nodes(g)}, {"children", json::object()}};
    for (auto const& a : g.attributes()) {
      if (a.what != module_attribute::kind::module) continue;
      bool const piece = a.original.empty();
      tree["children"][a.path] = piece ? write_tree(a.body.front()) : json{{"is", a.original}};
    }
    return tree;
  }

  static json plain_tree(json const& tree) {
    if (!tree.contains("graph")) return tree;
    json out{{"graph", normal_nodes(with_defaults(tree["graph"]))}, {"children", json::object()}};
    for (auto const& [name, child] : tree["children"].items()) out["children"][name] = plain_tree(child);
    return out;
  }

  /// Returns the entries of the stages as cut that the actual stages lack.
  json dropped() const {
    json done = json::array(), gone = json::array();
    for (json const& stage : stages()) done.insert(done.end(), stage.begin(), stage.end());
    for (json const& stage : stages_as_cut())
      for (json const& run : stage)
        if (std::ranges::find(done, run) == done.end()) gone.push_back(run);
    return gone;
  }

  static json without(json const& stages, json const& gone) {
    json left = json::array();
    for (json const& stage : stages) {
      json runs = json::array();
      for (json const& run : stage)
        if (std::ranges::find(gone, run) == gone.end()) runs.push_back(run);
      if (!runs.empty()) left.push_back(std::move(runs));
    }
    return left;
  }

  std::string whole_program() {
    model_interpretation meaning(body_["input"]["modules"]);
    auto const inputs = own_inputs(root_);
    return evaluate(root_, inputs, meaning) == evaluate(result_->outer, inputs, meaning) ? "equal"
                                                                                         : "different";
  }

  /// Runs the stages one after another, flattens the values sent between them, and fills `rows_`.
  std::string piped_program(pytree_form form, bool gradients = false) {
    model_interpretation meaning(body_["input"]["modules"]);
    auto const inputs = own_inputs(root_);
    auto const whole = evaluate(root_, inputs, meaning);
    auto const table = liveness_of(result_->outer);
    rows_ = json::array();
    for (std::size_t k = 0; k < table.stages.size(); ++k) {
      auto const& s = table.stages[k];
      rows_.push_back({{"stage", k},
                       {"name", result_->outer[s.call].target},
                       {"receives", names_of_values(table, s.receives)},
                       {"args", names_of_values(table, s.arguments)}});
      if (k + 1 < table.stages.size()) rows_.back()["sends"] = names_of_values(table, s.gives);
    }
    auto const channel = [&](std::size_t k, integer_value const& sent) {
      std::vector<module_argument> list;
      values tensors;
      for (auto const& v : *sent.items) list.push_back(testing::sent_value(v, tensors));
      auto const message = tree_flatten(list, form);
      rows_[k]["metadata"] = message.text;
      auto const back = tree_unflatten(message, form);
      values received;
      for (std::size_t at = 1; at < back.size();)
        received.push_back(testing::received_value(back, at, tensors));
      if (gradients) refuse_gradients(table, k + 1, received, meaning);
      return received;
    };
    try {
      return evaluate_stages(result_->outer, table, inputs, meaning, channel) == whole ? "equal"
                                                                                       : "different";
    } catch (stage_argument_error const& e) {
      rows_[index(e.witness.first)]["error"] =
          json{index(e.witness.first), e.witness.second,
               table.values[table.stages[index(e.witness.first)].arguments[e.witness.second]].name};
      return "error";
    }
  }

  static void refuse_gradients(liveness_table const& table, std::size_t k, values const& received,
                               model_interpretation const& meaning) {
    std::vector<argument_traits> arguments;
    auto const& stage = table.stages[k];
    for (auto const v : stage.arguments) {
      auto const at = static_cast<std::size_t>(std::ranges::find(stage.receives, v) - stage.receives.begin());
      arguments.push_back(
          {received[at].what == integer_value::kind::computed, meaning.needs_gradient(received[at])});
    }
    auto const s = stage_id{static_cast<std::uint32_t>(k)};
    if (auto const i = find_argument_beyond_first(arguments))
      throw stage_argument_error(s, *i, table.values[stage.arguments[*i]].name);
  }

  /// Parses `[submod_3] The 1-th argument submod_0 is not …` into stage, argument and name.
  static json stage_named_in(std::string const& message) {
    auto const stage = message.substr(message.find("submod_") + 7);
    auto const argument = message.substr(message.find("The ") + 4);
    auto const name = message.substr(message.find("argument ") + 9);
    return json{static_cast<std::uint32_t>(std::stoul(stage)), static_cast<std::size_t>(std::stoul(argument)),
                name.substr(0, name.find(' '))};
  }

  json const& body_;
  bool defect_;
  module_graph root_;
  std::vector<std::string> cuts_;
  std::optional<split_hierarchy_result> result_;
  std::optional<module_cut_fault> fault_;
  std::string message_;
  json rows_;
  std::vector<difference> differences_;
};

}  // namespace

outcome run_slapo(test_case const& c, json const& body) {
  if (!body["input"].contains("modules")) return run_slapo_part(c, body);
  return {hierarchy_case(c, body).run(), ""};
}

}  // namespace cleave::conformance
