// SPDX-License-Identifier: MIT
#include "cleave/split/split_module.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/graph/interpreter.hpp"
#include "conformance_runner/outcome.hpp"
#include "conformance_runner/write_value.hpp"
#include "support/integer_interpretation.hpp"

/// split_module against its recordings: README.md of that area says what is compared.
namespace cleave::conformance {
namespace {

/// Python's str() of an id.
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
  o.stages = keep_order ? order::program : order::upstream;
  o.first = keep_order ? appearance::required : appearance::preferred;
  o.attributes = keep_order ? attribute_place::first_use : attribute_place::front;
  if (on("keep_original_node_name", false)) o.pieces.nodes = node_naming::original;
  if (!on("keep_original_input_name", true)) o.pieces.inputs = input_naming::numbered;
  if (on("tuple_return", false)) o.pieces.results = result_form::tuple;
  if (auto const affix = options.find("partition_affix"); affix != options.end() && affix->is_string())
    o.affix = *affix;
  return o;
}

/// The graph of the case, with the ordering edges that the runner hands over.
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

/// A graph of the split: what each node stands for is said where the original has it.
json write_piece(module_graph const& whole, module_graph const& piece) {
  json list = write_nodes(piece);
  for (std::size_t n = 0; n < list.size(); ++n) {
    auto& j = list[n];
    j.erase("meta");
    if (j["op"] == "output") j.erase("target");
    if (auto const from = piece[static_cast<position>(n)].from; from < whole.list().size())
      j["from"] = whole[from].name;
  }
  return list;
}

json sorted(json list) {
  std::sort(list.begin(), list.end());
  return list;
}

json write_children(module_graph const& piece) {
  json children = json::array();
  for (auto const& a : piece.attributes())
    children.push_back({a.path, a.original.empty() ? a.path : a.original});
  return sorted(children);
}

/// The first parts of the outer graph's paths, each once; a tensor counts only below a container.
json write_outer_children(module_graph const& outer) {
  json children = json::array();
  for (auto const& a : outer.attributes()) {
    auto const dot = a.path.find('.');
    json const first = a.path.substr(0, dot);
    if (a.what != module_attribute::kind::module && dot == a.path.npos) continue;
    if (std::ranges::find(children, first) == children.end()) children.push_back(first);
  }
  return children;
}

json write_result(module_graph const& g, split_module_result const& r,
                  std::vector<std::string> const& asked) {
  auto const labels = [&](std::vector<std::uint32_t> const& list) {
    json text = json::array();
    for (auto const i : list) text.push_back(r.submodules[i].label);
    return text;
  };
  json out;
  out["partitions"] = out["order"] = out["submodules"] = json::array();
  for (auto const& piece : r.submodules) {
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
    auto const& piece = r.submodules[i];
    out["order"].push_back(piece.path);
    out["submodules"].push_back({{"name", piece.path},
                                 {"nodes", write_piece(g, *piece.graph)},
                                 {"children", write_children(*piece.graph)}});
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

/// The recorded result in the form of ours.
json normal_result(json expect) {
  for (auto& s : expect["submodules"]) {
    s["nodes"] = normal_nodes(s["nodes"]);
    s["children"] = sorted(s["children"]);
  }
  expect["base"] = normal_nodes(expect["base"]);
  return expect;
}

bool has_global_state(module_graph const& g) {
  return std::ranges::any_of(g.list(), [](module_node const& n) {
    return n.target == "_enter_autocast" || n.target == "_exit_autocast" || n.target == "_set_grad_enabled";
  });
}

bool has_symbols(module_graph const& g) {
  return std::ranges::any_of(g.list(),
                             [](module_node const& n) { return !n.symbols.empty() || !n.binds.empty(); });
}

/// One case: the graph, what it was split into or why not, and what differs.
class split_case {
 public:
  split_case(test_case const& c, json const& body)
      : body_(body), better_(body.value("better", json::object())), g_(c.graph()) {
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
    auto const& input = body_["input"];
    auto const part_of = [&](module_node const& n) -> std::optional<std::string> {
      asked_.push_back(n.name);
      auto const id = input["assign"].find(n.name);
      if (id == input["assign"].end()) return std::nullopt;
      return id_text(*id);
    };
    try {
      result_ = split_module(g_, part_of, read_options(input["options"]));
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
    } catch (missing_target_error const& e) {
      refusal_ = "target";
      message_ = e.what();
      nodes_ = {e.witness};
    }
    for (auto const at : calls_) nodes_.push_back(g_.nodes()[at]);
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
    compare(normal_result(body_["expect"]), write_result(g_, *result_, asked_), "expect", differences_);
    check_value();
  }

  /// Whole and split give the same, the recorded value where there is one.
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
    } else {
      differ("error", type + ": " + said, result_ ? "a split" : message_);
    }
  }

  void check_better() {
    for (auto const& [key, value] : better_.items()) {
      if (key == "evaluates_to_original") {
        if (value != true) differ(key, value.dump(), "true");
        if (has_result()) check_value();
      } else if (key == "error") {
        if (value == "order")
          check_order_refusal();
        else
          differ("better.error", value.dump(), refusal_);
      } else if (key == "order") {
        if (has_result()) check_order(value);
      } else if (key == "missing_modules") {
        if (has_result())
          for (json const& path : value)
            if (!holds(path)) differ(key, path.dump(), "no piece has it");
      } else if (key == "base_placeholder_targets") {
        if (has_result()) {
          json targets = json::array();
          for (auto const n : result_->outer.inputs()) targets.push_back(result_->outer[n].target);
          compare(value, targets, key, differences_);
          check_value();
        }
      } else if (key != "backward_edges" && key != "order_edges") {
        differ("better." + key, "a comparison", "none");
      }
    }
    if (better_.empty()) differ("better", "what is right", "nothing");
  }

  void check_order_refusal() {
    expect_refusal("order");
    if (!differences_.empty()) return;
    json const edge{label(nodes_[0]), label(nodes_[1])};
    auto const& edges = better_["backward_edges"];
    if (std::ranges::find(edges, edge) == edges.end()) differ("witness", edges.dump(), edge.dump());
  }

  void check_order(json const& expected) {
    json order = json::array();
    for (auto const i : result_->order) order.push_back(result_->submodules[i].path);
    compare(expected, order, "order", differences_);
    check_value();
  }

  bool holds(json const& path) const {
    for (auto const& piece : result_->submodules)
      for (auto const& a : piece.graph->attributes())
        if (path == a.original) return true;
    return false;
  }

  json const& body_;
  json better_;
  module_graph g_;
  std::vector<std::string> asked_;
  std::optional<split_module_result> result_;
  std::string refusal_, message_;
  std::vector<std::size_t> calls_;
  std::vector<position> nodes_;
  std::vector<difference> differences_;
};

}  // namespace

outcome run_split_module(test_case const& c, json const& body) {
  if (c.file.ends_with("/simple.json")) return {{}, "split_module_simple"};
  if (c.file.ends_with("/decompose_size.json")) return {{}, "decomposition of sizes"};
  if (has_global_state(c.graph())) return {{}, "scopes of global state"};
  if (has_symbols(c.graph())) return {{}, "symbolic sizes"};
  return {split_case(c, body).run(), ""};
}

}  // namespace cleave::conformance
