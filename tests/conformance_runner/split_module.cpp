// SPDX-License-Identifier: MIT
#include "cleave/split/modules/split_module.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/graph/interpreter.hpp"
#include "conformance_runner/fields.hpp"
#include "conformance_runner/outcome.hpp"
#include "conformance_runner/write_split.hpp"
#include "conformance_runner/write_value.hpp"
#include "support/integer_interpretation.hpp"
#include "support/state_simulation.hpp"

/// Compares split_module with its recordings. The area's README.md lists what is compared.
namespace cleave::conformance {

using namespace detail;
namespace {

/// Returns Python's str() of an id.
std::string id_text(json const& id) {
  if (id.is_string()) return id.get<std::string>();
  if (id.is_null()) return "None";
  if (id.is_boolean()) return id.get<bool>() ? "True" : "False";
  return id.dump();
}

split_module_options read_options(json const& options) {
  auto const on = [&](char const* key, bool otherwise) { return options.value(key, otherwise); };
  split_module_options o;
  bool const keep_order = on("keep_original_order", false);
  o.first = keep_order ? appearance::required : appearance::preferred;
  o.attributes = keep_order ? attribute_place::first_use : attribute_place::front;
  if (on("keep_original_node_name", false)) o.pieces.nodes = node_naming::original;
  if (!on("keep_original_input_name", true)) o.pieces.inputs = input_naming::numbered;
  if (on("tuple_return", false)) o.pieces.results = result_form::tuple;
  if (auto const affix = options.find("partition_affix"); affix != options.end() && affix->is_string())
    o.affix = *affix;
  return o;
}

/// Returns the options with the recorded system's policies where they differ from the library's.
split_module_options upstream(split_module_options o) {
  if (o.first == appearance::preferred) o.stages = order::upstream;
  o.openings = opening_place::before_inputs;
  o.asked = asking::repeated;
  o.numbers = part_numbers::ascending;
  o.settings = late_settings::accepted;
  return o;
}

/// Returns the graph of the case, with the ordering edges that the runner adds.
module_graph with_order_edges(module_graph const& g, json const& edges) {
  module_graph copy;
  for (auto n : g.list()) {
    for (json const& edge : edges)
      if (edge[1] == n.name)
        for (position m = 0; m < copy.list().size(); ++m)
          if (edge[0] == copy[m].name) n.after.push_back(m);
    copy.add(std::move(n));
  }
  for (auto const& a : g.attributes()) copy.add_attribute(a);
  return copy;
}

json names_of(module_graph const& g, std::vector<position> const& list) {
  json names = json::array();
  for (auto const n : list) names.push_back(g[n].name);
  return names;
}

json write_result(module_graph const& g, split_module_result const& r,
                  std::vector<std::string> const& asked) {
  auto const labels = [&](std::vector<std::uint32_t> const& list) {
    json text = json::array();
    for (auto const i : list) text.push_back(r.pieces[i].label);
    return text;
  };
  json out;
  out["partitions"] = out["order"] = out["submodules"] = json::array();
  for (auto const& piece : r.pieces) {
    json p{{"id", piece.label},
           {"submodule", piece.path},
           {"nodes", names_of(g, piece.nodes)},
           {"inputs", names_of(g, piece.inputs)},
           {"outputs", names_of(g, piece.outputs)},
           {"dependencies", labels(piece.dependencies)},
           {"dependents", labels(piece.dependents)}};
    if (!piece.own_attributes.empty()) p["own_attributes"] = names_of(g, piece.own_attributes);
    out["partitions"].push_back(std::move(p));
  }
  for (auto const i : r.order) {
    auto const& piece = r.pieces[i];
    out["order"].push_back(piece.path);
    out["submodules"].push_back({{"name", piece.path},
                                 {"nodes", write_piece(g, r.graph(piece))},
                                 {"children", write_children(r.graph(piece))}});
  }
  out["base"] = write_piece(g, r.outer);
  out["base_children"] = write_outer_children(r.outer);
  out["qualname_map"] = json::array();
  for (auto const& [path, old] : r.qualified_names) out["qualname_map"].push_back({path, old});
  out["callback_calls"] = asked.size();
  std::vector<std::string> once;
  for (auto const n : g.nodes()) once.push_back(g[n].name);
  if (asked != once) out["callback_sequence"] = asked;
  return out;
}

/// Returns true for cases of `split_module_simple`, which has no options for order and names.
bool is_simple(fields const& c) {
  if (c.expects("partitions") || c.expects("callback_calls")) return false;
  if (!c.in("options")) return c.expects("submodules");
  auto const& options = c.input()["options"];
  for (auto const* key :
       {"keep_original_order", "keep_original_node_name", "keep_original_input_name", "tuple_return"})
    if (options.contains(key)) return false;
  return true;
}

/// One case: the graph, the split or the reason for refusing it, and the differences.
class split_case {
 public:
  split_case(test_case const& c, json const& body)
      : simple_(is_simple(fields(c.body))),
        body_(body),
        better_(body.value("better", json::object())),
        g_(c.graph()) {
    if (better_.contains("order_edges")) g_ = with_order_edges(g_, better_["order_edges"]);
  }

