// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cleave/graph/interpreter.hpp"
#include "cleave/graph/result_structure.hpp"
#include "cleave/pipe/module_pipe.hpp"
#include "cleave/pipe/pipe_check.hpp"
#include "conformance_runner/outcome.hpp"
#include "conformance_runner/pipe_split_state.hpp"
#include "support/integer_interpretation.hpp"

/// Compares the cut of a traced program into a pipe with the recordings split.json and split_random.json. The
/// state of stages is compared in pipe_split_state.cpp.
namespace cleave::conformance {

using namespace detail;
namespace {

/// Returns the name of a position of the snapshot.
template <class Handles>
json names_of(module_graph const& g, std::vector<std::uint32_t> const& list, Handles const& of) {
  json names = json::array();
  for (auto const i : list) names.push_back(g[of[i]].name);
  return names;
}

json write_number(stage_id i) { return index(i); }

/// Writes one stage of a pipe in the form of `stages`, without its state.
class stage_writer {
 public:
  stage_writer(module_graph const& g, module_pipe const& p, stage_id i)
      : g_(g), s_(p.program.s), p_(p), i_(i), stage_(p.plan.plan.stages[index(i)]) {}

  json write() const {
    return {{"position", index(i_)},
            {"name", p_.paths[index(i_)]},
            {"part", p_.plan.number[index(i_)]},
            {"nodes", names_of(g_, stage_.nodes, s_.node)},
            {"inputs_before_sinking", mixed_inputs()},
            {"inputs", names_of(g_, stage_.inputs, s_.value)},
            {"state_reads", state_reads()},
            {"call_args", call_arguments()},
            {"outputs", names_of(g_, stage_.outputs, s_.value)},
            {"output_kind", output_kind()}};
  }

  json state_reads() const {
    json paths = json::array();
    for (auto const v : stage_.state) paths.push_back(g_[s_.value[v]].target);
    return paths;
  }

 private:
  /// Returns inputs and state together, ordered by first use.
  json mixed_inputs() const {
    std::set<std::uint32_t> given(stage_.inputs.begin(), stage_.inputs.end());
    given.insert(stage_.state.begin(), stage_.state.end());
    json names = json::array();
    for (auto const n : stage_.nodes)
      for (auto const v : s_.operands[n])
        if (given.erase(v) > 0) names.push_back(g_[s_.value[v]].name);
    return names;
  }

  module_node const& call() const {
    for (auto const n : p_.outer.nodes())
      if (p_.outer[n].target == p_.paths[index(i_)]) return p_.outer[n];
    throw layout_error("stage " + p_.paths[index(i_)] + " is not called");
  }

  json call_arguments() const {
    json list = json::array();
    for (auto const& a : call().args) list.push_back(write_argument(p_.outer, a));
    return list;
  }

  /// Returns the kind of output that the stage's graph returns.
  std::string output_kind() const {
    auto const& graph = p_.stage(i_);
    auto const& returned = graph[*graph.output()].args.front();
    auto const* c = std::get_if<container>(&returned.front());
    return !c ? "single" : c->size == 0 ? "none" : "tuple";
  }

  module_graph const& g_;
  snapshot<module_call_graph> const& s_;
  module_pipe const& p_;
  stage_id i_;
  basic_stage<std::uint32_t> const& stage_;
};

json write_edges(module_graph const& g, module_pipe const& p) {
  json list = json::array();
  for (auto const& e : p.plan.edges) {
    json to = json::array();
    for (stage_id const i : e.to)
      if (i != the_caller) to.push_back(write_number(i));
    list.push_back({{"value", g[p.program.s.value[e.value]].name},
                    {"from", e.from == the_caller ? json("input") : write_number(e.from)},
                    {"to", to},
                    {"graph_output", is_returned(e.to)},
                    {"skips_stages", skips_stages(e)}});
  }
  return list;
}

/// Returns the stage with index i, or the reason why it does not exist.
json write_lookup(module_pipe const& p, std::int64_t i) {
  if (i >= 0 && i < static_cast<std::int64_t>(p.paths.size())) return p.paths[static_cast<std::size_t>(i)];
  return {{"error", {{"type", "ValueError"}, {"message", "Invalid stage index " + std::to_string(i) + "!"}}}};
}

json without_metadata(json nodes) {
  for (auto& n : nodes) n.erase("meta");
  return nodes;
}

/// Returns the recorded form of a structure: `*` for each value.
json write_structure(module_graph const& g, module_argument const& a) {
  json j = write_argument(g, a);
  auto const star = [](auto const& self, json& at) -> void {
    if (at.is_object() && at.contains("node")) at = "*";
    if (at.is_object() || at.is_array())
      for (auto& inside : at) self(self, inside);
  };
  star(star, j);
  return j;
}

class pipe_split_case {
 public:
  pipe_split_case(test_case const& c, json const& body) : c_(c), body_(body) {}

