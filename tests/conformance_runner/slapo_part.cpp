// SPDX-License-Identifier: MIT
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/backward/ties.hpp"
#include "cleave/core/rank_grid.hpp"
#include "cleave/formats/bytes/registry.hpp"
#include "cleave/pipe/pytree.hpp"
#include "cleave/split/modules/liveness.hpp"
#include "cleave/split/stage_contract.hpp"
#include "conformance_runner/outcome.hpp"
#include "conformance_runner/slapo_write.hpp"

/// The parts of a hierarchical cut with recordings of their own: liveness, ties and their ranks, the wire
/// format, and registrations of runtimes.
namespace cleave::conformance {

using namespace detail;
namespace {

using differences = std::vector<difference>;

/// Returns the name without its producer if the recording does not give the producer.
std::string as_recorded(std::string const& ours, std::string const& theirs) {
  auto const blank = ours.find(" (");
  return theirs.find(" (") == theirs.npos ? ours.substr(0, blank) : ours;
}

differences check_liveness(module_graph const& top, json const& body) {
  differences d;
  json ours = write_liveness(top, liveness_of(top));
  if (!body.contains("defect")) {
    compare(body["expect"], ours, "expect", d);
    return d;
  }
  json const& theirs = body["better"]["liveness"];
  for (auto& [stage, names] : ours["liveness"].items())
    for (std::size_t i = 0; i < names.size(); ++i)
      if (theirs.contains(stage) && i < theirs[stage].size())
        names[i] = as_recorded(names[i], theirs[stage][i]);
  compare(theirs, ours["liveness"], "better.liveness", d);
  return d;
}

/// Returns the state of a case. If staged, the first word of a name is its stage, or none.
std::vector<named_state> read_state(json const& input, bool staged) {
  std::vector<named_state> state;
  for (json const& p : input["params"]) {
    auto name = p[0].get<std::string>();
    stage_id stage{0};
    if (staged) {
      auto const& stages = input["stages"];
      auto const dot = name.find('.');
      auto const at = std::ranges::find(stages, json(name.substr(0, dot)));
      bool const in_stage = dot != name.npos && at != stages.end();
      stage = in_stage ? stage_id{static_cast<std::uint32_t>(at - stages.begin())} : the_caller;
      if (in_stage) name = name.substr(dot + 1);
    }
    state.push_back({std::move(name), "storage " + p[1].get<std::string>(), stage});
  }
  return state;
}

/// Checks that each name that shares its storage (staged: with another stage) is in one group with all these
/// names.
void check_every_name(std::vector<named_state> const& state, tie_scope scope, differences& d) {
  auto const ties = ties_of(state, scope);
  for (auto const& a : state) {
    std::vector<named_state> group;
    for (auto const& b : state)
      if (a.storage == b.storage) group.push_back(b);
    bool const apart = std::ranges::any_of(group, [&](named_state const& b) { return b.stage != a.stage; });
    bool const tied = scope == tie_scope::stages ? apart : group.size() > 1;
    auto const found = std::ranges::count_if(ties, [&](tie const& t) { return t.members == group; });
    if (found != (tied ? 1 : 0)) d.push_back({"ties", a.name, std::to_string(found) + " groups"});
  }
}

differences check_ties(json const& body) {
  differences d;
  auto const whole = read_state(body["input"], false), staged = read_state(body["input"], true);
  if (!body.contains("defect")) {
    json const ours{{"whole", write_ties(ties_of(whole, tie_scope::names, tie_names::upstream))},
                    {"staged", write_ties(ties_of(staged, tie_scope::stages, tie_names::upstream))}};
    json theirs = body["expect"];
    for (auto const* key : {"whole", "staged"}) theirs[key] = sorted_ties(theirs[key]);
    compare(theirs, ours, "expect", d);
    return d;
  }
  check_every_name(whole, tie_scope::names, d);
  check_every_name(staged, tie_scope::stages, d);
  auto const& better = body.value("better", json::object());
  auto const members = [](std::vector<tie> const& ties, bool stages) {
    json groups = json::array();
    for (json const& g : write_ties(ties)) {
      json list = json::array();
      for (json const& m : g["members"]) list.push_back(stages ? m : m[0]);
      groups.push_back(std::move(list));
    }
    return groups;
  };
  if (better.contains("whole"))
    compare(better["whole"], members(ties_of(whole, tie_scope::names), false), "better.whole", d);
  if (better.contains("staged"))
    compare(better["staged"], members(ties_of(staged, tie_scope::stages), true), "better.staged", d);
  return d;
}

json write_ranks(std::vector<rank_id> const& ranks) {
  json list = json::array();
  for (auto const r : ranks) list.push_back(index(r));
  return list;
}

json write_groups(std::vector<std::vector<rank_id>> const& groups) {
  json list = json::array();
  for (auto const& g : groups) list.push_back(write_ranks(g));
  return list;
}

rank_grid read_grid(json const& input) {
  using enum rank_axis;
  return {{input["pipeline"], input["data"], input["tensor"]}, {pipe, data, model}};
}

std::vector<tie> read_groups(json const& input) {
  std::vector<tie> ties;
  for (json const& group : input["groups"]) {
    ties.emplace_back();
    for (json const& m : group)
      ties.back().members.push_back({m[0], "", stage_id{m[1].get<std::uint32_t>()}});
  }
  return ties;
}

differences check_tie_ranks(json const& body) {
  differences d;
  json ours;
  auto const grid = read_grid(body["input"]);
  try {
    ours["ranks_of_stage"] = ours["tie_ranks"] = ours["tie_stages"] = json::array();
    for (std::uint32_t k = 0; k < grid.size(rank_axis::pipe); ++k)
      ours["ranks_of_stage"].push_back(write_ranks(grid.ranks_at(rank_axis::pipe, k)));
    for (auto const& t : read_groups(body["input"])) {
      auto const ranks = ranks_of_tie(grid, t);
      ours["tie_ranks"].push_back(write_groups(ranks.groups));
      json stages = json::array();
      for (auto const s : ranks.stages) stages.push_back(index(s));
      ours["tie_stages"].push_back(std::move(stages));
    }
  } catch (tie_rank_error const& e) {
    bool const recorded = body.contains("error") && body["error"]["type"] == "IndexError" &&
                          e.witness.what == tie_rank_fault::kind::no_such_stage;
    if (!recorded) d.push_back({"result", body.dump(), e.what()});
    return d;
  }
  compare(body.value("expect", json()), ours, "expect", d);
  return d;
}

/// Compares the registrations of each rank with the runtime.
differences check_registration(json const& body) {
  differences d;
  auto const grid = read_grid(body["input"]);
  json stages = json::array(), ranks = json::array();
  for (std::uint32_t k = 0; k < grid.size(rank_axis::pipe); ++k)
    stages.push_back("submod_" + std::to_string(k));
  for (std::uint32_t r = 0; r < grid.size(); ++r) {
    json tied = json::array();
    for (auto const& t : read_groups(body["input"])) {
      auto const row = registration_of_tie(grid, t, rank_id{r});
      tied.push_back({row.key, write_groups(row.groups), row.name, row.held});
    }
    ranks.push_back({{"rank", r}, {"tied", std::move(tied)}, {"stages", stages}});
  }
  json const ours{{"per_rank", std::move(ranks)},
                  {"row",
                   "[group key, rank groups, parameter name in its module (empty if this rank has none), "
                   "owns a module]"}};
  compare(body["expect"], ours, "expect", d);
  return d;
}

differences check_hooks(json const& body) {
  static std::map<std::string, program_hook> const hooks = {{"forward_pre", program_hook::before_forward},
                                                            {"forward", program_hook::after_forward},
                                                            {"backward", program_hook::after_backward}};
  differences d;
  std::uint32_t const stages = body["input"]["stages"];
  json ours = json::array();
  for (std::uint32_t k = 0; k < stages; ++k) {
    ours.push_back(json::object());
    for (json const& hook : body["input"]["hooks"])
      ours.back()[hook.get<std::string>()] = runs_hook(hooks.at(hook), stage_id{k}, stages) ? 1 : 0;
  }
  compare(body["expect"], json{{"per_stage", ours}}, "expect", d);
  return d;
}

/// Compares a registry with Slapo's registrations.
differences check_registry(json const& body) {
  registry<int> dialects({"pipeline_stage", "pipeline_engine", "runtime_engine", "log_parser"});
  for (auto const* kind : {"pipeline_stage", "pipeline_engine", "runtime_engine", "log_parser"})
    dialects.add(kind, "deepspeed", 1);
  dialects.add("log_parser", "megatron", 1);
  dialects.add("runtime_engine", "", 1);
  auto const& input = body["input"];
  auto const fault =
      dialects.find_fault(input["kind"], input["target"],
                          input["allow_none"] == true ? registry_default::allowed : registry_default::unused);
  differences d;
  if (!body.contains("error")) {
    compare(body["expect"], json{{"found", !fault}}, "expect", d);
    return d;
  }
  auto const said = body["error"]["message"].get<std::string>();
  auto const named = !fault                                              ? ""
                     : fault->what == registry_fault::kind::unknown_kind ? fault->of
                                                                         : fault->target;
  if (!fault || body["error"]["type"] != "ValueError" || said.find(named) == said.npos)
    d.push_back({"error", said, fault ? describe(*fault) : "an entry"});
  return d;
}

/// Appends a sent value: `"T"` is a tensor, everything else an operand.
void append_sent(module_argument& to, json const& j) {
  if (j == "T") {
    to.push_back(node_ref{0});
  } else if (j.is_object()) {
    json const& inside = j.begin().value();
    to.push_back(container{find_entry(containers, j.begin().key())->second,
                           static_cast<std::uint32_t>(inside.size())});
    for (json const& element : inside) {
      if (j.begin().key() == "dict") to.push_back(read_constant(element[0], "a key"));
      append_sent(to, j.begin().key() == "dict" ? element[1] : element);
    }
  } else {
    to.push_back(read_constant(j, "a value"));
  }
}

json write_sent(module_argument const& a, std::size_t& at) {
  token const& t = a[at++];
  if (std::holds_alternative<node_ref>(t)) return "T";
  auto const* c = std::get_if<container>(&t);
  if (!c) return write_constant(t);
  json elements = json::array();
  for (std::uint32_t i = 0; i < c->size; ++i) {
    json const key = c->what == container::kind::dict ? write_constant(a[at++]) : json();
    json element = write_sent(a, at);
    elements.push_back(c->what == container::kind::dict ? json::array({key, element}) : element);
  }
  for (auto const& [name, kind] : containers)
    if (kind == c->what) return json{{std::string(name), std::move(elements)}};
  return nullptr;
}

json write_sent(module_argument const& a) {
  std::size_t at = 0;
  return write_sent(a, at);
}

differences check_pytree(json const& body) {
  differences d;
  bool const defect = body.contains("defect");
  auto const form = defect ? pytree_form::exact : pytree_form::tuples;
  std::vector<module_argument> sent;
  module_argument whole{container{container::kind::tuple, 0}};
  for (json const& v : body["input"]["values"]) {
    sent.emplace_back();
    append_sent(sent.back(), v);
    whole.insert(whole.end(), sent.back().begin(), sent.back().end());
  }
  whole.front() = container{container::kind::tuple, static_cast<std::uint32_t>(sent.size())};
  try {
    auto const message = tree_flatten(sent, form);
    json ours{{"metadata", message.text}, {"tensors", message.leaves.size()}};
    for (auto const& [name, value] : itemised(whole, "submod_0"))
      ours["named"].push_back({name, write_sent(value)});
    ours["back"] = write_sent(tree_unflatten(message, form));
    if (defect)
      compare(write_sent(whole), ours["back"], "what comes back", d);
    else
      compare(body.value("expect", json()), ours, "expect", d);
  } catch (pytree_error const& e) {
    bool const recorded = !defect && body.contains("error") && body["error"]["type"] == "ValueError";
    if (!recorded) d.push_back({"result", "a message", e.what()});
  }
  return d;
}

}  // namespace

outcome run_slapo_part(test_case const& c, json const& body) {
  auto const& input = body["input"];
  if (input.contains("top")) return {check_liveness(c.graphs.at("top"), body), ""};
  if (input.contains("params")) return {check_ties(body), ""};
  if (input.contains("hooks")) return {check_hooks(body), ""};
  if (input.contains("kind")) return {check_registry(body), ""};
  if (input.contains("values")) return {check_pytree(body), ""};
  if (body.value("expect", json::object()).contains("per_rank")) return {check_registration(body), ""};
  return {check_tie_ranks(body), ""};
}

}  // namespace cleave::conformance