  std::vector<difference> run() {
    split();
    if (body_.contains("defect"))
      check_better();
    else if (body_.contains("error"))
      check_error();
    else
      check_expected();
    return std::move(differences_);
  }

 private:
  void split() {
    auto const& assign = body_["input"]["assign"];
    auto const ask = [&](module_node const& n) {
      asked_.push_back(n.name);
      auto const id = assign.find(n.name);
      return id == assign.end() ? nullptr : &*id;
    };
    auto const text = [&](module_node const& n) {
      json const* id = ask(n);
      return id ? std::optional(id_text(*id)) : std::nullopt;
    };
    auto const number = [&](module_node const& n) {
      json const* id = ask(n);
      return id ? std::optional(id->get<std::int64_t>()) : std::nullopt;
    };
    bool const numbers = std::ranges::all_of(assign, [](json const& id) { return id.is_number_integer(); });
    try {
      numbers ? split(number) : split(text);
    } catch (partition_error const& e) {
      refusal_ = "cycle";
      message_ = e.what();
      calls_ = e.witness;
    } catch (stage_order_error const& e) {
      refusal_ = "order";
      message_ = e.what();
      nodes_ = {e.witness.first, e.witness.second};
    } catch (unassigned_node_error const& e) {
      refusal_ = "unassigned";
      message_ = e.what();
      nodes_ = {e.witness};
    } catch (unbound_symbol_error const& e) {
      refusal_ = "unbound symbol";
      message_ = e.what();
      symbol_ = e.symbol;
    } catch (missing_target_error const& e) {
      refusal_ = "target";
      message_ = e.what();
      nodes_ = {e.witness};
    } catch (part_number_error const& e) {
      refuse("part number", e);
    } catch (mark_operand_error const& e) {
      refuse("mark operands", e);
    } catch (unpaired_scope_error const& e) {
      refuse(e.witness.what == unpaired_scope::kind::never_left ? "never left" : "not entered", e);
    }
    for (auto const at : calls_) nodes_.push_back(g_.nodes()[at]);
  }

  template <class F>
  void split(F part_of) {
    auto options = read_options(body_["input"]["options"]);
    if (simple_) {
      result_ = split_module_simple(g_, part_of, options.affix);
      return;
    }
    if (!body_.contains("defect") || better_.contains("expect")) options = upstream(options);
    result_ = split_module(g_, part_of, options);
  }

  void refuse(std::string kind, error const& e) {
    refusal_ = std::move(kind);
    message_ = e.what();
  }

  void differ(std::string what, std::string expected, std::string got) {
    differences_.push_back({std::move(what), std::move(expected), std::move(got)});
  }

  bool has_result() {
    if (!result_) differ("result", "a split", "refused: " + message_);
    return result_.has_value();
  }

  void check_expected() {
    if (!has_result()) return;
    compare_result(body_["expect"], "expect");
    check_value();
  }

  /// Compares everything in the recording. Recordings of split_module_simple only have the graphs and their
  /// order.
  void compare_result(json const& expect, std::string const& what) {
    json ours = write_result(g_, *result_, asked_);
    if (simple_)
      for (auto const* key : {"partitions", "qualname_map", "callback_calls", "callback_sequence"})
        ours.erase(key);
    compare(normal_result(expect, "base"), ours, what, differences_);
  }