  std::vector<difference> run() {
    if (body_.contains("error") && !body_.contains("defect")) {
      check_error();
    } else if (c_.input().contains("graph")) {
      cut();
    } else {
      check_spec();
    }
    return std::move(differences_);
  }

 private:
  void expect(bool holds, std::string const& what, std::string const& expected, std::string const& got) {
    if (!holds) differences_.push_back({what, expected, got});
  }

  module_graph const& graph() const {
    for (auto const* key : {"graph_after_dedup", "graph_after_policy"})
      if (auto const at = c_.graphs.find(key); at != c_.graphs.end()) return at->second;
    return c_.graph();
  }

  module_pipe_options options() const {
    module_pipe_options o;
    o.prefix = "submod_pp_";
    if (!body_.contains("defect")) o.state.names = alias_policy::beside_modules;
    return o;
  }

  void cut() {
    module_graph const& g = graph();
    auto const p = make_module_pipe(g, options());
    check_soundness(g, p);
    check_other_ways(g, p);
    if (body_.contains("defect"))
      check_better(g, p);
    else
      check_expected(g, p);
    for (auto& d : compare_state(body_, g, p)) differences_.push_back(std::move(d));
  }

  /// Checks what holds for every pipe: the verifier finds no fault, and the pipe gives the results of the
  /// program.
  void check_soundness(module_graph const& g, module_pipe const& p) {
    std::vector<std::size_t> markers;
    for (std::size_t n = 0; n < p.program.s.nodes(); ++n)
      if (is_marker(g[p.program.s.node[static_cast<std::uint32_t>(n)]])) markers.push_back(n);
    for (auto const& f : findings_in_plan<std::uint32_t>(p.program.s, p.plan, {markers, p.program.scopes}))
      expect(false, f.code, "a sound pipe", f.message);
    std::vector<testing::integer_value> inputs;
    for (std::size_t i = 0; i < g.inputs().size(); ++i)
      inputs.push_back(testing::integer_value::computed(testing::fold(1000, i)));
    testing::integer_interpretation meaning;
    expect(evaluate(g, inputs, meaning) == evaluate(p.outer, inputs, meaning), "the result", "whole = split",
           "another");
  }

  /// Checks that the list of modules and the policy give the same cuts as the markers.
  void check_other_ways(module_graph const& g, module_pipe const& p) {
    json const& input = c_.input();
    if (input.contains("split_spec")) {
      auto const bare = without_markers(g);
      auto o = options();
      o.cuts = read_cuts(input["split_spec"]);
      auto const other = make_module_pipe(bare, o);
      if (count_points(other, o.cuts) == count_markers(g)) compare_cuts(g, p, bare, other, "split_spec");
      expect_idle(other);
    }
    if (input.contains("graph_after_policy")) {
      module_graph const& before = c_.graph();
      std::set<std::string> opens = first_after_markers(g);
      auto const policy = [&](auto const& s) {
        return cuts_by_policy(static_cast<basic_snapshot_arrays<std::uint32_t> const&>(s),
                              [&](std::size_t n) {
                                return opens.contains(before[s.node[static_cast<std::uint32_t>(n)]].name);
                              });
      };
      bool const markers_only = before.nodes().size() + count_markers(g) == g.nodes().size();
      if (markers_only && count_markers(before) == 0 && count_markers(g) == opens.size())
        compare_cuts(g, p, before, make_module_pipe(before, options(), policy), "split_policy");
    }
  }

