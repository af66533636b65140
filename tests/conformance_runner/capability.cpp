// SPDX-License-Identifier: MIT
#include "cleave/partition/groups/capability.hpp"

#include <algorithm>
#include <exception>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cleave/graph/interpreter.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/partition/groups/alternation.hpp"
#include "cleave/partition/model/validity.hpp"
#include "cleave/split/modules/fuse_groups.hpp"
#include "cleave/split/modules/inline_pieces.hpp"
#include "conformance_runner/outcome.hpp"
#include "conformance_runner/write_value.hpp"
#include "support/integer_interpretation.hpp"

/// Compares the capability partitioner and the fusion of groups with their recordings. The area's README.md
/// lists what is compared. For every proposal of groups, `check_default` also checks the default proposal.
namespace cleave::conformance {

using namespace detail;
namespace {

using node_lists = std::vector<std::vector<position>>;

class capability_case {
 public:
  capability_case(test_case const& c, json const& body)
      : body_(body), g_(c.graph()), nodes_(g_), s_(snapshot_of(nodes_)) {}

  outcome run() {
    json const& input = body_["input"];
    if (input.contains("nodes"))
      compare(body_["expect"]["sorted"], names(sorted_group(g_, read_nodes(input["nodes"]))), "sorted",
              differences_);
    else if (input.contains("groups"))
      fuse_given();
    else
      propose();
    return {differences_, ""};
  }

 private:
  bool defect() const { return body_.contains("defect"); }

  void propose() {
    auto const supported = read_supported();
    auto o = read_options();
    if (!defect()) o.by = grouping::merge_walk;
    auto groups = capability_groups(s_, supported, o);
    check_default(supported, o);
    if (!defect()) compare(body_["expect"]["partitions"], write(groups), "partitions", differences_);

    auto const trivial = read_targets("non_compute_ops");
    if (std::ranges::find(trivial, 1) != trivial.end() || body_["expect"].contains("after_bookends"))
      groups = trim_trivial_ends<std::uint32_t>(s_, std::move(groups), trivial);
    if (body_["expect"].contains("after_bookends") && !defect())
      compare(body_["expect"]["after_bookends"], write(groups), "after_bookends", differences_);
    node_lists lists;
    for (auto const& group : groups) {
      if (group.nodes.empty()) continue;
      lists.emplace_back();
      for (auto const n : group.nodes) lists.back().push_back(s_.node[static_cast<std::uint32_t>(n)]);
    }
    fuse(lists, result_form::bare_if_single);
  }

  /// Checks that the default groups form no cycle. If values need not connect a group, there are no more
  /// groups than in the walk.
  void check_default(std::vector<char> const& supported, capability_options o) {
    o.least = 0;
    o.by = grouping::merge_walk;
    auto const walked = capability_groups(s_, supported, o);
    o.by = grouping::fewest;
    auto const ours = capability_groups(s_, supported, o);
    if (o.along == fusion::horizontal && ours.size() > walked.size())
      differ("the number of groups by default", "at most " + std::to_string(walked.size()),
             std::to_string(ours.size()));
    if (find_cycle_between_parts(s_, partition_of(ours, s_.nodes())))
      differ("the groups by default", "no cycle", "a cycle");
  }

  void fuse_given() {
    node_lists groups;
    for (json const& group : body_["input"]["groups"]) groups.push_back(read_nodes(group));
    check_alone(groups);
    auto const form =
        body_["input"].value("always_return_tuple", false) ? result_form::tuple : result_form::bare_if_single;
    if (body_.contains("error") && !defect())
      expect_refusal(groups, form);
    else
      fuse(groups, form);
  }

  /// Compares the groups that could each be fused alone without a cycle.
  void check_alone(node_lists const& groups) {
    json alone = json::array();
    for (auto const& group : groups) alone.push_back(!find_cycle_between_parts(s_, fused_parts(g_, {group})));
    json const& holder = body_.contains("expect") ? body_["expect"] : body_;
    if (holder.contains("valid_alone")) compare(holder["valid_alone"], alone, "valid_alone", differences_);
  }

  void expect_refusal(node_lists const& groups, result_form form) {
    auto const type = body_["error"]["type"].get<std::string>();
    auto const said = body_["error"]["message"].get<std::string>();
    if (type != "AssertionError") return differ("error", type, "an error of another kind");
    bool const overlap = said.ends_with("has been removed from owning graph");
    try {
      fuse_groups(g_, groups, {.results = form});
      differ("error", said, "a graph");
    } catch (fuse_error const& e) {
      if (overlap && !said.starts_with(g_[e.witness.front()].name + " ")) differ("error", said, e.what());
    } catch (partition_error const& e) {  // if both are wrong, either may be reported
      if (overlap || e.witness.empty()) differ("error", said, e.what());
    }
  }

  void fuse(node_lists const& groups, result_form form) {
    auto const fused = fuse_groups(g_, groups, {.results = form, .inputs = fused_inputs::graph_order_if_own});
    if (!defect()) compare(normal(body_["expect"]["fused"]), write(fused), "fused", differences_);
    check_value(fused);
    json const better = body_.value("better", json::object());
    for (auto const& [key, value] : better.items()) compare(value, json(true), key, differences_);
  }