  /// Checks that the whole and the split graph give the same value, and the recorded one if there is one.
  void check_value() {
    testing::integer_interpretation meaning;
    bool const recorded = body_.contains("eval");
    auto const inputs = recorded ? read_inputs(body_["eval"]) : own_inputs(g_);
    auto const expected = recorded ? body_["eval"]["result"] : write_value(evaluate(g_, inputs, meaning));
    compare(expected, write_value(evaluate(result_->outer, inputs, meaning)), "eval.result", differences_);
  }

  void expect_refusal(std::string const& kind) {
    if (result_)
      differ("error", kind, "a split");
    else if (refusal_ != kind)
      differ("error", kind, message_);
  }

  std::string label(position n) const { return id_text(body_["input"]["assign"][g_[n].name]); }

  void check_error() {
    auto const type = body_["error"]["type"].get<std::string>();
    auto const said = body_["error"]["message"].get<std::string>();
    if (type == "RuntimeError" && said.starts_with("cycle exists")) {
      expect_refusal("cycle");
      if (!differences_.empty()) return;
      json edges = json::array();
      for (std::size_t i = 0; i + 1 < nodes_.size(); i += 2)
        edges.push_back({label(nodes_[i]), label(nodes_[i + 1])});
      auto const given = body_.value("partition_edges", json::array());
      for (std::size_t i = 0; i < edges.size(); ++i) {
        if (edges[i][1] != edges[(i + 1) % edges.size()][0])
          differ("witness", "a cycle of parts", edges.dump());
        if (std::ranges::find(given, edges[i]) == given.end())
          differ("witness", given.dump(), edges[i].dump());
      }
      if (edges.empty()) differ("witness", "a cycle of parts", "nothing");
    } else if (type == "precondition") {
      expect_refusal("unassigned");
      if (differences_.empty() && said.find("'" + g_[nodes_[0]].name + "'") == said.npos)
        differ("witness", said, message_);
    } else if (type == "AttributeError") {
      expect_refusal("target");
    } else if (type == "TypeError" && said.starts_with("'>' not supported")) {
      expect_refusal("part number");
    } else if (type == "AssertionError") {
      check_assertion(said);
    } else {
      differ("error", type + ": " + said, result_ ? "a split" : message_);
    }
  }

  /// Checks a refusal of scopes: its kind, and that it has the names in the recorded message.
  void check_assertion(std::string const& said) {
    expect_refusal(said.find("monotonically increasing") != said.npos ? "part number"
                   : said == "autocast must exit"                     ? "never left"
                                                                      : "mark operands");
    std::vector<std::string> named;
    for (auto const* before : {"highest: ", "this node's: ", "arg for ", ", got "}) {
      auto const at = said.find(before);
      if (at == said.npos || said.find("Expected bool") == 0) continue;
      auto const begin = at + std::string(before).size();
      named.push_back(said.substr(begin, said.find(',', begin) - begin));
    }
    for (auto const& name : named)
      if (message_.find(name) == message_.npos) differ("error names " + name, said, message_);
  }

  void check_better() {
    for (auto const& [key, value] : better_.items()) {
      if (key == "error")
        check_refusal(value);
      else if (key == "symbol")
        compare(value, json(symbol_), key, differences_);
      else if (key != "backward_edges" && key != "order_edges" && has_result())
        check_better(key, value);
    }
    if (better_.empty()) differ("better", "what is right", "nothing");
  }