  /// Expects that a module that the program never calls is reported.
  void expect_idle(module_pipe const& p) {
    std::set<std::size_t> effective;
    for (auto const& i : p.plan.idle)
      if (i.why == idle_reason::never_called) effective.insert(i.asked_by);
    json const& spec = c_.input()["split_spec"];
    for (std::size_t i = 0; i < spec.size(); ++i) {
      bool called = false;
      for (auto const& n : p.program.whole().list())
        for (auto const& k : n.metadata)
          if (k.key == "scope")
            for (auto const& t : k.value)
              if (auto const* call = std::get_if<std::string>(&t))
                called |= module_of_call(*call) == spec[i][0].get<std::string>();
      expect(called != effective.contains(i), "idle cuts", "those of modules that are never called",
             "cut #" + std::to_string(i));
    }
  }

  static bool is_marker(module_node const& n) { return n.target == "pipe_split"; }

  static std::size_t count_markers(module_graph const& g) {
    return static_cast<std::size_t>(std::ranges::count_if(g.list(), is_marker));
  }

  static std::size_t count_points(module_pipe const& p, std::vector<module_cut> const& cuts) {
    return cuts_at_modules(p.program, cuts).points.size();
  }

  static std::set<std::string> first_after_markers(module_graph const& g) {
    std::set<std::string> names;
    bool marked = false;
    for (auto const n : g.nodes()) {
      if (marked && !is_marker(g[n])) names.insert(g[n].name);
      marked = is_marker(g[n]);
    }
    return names;
  }

  static module_graph without_markers(module_graph const& g) {
    module_graph bare;
    std::map<position, position> at;
    for (position n = 0; n < g.list().size(); ++n) {
      if (is_marker(g[n])) continue;
      module_node copy = g[n];
      for (auto& a : copy.args) a = map_nodes(std::move(a), [&](position v) { return at.at(v); });
      for (auto& k : copy.kwargs)
        k.value = map_nodes(std::move(k.value), [&](position v) { return at.at(v); });
      at[n] = bare.add(std::move(copy));
    }
    for (auto const& a : g.attributes()) bare.add_attribute(a);
    return bare;
  }

  void compare_cuts(module_graph const& g, module_pipe const& p, module_graph const& h, module_pipe const& q,
                    std::string const& what) {
    json one = json::array(), other = json::array();
    for (std::uint32_t i = 0; i < p.paths.size(); ++i) one.push_back(brief(stage_writer(g, p, stage_id{i})));
    for (std::uint32_t i = 0; i < q.paths.size(); ++i)
      other.push_back(brief(stage_writer(h, q, stage_id{i})));
    compare(one, other, what, differences_);
  }

  static json brief(stage_writer const& w) {
    json stage = w.write();
    json few;
    for (auto const* key : {"part", "nodes", "inputs", "outputs", "state_reads"}) few[key] = stage[key];
    return few;
  }

  static std::vector<module_cut> read_cuts(json const& spec) {
    std::vector<module_cut> cuts;
    for (auto const& entry : spec) {
      auto const side = entry[1].get<std::string>();
      cuts.push_back({entry[0], side == "BEGINNING" ? module_side::begin
                                : side == "END"     ? module_side::end
                                                    : module_side_of(side)});
    }
    return cuts;
  }