  /// Checks that the original, fused and inlined graphs give the same value, and the recorded one if there is
  /// one.
  void check_value(fused_graph const& fused) {
    testing::integer_interpretation meaning;
    bool const recorded = body_.contains("eval");
    auto const inputs = recorded ? read_inputs(body_["eval"]) : own_inputs(g_);
    auto const expected = recorded ? body_["eval"]["result"] : write_value(evaluate(g_, inputs, meaning));
    compare(expected, write_value(evaluate(fused.outer, inputs, meaning)), "eval.result", differences_);
    std::vector<std::string> paths;
    for (auto const& piece : fused.pieces) paths.push_back(piece.path);
    auto const whole = inline_pieces(fused.outer, paths);
    compare(by_name(write_nodes(g_)), by_name(write_nodes(whole)), "inlined", differences_);
  }

  static json by_name(json const& list) {
    std::map<std::string, json> nodes;
    for (json const& n : list) nodes[n["name"]] = n;
    return json(nodes);
  }

  json write(std::vector<fusion_group> const& groups) const {
    json list = json::array();
    for (auto const& group : groups) {
      json nodes = json::array();
      for (auto const n : group.nodes) nodes.push_back(g_[s_.node[static_cast<std::uint32_t>(n)]].name);
      list.push_back({{"id", group.id}, {"nodes", nodes}});
    }
    return list;
  }

  /// Writes a graph of the result. `from` of a node names the original node that it stands for, if there is
  /// one.
  json write(module_graph const& made) const {
    json list = write_nodes(made);
    for (std::size_t n = 0; n < list.size(); ++n) {
      auto& j = list[n];
      j.erase("meta");
      if (j["op"] == "output") j.erase("target");
      if (auto const from = made[static_cast<position>(n)].from; from < g_.list().size())
        j["from"] = g_[from].name;
    }
    return list;
  }

  json write(fused_graph const& fused) const {
    json submodules = json::array();
    for (auto const& n : fused.outer.list())
      for (auto const& piece : fused.pieces) {
        if (n.kind != node_kind::call_module || n.target != piece.path) continue;
        auto const& made = fused.graph(piece);
        json children = json::array();
        for (auto const& a : made.attributes())
          if (a.what == module_attribute::kind::module)
            children.push_back({a.path, a.original.empty() ? a.path : a.original});
        std::sort(children.begin(), children.end());
        submodules.push_back({{"name", piece.path}, {"nodes", write(made)}, {"children", children}});
      }
    return {{"submodules", submodules}, {"graph", write(fused.outer)}};
  }

  static json normal(json fused) {
    fused["graph"] = normal_nodes(fused["graph"]);
    for (auto& piece : fused["submodules"]) {
      piece["nodes"] = normal_nodes(piece["nodes"]);
      std::sort(piece["children"].begin(), piece["children"].end());
    }
    return fused;
  }

  json names(std::vector<position> const& list) const {
    json out = json::array();
    for (auto const n : list) out.push_back(g_[n].name);
    return out;
  }

  std::vector<position> read_nodes(json const& list) const {
    std::vector<position> nodes;
    for (json const& name : list)
      for (position n = 0; n < g_.list().size(); ++n)
        if (name == g_[n].name) nodes.push_back(n);
    return nodes;
  }

  /// Returns a flag per node: it may be a member. These are calls and listed attributes.
  std::vector<char> read_supported() const {
    std::vector<char> supported(s_.nodes());
    for (auto const n : read_nodes(body_["input"]["supported"]))
      if (module_graph::is_call(g_[n]) || g_[n].kind == node_kind::get_attr) supported[s_.node.find(n)] = 1;
    return supported;
  }

  /// Returns a flag per node: it calls a function that the option `key` lists.
  std::vector<char> read_targets(char const* key) const {
    std::vector<char> listed(s_.nodes());
    json const& targets = body_["input"]["options"][key];
    for (std::size_t n = 0; n < s_.nodes(); ++n) {
      auto const& node = g_[s_.node[static_cast<std::uint32_t>(n)]];
      listed[n] = node.kind == node_kind::call_function &&
                  std::ranges::find(targets, json(node.target)) != targets.end();
    }
    return listed;
  }

  capability_options read_options() const {
    json const& given = body_["input"]["options"];
    auto const trivial = read_targets("non_compute_ops");
    auto const more = read_targets("allowed_single_node_partition_ops");
    capability_options o;
    o.along = given["skip_horizontal_fusion"].get<bool>() ? fusion::connected : fusion::horizontal;
    o.least = given["allows_single_node_partition"].get<bool>() ? 0 : 2;
    for (std::size_t n = 0; n < s_.nodes(); ++n) {
      auto const& node = g_[s_.node[static_cast<std::uint32_t>(n)]];
      bool const function = node.kind == node_kind::call_function;
      bool const works = function && node.target != "getitem" && node.target != "view" && !trivial[n];
      o.projection.push_back(function && node.target == "getitem");
      o.size.push_back((works ? 1 : 0) + (more[n] ? 1 : 0));
    }
    return o;
  }

  void differ(std::string what, std::string expected, std::string got) {
    differences_.push_back({std::move(what), std::move(expected), std::move(got)});
  }

  json const& body_;
  module_graph const& g_;
  module_node_graph nodes_;
  snapshot<module_node_graph, std::uint32_t> s_;
  std::vector<difference> differences_;
};

}  // namespace

outcome run_capability(test_case const& c, json const& body) { return capability_case(c, body).run(); }

}  // namespace cleave::conformance