  /// Checks one property of a correct result.
  void check_better(std::string const& key, json const& value) {
    check_value();
    if (key == "expect") {
      compare_result(value, "better.expect");
    } else if (key == "evaluates_to_original" || key == "succeeds") {
      compare(value, json(true), key, differences_);
    } else if (key == "order") {
      json order = json::array();
      for (auto const i : result_->order) order.push_back(result_->pieces[i].path);
      compare(value, order, key, differences_);
    } else if (key == "clone_kwargs") {
      check_kwargs_of_copies(value);
    } else if (key == "as" && value == "split_module") {
      auto const other =
          split_module(g_, [&](module_node const& n) { return id_text(body_["input"]["assign"][n.name]); });
      compare(write_result(g_, other, {}), write_result(g_, *result_, {}), key, differences_);
    } else if (key == "wrong_state" || key == "final_grad") {
      check_state();
    } else if (key == "missing_modules") {
      for (json const& path : value)
        if (!holds(path)) differ(key, path.dump(), "no piece has it");
    } else if (key == "base_placeholder_targets") {
      json targets = json::array();
      for (auto const n : result_->outer.inputs()) targets.push_back(result_->outer[n].target);
      compare(value, targets, key, differences_);
    } else if (key == "base_placeholder_defaults") {
      json defaults = json::object();
      for (auto const n : result_->outer.inputs())
        if (auto const& d = result_->outer[n].default_value)
          defaults[result_->outer[n].target] = write_argument(result_->outer, *d);
      compare(value, defaults, key, differences_);
    } else if (key == "children_as" && value == "split_module") {
      auto const other =
          split_module(g_, [&](module_node const& n) { return id_text(body_["input"]["assign"][n.name]); });
      for (std::size_t i = 0; i < other.pieces.size(); ++i)
        compare(write_children(other.graph(other.pieces[i])),
                write_children(result_->graph(result_->pieces[i])), key, differences_);
    } else {
      differ("better." + key, value.dump(), "no comparison of that name");
    }
  }

  /// Checks that the refusal is correct. If it is about an order, it must name a backward edge, alone or as
  /// part of a cycle.
  void check_refusal(json const& kind) {
    if (kind == "typed") {
      expect_refusal("not entered");
      if (differences_.empty() && message_.find("_exit_autocast_1") == message_.npos)
        differ("error names", "_exit_autocast_1", message_);
    } else if (kind == "order") {
      json edges = json::array();
      for (std::size_t i = 0; i + 1 < nodes_.size(); i += 2)
        edges.push_back({label(nodes_[i]), label(nodes_[i + 1])});
      auto const& backward = better_["backward_edges"];
      if (result_ || (refusal_ != "order" && refusal_ != "cycle"))
        differ("better.error", "order", result_ ? "a split" : message_);
      else if (std::ranges::none_of(
                   edges, [&](auto const& e) { return std::ranges::find(backward, e) != backward.end(); }))
        differ("witness", backward.dump(), edges.dump());
    } else if (kind == "unbound symbol") {
      expect_refusal("unbound symbol");
    } else if (kind == "unsupported attribute") {
      if (has_result()) check_value();  // attributes are passed, as in split_module
    } else {
      differ("better.error", kind.dump(), result_ ? "a split" : message_);
    }
  }

  /// Checks that each call, and the end of the program, see the same state as in the original.
  void check_state() {
    using enum testing::numbered;
    testing::state_simulation const whole(g_, as_original), split(result_->outer, by_from);
    for (auto const& [n, state] : whole.at)
      if (auto const there = split.at.find(n); there == split.at.end() || !(there->second == state))
        differ("state", g_[n].name + " under its own", "another");
    if (!(whole.left == split.left)) differ("state", "left as the original leaves it", "another");
    for (auto const& name : split.faults) differ("state", "an exit of what is open", name);
  }

  void check_kwargs_of_copies(json const& expected) {
    std::size_t copies = 0;
    for (auto const& piece : result_->pieces)
      for (auto const& n : result_->graph(piece).list())
        if (n.target == "_enter_autocast") {
          json kwargs = json::object();
          for (auto const& k : n.kwargs) kwargs[k.key] = write_argument(result_->graph(piece), k.value);
          compare(expected, kwargs, "clone_kwargs", differences_);
          ++copies;
        }
    if (copies != result_->pieces.size()) differ("clone_kwargs", "a copy a piece", std::to_string(copies));
  }

  bool holds(json const& path) const {
    for (auto const& piece : result_->pieces)
      for (auto const& a : result_->graph(piece).attributes())
        if (path == a.original) return true;
    return false;
  }

  bool simple_;
  json const& body_;
  json better_;
  module_graph g_;
  std::vector<std::string> asked_;
  std::optional<split_module_result> result_;
  std::string refusal_, message_, symbol_;
  std::vector<std::size_t> calls_;
  std::vector<position> nodes_;
  std::vector<difference> differences_;
};

}  // namespace

outcome run_decompose_sizes(test_case const& c, json const& body);

outcome run_split_module(test_case const& c, json const& body) {
  if (!body["input"].contains("assign")) return run_decompose_sizes(c, body);
  return {split_case(c, body).run(), ""};
}

}  // namespace cleave::conformance
