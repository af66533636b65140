// SPDX-License-Identifier: MIT
#include "cleave/split/modules/split_by_tags.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/graph/interpreter.hpp"
#include "conformance_runner/outcome.hpp"
#include "conformance_runner/write_split.hpp"
#include "conformance_runner/write_value.hpp"
#include "support/integer_interpretation.hpp"

/// Compares split_by_tags with its recordings. The area's README.md lists what is compared.
namespace cleave::conformance {

using namespace detail;
namespace {

struct tag_refusal {
  std::string message, tag;  ///< `tag` is the tag in the witness
  std::optional<position> node;
  std::optional<std::string> needs;  ///< the tag that is listed too late
};

/// Returns the original's paths with their piece. For a path in several pieces it is the last one.
json write_paths(split_module_result const& r) {
  std::vector<std::pair<std::string, std::string>> paths;
  for (auto const& [path, old] : r.qualified_names) {
    auto known = std::ranges::find(paths, old, &std::pair<std::string, std::string>::first);
    if (known == paths.end()) known = paths.insert(paths.end(), {old, {}});
    known->second = path;
  }
  json list = json::array();
  for (auto const& [old, path] : paths) list.push_back({old, path});
  return list;
}

json write_result(module_graph const& g, split_module_result const& r) {
  json out;
  out["submodules"] = json::array();
  for (auto const i : r.order) {
    auto const& piece = r.pieces[i];
    out["submodules"].push_back({{"name", piece.path},
                                 {"nodes", write_piece(g, r.graph(piece))},
                                 {"children", write_children(r.graph(piece))}});
  }
  out["main"] = write_piece(g, r.outer);
  for (auto& n : out["main"])
    if (n["op"] == "get_attr") n.erase("from");  // the recording's has no metadata at all
  out["main_children"] = write_outer_children(r.outer);
  out["fqn_mapping"] = write_paths(r);
  return out;
}

class tags_case {
 public:
  tags_case(test_case const& c, json const& body) : body_(body), g_(c.graph()) {}

  std::vector<difference> run() {
    split();
    if (body_.contains("defect"))
      check_better();
    else if (body_.contains("error"))
      check_error();
    else if (has_result())
      check_expected();
    return std::move(differences_);
  }

 private:
  std::optional<std::string> tag_of(std::string const& name) const {
    auto const tag = body_["input"]["tag"].find(name);
    return tag == body_["input"]["tag"].end() ? std::nullopt : std::optional(tag->get<std::string>());
  }

  void split() {
    auto const& input = body_["input"];
    try {
      result_ = split_by_tags(
          g_, [&](module_node const& n) { return tag_of(n.name); },
          input["tags"].get<std::vector<std::string>>(),
          input["return_tuple"].get<bool>() ? result_form::tuple : result_form::bare_if_single);
    } catch (tag_order_error const& e) {
      auto const [producer, consumer] = e.witness;
      refusal_ = {e.what(), *tag_of(g_[consumer].name), consumer, tag_of(g_[producer].name)};
    } catch (unassigned_node_error const& e) {
      refusal_ = {e.what(), "", e.witness, {}};
    } catch (tag_error const& e) {
      refusal_ = {e.what(), e.witness, {}, {}};
    }
  }

  void differ(std::string what, std::string expected, std::string got) {
    differences_.push_back({std::move(what), std::move(expected), std::move(got)});
  }

  bool has_result() {
    if (!result_) differ("result", "a split", "refused: " + refusal_.message);
    return result_.has_value();
  }

  void check_expected() {
    compare(normal_result(body_["expect"], "main"), write_result(g_, *result_), "expect", differences_);
    check_value();
  }

  /// Checks that the whole and the split graph give the same value, and the recorded one if there is one.
  void check_value() {
    testing::integer_interpretation meaning;
    bool const recorded = body_.contains("eval");
    auto const inputs = recorded ? read_inputs(body_["eval"]) : own_inputs(g_);
    auto const expected = recorded ? body_["eval"]["result"] : write_value(evaluate(g_, inputs, meaning));
    compare(expected, write_value(evaluate(result_->outer, inputs, meaning)), "eval.result", differences_);
  }

  /// Checks the names in a recorded message: the tag of the node, its position in the list and the latest
  /// position that it depends on, or else the node.
  void check_error() {
    auto const type = body_["error"]["type"].get<std::string>();
    auto const said = body_["error"]["message"].get<std::string>();
    if (result_ || type != "AssertionError")
      return differ("error", type + ": " + said, result_ ? "a split" : refusal_.message);
    if (said.starts_with("Node does not have tag")) {
      if (!refusal_.node || said.find("%" + g_[*refusal_.node].name + " ") == said.npos)
        differ("witness", said, refusal_.message);
      return;
    }
    auto const tags = body_["input"]["tags"].get<std::vector<std::string>>();
    auto const place = [&](std::string const& tag) { return std::ranges::find(tags, tag) - tags.begin(); };
    auto const latest = refusal_.node ? latest_need(*refusal_.node, place) : 0;
    auto const ours =
        "Component " + refusal_.tag +
        " order must be >= max of its upstream components, order=" + std::to_string(place(refusal_.tag)) +
        " and max=" + std::to_string(latest);
    if (said != ours) differ("witness", said, ours + ": " + refusal_.message);
    if (!refusal_.needs || place(*refusal_.needs) <= place(refusal_.tag))
      differ("witness", "a tag that is listed later", refusal_.message);
  }

  std::ptrdiff_t latest_need(position n, auto place) const {
    std::ptrdiff_t latest = 0;
    for (auto const v : g_.operands(n))
      if (module_graph::is_call(g_[v])) latest = std::max(latest, place(*tag_of(g_[v].name)));
    return latest;
  }

  void check_better() {
    auto const better = body_.value("better", json::object());
    if (better.empty()) differ("better", "what is right", "nothing");
    for (auto const& [key, value] : better.items()) {
      if (key == "error") {
        if (value != "typed" || result_ || body_["error"]["message"] != "'" + refusal_.tag + "'")
          differ("better.error", value.dump(), result_ ? "a split" : refusal_.message);
      } else if (has_result()) {
        check_value();
        json got = json::object();
        if (key == "main_placeholder_targets") got = json::array();
        for (auto const n : result_->outer.inputs()) {
          auto const& placeholder = result_->outer[n];
          if (key == "main_placeholder_targets")
            got.push_back(placeholder.target);
          else if (key == "main_placeholder_defaults" && placeholder.default_value)
            got[placeholder.target] = write_argument(result_->outer, *placeholder.default_value);
        }
        compare(value, got, "better." + key, differences_);
      }
    }
  }

  json const& body_;
  module_graph const& g_;
  std::optional<split_module_result> result_;
  tag_refusal refusal_;
  std::vector<difference> differences_;
};

}  // namespace

outcome run_split_by_tags(test_case const& c, json const& body) { return {tags_case(c, body).run(), ""}; }

}  // namespace cleave::conformance