  void check_expected(module_graph const& g, module_pipe const& p) {
    json got;
    got["num_stages"] = p.paths.size();
    got["has_loss_and_backward"] = false;
    got["loss_spec"] = nullptr;
    got["root"] = {{"nodes", without_metadata(write_nodes(p.outer))}};
    got["edges"] = write_edges(g, p);
    got["stages"] = json::array();
    got["stage_idx_meta"] = json::array();
    for (std::uint32_t i = 0; i < p.paths.size(); ++i) {
      got["stages"].push_back(stage_writer(g, p, stage_id{i}).write());
      got["stage_idx_meta"].push_back(i);
    }
    json const& expect = body_["expect"];
    got["get_stage_module"] = json::array();
    for (auto const& entry : expect["get_stage_module"])
      got["get_stage_module"].push_back({entry[0], write_lookup(p, entry[0].get<std::int64_t>())});
    if (expect.contains("run")) got["run"] = write_run(g, expect["run"]);

    json normal;
    for (auto const& [key, value] : got.items()) normal[key] = expect[key];
    normal["root"]["nodes"] = normal_nodes(expect["root"]["nodes"]);
    for (auto& e : normal["edges"]) {  // as a set
      auto to = e["to"].get<std::vector<std::uint32_t>>();
      std::ranges::sort(to);
      e["to"] = to;
    }
    for (auto& stage : normal["stages"])
      for (auto const* key : {"parameters", "buffers", "state_dict", "state_nobody_reads", "modules", "tree"})
        stage.erase(key);
    compare(normal, got, "expect", differences_);
  }

  /// Returns the result of a run, in the model's structure if the pipe's program has it.
  json write_run(module_graph const& g, json const& recorded) {
    json run;
    module_argument const structure = read_operand(recorded["uncut_structure"], {}, "run");
    auto const shaped = with_result_structure(g, structure);
    auto const p = make_module_pipe(shaped, options());
    check_soundness(shaped, p);
    run["uncut_structure"] = write_structure(p.outer, p.outer[*p.outer.output()].args.front());
    auto const flat = make_module_pipe(g, options());
    run["pipe_structure"] = write_structure(flat.outer, flat.outer[*flat.outer.output()].args.front());
    run["leaves_equal_uncut"] = differences_.empty();
    return run;
  }

  void check_better(module_graph const& g, module_pipe const& p) {
    json const better = body_.value("better", json());
    if (better.is_object()) {
      json known = json::object();
      if (better.contains("stages")) {
        known["stages"] = json::array();
        for (std::uint32_t i = 0; i < p.paths.size(); ++i)
          known["stages"].push_back(brief(stage_writer(g, p, stage_id{i})));
      }
      if (better.contains("num_stages")) known["num_stages"] = p.paths.size();
      if (better.contains("rule")) known["rule"] = satisfied_rule(g, p);
      compare(better, known, "better", differences_);
    }
    if (body_.contains("expect") && body_["expect"].contains("run") && !body_["expect"]["run"].is_null())
      write_run(g, body_["expect"]["run"]);
  }

  /// Returns the rule that the pipe satisfies, in the recording's words.
  std::string satisfied_rule(module_graph const& g, module_pipe const& p) {
    auto const& stages = p.plan.plan.stages;
    for (auto const v : g.outputs()) {
      if (g[v].kind != node_kind::get_attr) continue;
      bool const given = names_of(g, stages.back().outputs, p.program.s.value).back() == g[v].name;
      return given ? "the parameter is also a value of the last stage" : "";
    }
    for (position n = 0; n < g.list().size(); ++n) {
      if (g[n].kind != node_kind::call_function || !g[n].target.starts_with("wrap_with")) continue;
      std::size_t held = 0, run = 0;
      for (auto const& stage : stages) {
        for (auto const m : stage.nodes) run += p.program.s.node[m] == n;
        for (auto const v : stage.state) held += !g.find_attribute(g[p.program.s.value[v]].target);
      }
      return held == 1 && run == 1
                 ? "a region is an ordinary node of its stage; stages are as if the body were inline"
                 : "";
    }
    return "";
  }

  /// Returns a program that calls each innermost module of the case once, in order.
  module_graph synthetic_program() const {
    module_graph g;
    json const& input = c_.input();
    auto const paths = input["modules"].get<std::vector<std::string>>();
    std::map<std::string, std::string> storage;
    for (auto const& s : input["state"]) {
      auto const path = s["fqn"].get<std::string>();
      if (auto const dot = path.rfind('.'); dot != path.npos)
        storage[path.substr(0, dot)] += s["storage"].dump() + " ";
    }
    std::set<std::string> called;
    module_node x;
    x.kind = node_kind::placeholder;
    x.name = x.target = "x";
    auto last = g.add(x);
    for (auto const& path : paths) {
      g.add_attribute({path, module_attribute::kind::module, storage[path], {}, {}, {}});
      bool const inner = std::ranges::any_of(paths, [&](auto const& p) { return p.starts_with(path + "."); });
      bool const alias = !storage[path].empty() && !called.insert(storage[path]).second;
      if (inner || alias) continue;
      module_node n;
      n.name = n.target = path;
      n.args = {node_argument(last)};
      module_argument scope{container{container::kind::list, 0}};
      for (std::size_t end = path.find('.');; end = path.find('.', end + 1)) {
        scope.push_back(path.substr(0, end));
        if (end == path.npos) break;
      }
      std::get<container>(scope.front()).size = static_cast<std::uint32_t>(scope.size() - 1);
      n.metadata = {{"scope", scope}};
      last = g.add(n);
    }
    module_node output;
    output.kind = node_kind::output;
    output.name = "output";
    output.args = {node_argument(last)};
    g.add(output);
    return g;
  }

  void check_error() {
    auto const g = c_.input().contains("graph") ? graph() : synthetic_program();
    auto const message = body_["error"]["message"].get<std::string>();
    bool const policy_too = message.find("split_policy") != message.npos;
    json got;
    std::string said;
    try {
      auto o = options();
      o.sources = cut_sources::one;
      o.cuts = read_cuts(c_.input().value("split_spec", json::array()));
      policy_too ? make_module_pipe(g, o, [](auto const&) { return cut_list(); }) : make_module_pipe(g, o);
      got = "a result";
    } catch (unknown_module_error const& e) {
      got = "AttributeError";
      said = e.what();
      auto const& path = c_.input()["split_spec"][e.witness][0].get<std::string>();
      expect(said.find("'" + path + "'") != said.npos, "the message", path, said);
    } catch (cut_source_error const&) {
      got = "ValueError";
    } catch (error const& e) {
      got = "ValueError";
      said = e.what();
      for (auto const& entry : c_.input()["split_spec"])
        expect(said.find(entry[1].get<std::string>()) != said.npos, "the message", entry[1], said);
    }
    compare(body_["error"]["type"], got, "error.type", differences_);
  }

  /// Checks a list of cuts without a recorded graph.
  void check_spec() {
    auto const g = synthetic_program();
    auto o = options();
    o.cuts = read_cuts(c_.input()["split_spec"]);
    json got = json::object();
    try {
      auto const first = make_module_pipe(g, o);
      auto const again = make_module_pipe(g, o);  // earlier cuts leave nothing behind
      expect(first.plan == again.plan, "the second cut", "the same plan", "another");
      std::size_t before = 0, after = 0;
      for (auto const& point : cuts_at_modules(first.program, o.cuts).points)
        (point.what == cut_kind::module_begin ? before : after) += 1;
      if (before == 1 && after == 1) got["cuts"] = "before and after the call";
      if (first.paths.size() == 2 && first.plan.plan.stages[0].nodes.size() == 1)
        got["same_as"] = "spec of one cut before child 1 of " + std::to_string(first.program.s.nodes());
    } catch (unknown_module_error const& e) {
      expect(!body_.contains("better") || body_["better"].is_null(), "the list of cuts", "a pipe", e.what());
      return;
    }
    expect(body_.contains("better") && body_["better"].is_object(), "the list of cuts", "an error", "a pipe");
    if (differences_.empty())
      for (auto const& [key, value] : body_["better"].items())
        compare(value, got.value(key, json()), "better." + key, differences_);
  }

  test_case const& c_;
  json const& body_;
  std::vector<difference> differences_;
};

}  // namespace

outcome run_pipe_split(test_case const& c, json const& body) { return {pipe_split_case(c, body).run(), ""}; }

}  // namespace cleave::conformance
