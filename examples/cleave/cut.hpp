// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cleave/adapt/onnx/stages.hpp>
#include <cleave/adapt/onnx/write.hpp>
#include <cleave/draw/report.hpp>
#include <cleave/draw/stage_graph.hpp>
#include <cleave/formats/units.hpp>
#include <cleave/partition/slices/balance.hpp>
#include <cleave/partition/slices/balance_ranks.hpp>
#include <cleave/schedule/model/placement.hpp>
#include <cleave/split/split.hpp>
#include <cleave/split/stage_contract.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "advice.hpp"
#include "certificate.hpp"
#include "cut_limits.hpp"
#include "describe.hpp"
#include "hosts.hpp"
#include "model.hpp"
#include "options.hpp"
#include "rule.hpp"

namespace tool {

inline constexpr std::uint32_t most_stages = 65'535;

/// The options of a cut.
struct cut_options {
  std::uint32_t stages = 4;
  bool counted = false;               ///< -k was given
  std::vector<std::size_t> memory{};  ///< one for all stages, or one each
  std::vector<double> speed{};
  std::optional<double> flops_per_byte{};  ///< default: 5 for models; docs/graph_json.md for graphs
  std::optional<double> bandwidth{};       ///< in bytes per second, instead of `flops_per_byte`
  bool relayed = false;  ///< values pass through the stages between their producer and their readers
  cut_rule rule{};
  std::optional<cleave::stage_placement> place{};  ///< of a schedule
  std::optional<framework> plan_for{};             ///< the framework for which a plan is printed
  std::string layers{};                            ///< path of the list of layers; empty: found
  std::string hosts{};                             ///< file with the hosts of the ranks

  /// Returns the framework whose plan the cut is, if it is one.
  std::optional<framework> plan() const {
    return plan_for || rule.what != cut_rule::kind::plan ? plan_for : std::optional(rule.from);
  }
  /// Returns true if ranks are balanced rather than stages: some rank runs several.
  bool balances_ranks() const {
    return place && rule.what == cut_rule::kind::balance && place->stages() > place->ranks;
  }
  /// Returns the number of parts that have limits.
  std::uint32_t limited_parts() const { return balances_ranks() ? place->ranks : stages; }
};

inline void add_cut_options(command& c, cut_options& to) {
  auto const size = [](std::string_view text) { return cleave::parse_bytes(text); };
  auto const ratio = [](std::string_view text) {
    double x = 0;
    return read_number(text, x, 1e-9, 1e9) ? std::optional(x) : std::nullopt;
  };
  auto& list = c.options;
  list.push_back({"-k", "--stages", "N", range_text(1u, most_stages), "number of stages (4)",
                  [&to](auto text) { return to.counted = read_number(text, to.stages, 1u, most_stages); }});
  list.push_back({"", "--memory", "SIZE[,SIZE...]",
                  "a size " + std::string(size_range) + ", as in 2GiB, or one for each stage",
                  "limit on the weights of a stage, or of a rank that runs several",
                  [&to, size](auto text) { return read_list(text, to.memory, size); }});
  list.push_back({"", "--speed", "X[,X...]", range_text(1e-9, 1e9) + ", or one for each stage",
                  "speed of a stage, or of a rank that runs several (1)",
                  [&to, ratio](auto text) { return read_list(text, to.speed, ratio); }});
  list.push_back(number_option(
      "", "--flops-per-byte", "R",
      "cost of moving a byte between stages, in operations (5); for a graph in JSON, in its unit",
      to.flops_per_byte, 0, 1e12));
  list.push_back({"", "--bandwidth", "RATE",
                  "a size per second with its unit, as in 10GB/s, from 1B/s to below 16EiB/s",
                  "rate between stages, instead of --flops-per-byte (10GB/s)", [&to](auto text) {
                    if (text.ends_with("/s")) text.remove_suffix(2);
                    auto const bytes = cleave::parse_bytes(text);
                    to.bandwidth = static_cast<double>(bytes.value_or(0));
                    return bytes.value_or(0) > 0 && text.ends_with('B');
                  }});
  list.push_back(flag(
      "--relay", "stages send to the next stage only, as in PyTorch: those in between pass values on and pay",
      to.relayed));
}

inline void add_plan_options(command& c, cut_options& to) {
  std::vector<std::string_view> names;
  for (auto const& f : framework_names) names.push_back(f.first);
  c.options.push_back(choice_option(
      "--for", "FRAMEWORK", names,
      "cut between layers, and print the plan as a framework takes it: megatron, torchtitan,\n" +
          std::string(30, ' ') + "deepspeed, vllm or llama.cpp; ort-genai: the pipeline of any cut",
      [&to](std::size_t at) { to.plan_for = static_cast<framework>(at); }));
  c.options.push_back({"", "--layers", "PATH", "the path of a list of modules, as in model.layers",
                       "the list of layers of a plan (the one that costs most)", [&to](auto text) {
                         to.layers = text;
                         return !text.empty();
                       }});
  c.options.push_back(file_to_read("--hosts", "FILE",
                                   "hosts of the ranks, one 'host[:port] [slots=n]' per line: print the host "
                                   "of each stage",
                                   to.hosts));
}

/// Returns the cost of moving a byte between stages, where a second of work costs `second` and an operation
/// `flop`.
/// \throws usage_error if two options give it
inline double cost_per_byte_of(cut_options const& options, double second, double flop) {
  if (options.bandwidth && options.flops_per_byte)
    throw usage_error("--bandwidth and --flops-per-byte both give the cost of a byte; leave out one");
  return options.bandwidth ? second / *options.bandwidth : options.flops_per_byte.value_or(5) * flop;
}

/// Returns the limits that `balance` must respect.
inline cleave::balance_options limits_of(cut_options const& options, double cost_per_byte) {
  auto const one_or_each = [&](auto const& list, char const* what) {
    auto const parts = options.limited_parts();
    if (list.size() > 1 && list.size() != parts && options.rule.what == cut_rule::kind::balance)
      throw usage_error(std::string(what) + " takes 1 or " + std::to_string(parts) + " values, not " +
                        std::to_string(list.size()));
    using each = cleave::per_part<std::ranges::range_value_t<decltype(list)>>;
    return list.size() == 1 ? each(list.front()) : each(list);
  };
  return {.cost_per_byte = cost_per_byte,
          .memory = one_or_each(options.memory, "--memory"),
          .speed = one_or_each(options.speed, "--speed"),
          .relayed = options.relayed};
}

/// Returns the module path of a node's name: `layer1.0.conv1` for `/layer1/layer1.0/conv1/Conv`, as torch
/// writes it, and for `layer1/0/conv1/Conv`.
inline std::string module_path_of(std::string_view name) {
  std::string path;
  for (std::size_t at = 0; at < name.size();) {
    auto const end = name.find('/', at);
    if (end == name.npos) break;  // the rest is the node's own name
    auto const step = name.substr(at, end - at);
    if (step.starts_with(path + ".") || path.empty())
      path = step;
    else if (!step.empty())
      path += "." + std::string(step);
    at = end + 1;
  }
  return path;
}

/// The facts about nodes that rules read. A node's tag is its `doc_string`.
inline std::vector<node_facts> facts_of_nodes(cleave::onnx::graph const& g) {
  std::vector<node_facts> facts;
  for (auto const n : g.nodes()) {
    facts.push_back({g.proto(n).op_type(), g.proto(n).doc_string(), module_path_of(g.name(n))});
    for (auto const v : g.operands(n))
      if (facts.back().owner.empty() && g.is_state(v)) {
        auto const name = g.name_of(v);
        facts.back().owner = name.substr(0, name.find('.') == name.npos ? 0 : name.rfind('.'));
      }
  }
  return facts;
}

/// Returns the parts of the nodes in a pipeline of onnxruntime-genai. \throws cleave::error with the file
template <class Snapshot>
cleave::partition parts_in_pipeline(fs::path const& path, model const& m, Snapshot const& s) {
  try {
    return parts_of_pipeline(s, cleave::read_genai_pipeline(read_text(path)),
                             [&](auto v) { return std::string(m.graph.name_of(v)); });
  } catch (cleave::error const& e) {
    std::string const what = e.what(), file = input_name(path);
    throw cleave::error(what.starts_with(file) ? what : file + ": " + what);
  }
}

/// Returns the parts of a rule other than balance, with the bound for that number of parts.
/// \throws cleave::infeasible_error if a part does not fit into its memory
template <class Snapshot>
cleave::balanced_partition certified_parts(Snapshot const& s, cleave::partition parts,
                                           cleave::balance_options const& limits) {
  cleave::balanced_partition p{std::move(parts)};
  if (p.parts == 0) return p;
  if (!limits.memory.covers(p.parts) || !limits.speed.covers(p.parts))
    throw usage_error("--memory and --speed take 1 value, or one for each of the " + std::to_string(p.parts) +
                      " stages that this rule makes");
  if (auto const full = cleave::find_overfull_part(s, p, limits.memory))
    throw cleave::infeasible_error("stage " + std::to_string(index(full->part)) + " needs " +
                                   std::to_string(full->bytes) + " bytes, its limit is " +
                                   std::to_string(full->limit));
  p.loads = cleave::part_loads(s, p, {limits.cost_per_byte, limits.speed, {}, limits.relayed});
  p.bottleneck = *std::ranges::max_element(p.loads);
  p.bound = cleave::balance(s, p.parts, {.cost_per_byte = limits.cost_per_byte, .speed = limits.speed}).bound;
  return p;
}

/// The parts of a cut, with what limits them.
struct certified_cut {
  cleave::balanced_partition parts;
  certificate proof;
  cut_limits limits;
  std::vector<double> rank_loads{};      ///< if ranks are balanced
  std::optional<framework_plan> plan{};  ///< if one is asked for, or given
};

/// Returns the modules by which the layers of a model are found: those that enclose the nodes or, if that is
/// not known, those whose weights they read.
template <class Snapshot>
std::vector<std::string> layer_paths(Snapshot const& s, std::vector<node_facts> const& facts) {
  bool const enclosed = std::ranges::any_of(facts, [](auto const& f) { return !f.path.empty(); });
  std::vector<std::string> paths;
  for (auto const& f : facts) paths.emplace_back(enclosed ? f.path : f.owner);
  // Exporters fold weights into new ones without a module, mostly that of the node that reads the result.
  for (auto n = enclosed ? 0 : paths.size(); n-- > 0;) {
    auto const is_weight = [&](auto v) { return cleave::is_held(s.from[v]); };
    if (!paths[n].empty() || std::ranges::none_of(s.operands[n], is_weight)) continue;
    for (auto const v : s.results[n])
      for (auto const user : s.users[v])
        if (paths[n].empty()) paths[n] = paths[user];
  }
  return paths;
}

/// Completes the plan of a cut: its text, its costs and, if the user gave the cut, the best plan.
/// \throws cleave::error if the cut is no plan of the framework
template <class Snapshot>
void complete_plan(framework_plan& plan, cut_options const& options, Snapshot const& s,
                   cleave::balanced_partition const& parts, cleave::balance_options limits) {
  plan.own.largest = parts.bottleneck;
  plan.own.sent = sent_bytes(s, parts);
  bool const of_layers = plan.what != framework::ort_genai;
  bool const is_given = options.rule.what == cut_rule::kind::plan;
  if (of_layers && plan.stages.of.empty()) plan.stages = stages_of_modules(s, plan.chain, parts);
  if (of_layers)
    plan.own.text = is_given && plan.what == options.rule.from
                        ? options.rule.words.front()
                        : plan_text(plan.what, plan.chain, plan.stages);
  if (!is_given) return;
  auto stages = parts.parts;
  if (of_layers) {  // stages that the user left empty may have layers in the best plan
    auto const unit = plan_units(plan.what, plan.chain);
    auto const all = std::min<std::size_t>(plan.stages.stages, unit.back() + std::size_t{1});
    if (limits.memory.covers(all) && limits.speed.covers(all)) stages = static_cast<std::uint32_t>(all);
    limits = whole_units(s, plan.chain, unit, std::move(limits));
  }
  auto const best = cleave::balance(s, stages, limits);
  plan.best = priced_plan{"", best.bottleneck, sent_bytes(s, best)};
  if (of_layers) plan.best->text = plan_text(plan.what, plan.chain, stages_of_modules(s, plan.chain, best));
}

/// \throws cleave::infeasible_error if there are fewer nodes than the stages that -k or a schedule asks for
inline void require_nodes(cut_options const& options, cleave::snapshot_arrays const& s) {
  auto const copied = static_cast<std::size_t>(std::ranges::count(s.replicable, char{1}));
  auto const nodes = s.nodes() - copied;
  if (options.stages > nodes && (options.counted || options.place))
    throw cleave::infeasible_error((options.place ? "the schedule has " : "-k asks for ") +
                                   plural(options.stages, "stage") + ", but the graph has " +
                                   plural(nodes, "node") + " to place; a stage needs a node");
}

/// Cuts a graph by the rule of the options. `given` are the parts of a pipeline of onnxruntime-genai, if that
/// is the rule.
/// \throws cleave::infeasible_error if no cut fits into the memory
template <class Graph, class Snapshot>
certified_cut cut_by_rule(cut_options const& options, Graph const& g, Snapshot const& s,
                          std::vector<node_facts> const& facts, double cost_per_byte, std::string const& unit,
                          std::optional<cleave::partition> given = {}) {
  auto limits = limits_of(options, cost_per_byte);
  bool const balanced = options.rule.what == cut_rule::kind::balance;
  bool const is_plan = options.rule.what == cut_rule::kind::plan;
  certified_cut c;
  if (auto const what = options.plan()) c.plan = framework_plan{.what = *what};
  bool const reads_layers = is_plan && options.rule.from != framework::ort_genai;
  bool const of_layers = c.plan && c.plan->what != framework::ort_genai;
  bool const whole = balanced && of_layers;
  if (reads_layers || of_layers) c.plan->chain = layers_of(s, layer_paths(s, facts), options.layers);
  if (whole) {
    auto const unit_of = plan_units(c.plan->what, c.plan->chain);
    if (unit_of.back() + 1 < options.stages)
      throw cleave::infeasible_error("a plan for " + full_name(c.plan->what) + " has at most " +
                                     plural(unit_of.back() + std::size_t{1}, "stage") + ": the model has " +
                                     plural(c.plan->chain.layers, "layer") + " in " +
                                     cleave::quoted(c.plan->chain.list) + "; choose a smaller -k");
    limits = whole_units(s, c.plan->chain, unit_of, std::move(limits));
  }
  if (reads_layers) {
    c.plan->stages = read_plan(options.rule.from, c.plan->chain, options.rule.words.front());
    given = parts_of(c.plan->chain, c.plan->stages);
  }
  c.proof.objective = objective_of(cost_per_byte, options.relayed);
  c.proof.unit = unit;
  if (balanced) require_nodes(options, s);
  if (options.balances_ranks()) {
    if (options.relayed) throw usage_error("--relay is for schedules with one stage per rank");
    auto r = cleave::balance_ranks(s, std::span<cleave::rank_id const>(options.place->rank_of),
                                   options.place->ranks, limits);
    c.parts = std::move(r.stages);
    c.rank_loads = std::move(r.rank_loads);
    c.proof.bottleneck = r.bottleneck;
    c.proof.bound = r.bound;
    c.proof.parts = "stages for " + plural(options.place->ranks, "rank");
    c.proof.of = "largest load of a rank";
  } else {
    c.parts = balanced ? cleave::balance(s, options.stages, limits)
                       : certified_parts(
                             s,
                             given ? acyclic_parts(s, without_copies(s, *given), options.rule.cycles).parts
                                   : parts_by(options.rule, g, s, facts),
                             limits);
    c.proof.bottleneck = c.parts.bottleneck;
    c.proof.bound = c.parts.bound;
    c.proof.parts = plural(c.parts.parts, "stage") + (whole ? " of whole layers" : "");
    if (balanced && !options.place) c.limits.enough = find_enough_stages(s, c.parts, limits);
  }
  if (c.plan && c.parts.parts > 0) complete_plan(*c.plan, options, s, c.parts, limits);
  if (!balanced || c.parts.parts == 0) return c;
  double fastest = limits.speed.empty() ? 1 : limits.speed[0], total = 0;
  for (std::size_t i = 0; i < limits.speed.size(); ++i) fastest = std::max(fastest, limits.speed[i]);
  for (auto const w : s.weight) total += w;
  auto const parts = c.rank_loads.empty() ? c.parts.parts : c.rank_loads.size();
  c.limits.node = find_dominant_node(s, c.proof.bottleneck, parts, fastest);
  if (c.limits.node) c.limits.share = s.weight[*c.limits.node] / total;
  return c;
}

/// A model, balanced and cut. It refers to the model's graph.
struct cut {
  cleave::balanced_partition parts;
  cleave::onnx::staged stages;
  cleave::quotient boxes;
  cleave::onnx::notes notes;
  certificate proof;
  std::optional<pricing_advice> advice{};  ///< if too few costs are known for a bound
  cut_limits limits{};
  std::vector<double> rank_loads{};        ///< if ranks are balanced
  std::vector<cleave::rank_id> rank_of{};  ///< per stage, if a schedule places the stages
  std::optional<framework_plan> plan{};
  std::optional<placed_ranks> hosts{};

  /// Returns name and operator of the node that bounds the largest load.
  std::pair<std::string, std::string> dominant() const {
    if (!limits.node) return {};
    auto const n = stages.snapshot().node[*limits.node];
    return {std::string(stages.graph().name(n)), stages.graph().proto(n).op_type()};
  }
};

using model_snapshot = cleave::snapshot<cleave::onnx::graph>;

/// Cuts a model by the rule of the options.
/// \throws cleave::onnx::error if values of unknown type allow fewer stages, or if the rule sends one
inline certified_cut cut_by_rule(cut_options const& options, model const& m, model_snapshot const& s,
                                 double cost_per_byte) {
  try {
    std::optional<cleave::partition> given;
    if (options.rule.what == cut_rule::kind::plan && options.rule.from == framework::ort_genai)
      given = parts_in_pipeline(options.rule.words.front(), m, s);
    auto const facts = reads_facts(options.rule, options.plan().has_value()) ? facts_of_nodes(m.graph)
                                                                             : std::vector<node_facts>();
    auto made = cut_by_rule(options, m.graph, s, facts, cost_per_byte, "s", std::move(given));
    if (options.rule.what == cut_rule::kind::balance)
      if (auto const fault = cleave::onnx::find_untyped_limit(m.graph, made.parts.parts, options.stages))
        throw cleave::onnx::error(*fault);
    return made;
  } catch (cleave::partition_error const& e) {
    if (e.witness.size() == 2)
      for (auto const v : s.results[e.witness[0]])
        if (std::ranges::count(s.users[v], e.witness[1]) > 0 && s.portable[v] == 0)
          throw cleave::onnx::error(cleave::onnx::untyped_fault(m.graph, s.value[v]));
    throw;
  }
}

/// Returns what DeepSpeed cannot pass between the stages of a cut, one sentence each. A value needs a
/// gradient if a module makes it, and if it is of a floating type.
inline std::vector<std::string> deepspeed_remarks(model const& m, cleave::onnx::staged const& stages,
                                                  layer_chain const& chain) {
  std::vector<std::string> lines;
  auto const& s = stages.snapshot();
  for (std::uint32_t i = 0; i < stages.size(); ++i) {
    auto const& inputs = stages.plan().stages[i].inputs;
    std::vector<cleave::argument_traits> arguments;
    for (auto const v : inputs) {
      auto const* type = m.types.priced(m.graph.name_of(s.value[v]));
      auto const element = type != nullptr ? type->tensor_type().elem_type() : 0;
      bool const floats = element == ::onnx::TensorProto::FLOAT || element == ::onnx::TensorProto::FLOAT16 ||
                          element == ::onnx::TensorProto::BFLOAT16 || element == ::onnx::TensorProto::DOUBLE;
      auto const n = s.producer[v];
      arguments.push_back({.needs_gradient = floats && n < s.nodes() && chain.named[n] != 0});
    }
    if (auto const bad = cleave::find_argument_beyond_first(arguments))
      lines.push_back("DeepSpeed sends back the gradient of the first argument of a stage alone; stage " +
                      std::to_string(i) + " has " + cleave::quoted(m.graph.name_of(s.value[inputs[*bad]])) +
                      " as argument #" + std::to_string(*bad) + ", which needs one too");
  }
  return lines;
}

/// \throws cleave::infeasible_error if no cut fits into the memory.
inline cut cut_model(model const& m, cut_options const& options, progress const& doing) {
  auto s = cleave::snapshot_of(m.graph);
  auto const cost_per_byte = cost_per_byte_of(options, 1, 1 / cleave::onnx::rates{}.flops);
  doing("balancing");
  auto made = cut_by_rule(options, m, s, cost_per_byte);
  auto& parts = made.parts;
  doing("cutting");
  auto plan = cleave::make_plan(s, parts);
  auto boxes = cleave::quotient_of(s, plan);
  // The graph reports 0 bytes for unknown sizes, and an empty tensor has 0 bytes.
  for (std::size_t i = 0; i < boxes.stages.size(); ++i)
    for (auto const v : plan.stages[i].state)
      if (auto const* t = m.graph.tensor(s.value[v]); t != nullptr && std::ranges::count(t->dims(), 0) > 0)
        boxes.stages[i].state.unknown -= boxes.stages[i].state.unknown > 0;
  cleave::onnx::staged stages(m.graph, std::move(s), std::move(plan));
  auto notes = cleave::onnx::notes_of(stages);
  if (made.plan && made.plan->what == framework::deepspeed)
    made.plan->remarks = deepspeed_remarks(m, stages, made.plan->chain);
  auto& proof = made.proof;
  proof.lacking = lacking_of(m);
  if (cost_per_byte == 0) proof.lacking.values = 0;  // transfers are free, so sizes do not matter
  std::optional<pricing_advice> advice;
  if (!proof.lacking.leaves_bounds()) {
    doing("looking for the size that would give most costs");
    advice = find_advice(m, proof.lacking);
    if (advice) {  // what a file of costs has given is not missing
      advice->most.nodes = std::min(advice->most.nodes, proof.lacking.nodes);
      advice->most.values = std::min(advice->most.values, proof.lacking.values);
    }
  }
  std::vector<cleave::rank_id> rank_of;
  if (options.place && options.place->stages() == stages.size()) rank_of = options.place->rank_of;
  std::optional<placed_ranks> hosts;
  if (!options.hosts.empty()) hosts.emplace(options.hosts, stages.size(), rank_of);
  return {std::move(parts),   std::move(stages),    std::move(boxes), std::move(notes),
          std::move(proof),   std::move(advice),    made.limits,      std::move(made.rank_loads),
          std::move(rank_of), std::move(made.plan), std::move(hosts)};
}

inline std::string seconds_text(double s) { return cleave::amount_text(s, "s"); }

/// Returns the cost of each stage by the static model, if the costs of the cut are measured.
inline std::vector<double> predicted_costs(model const& m, cut const& c) {
  std::vector<double> costs;
  if (!m.measured) return costs;
  for (auto const& stage : c.stages.plan().stages) {
    auto& cost = costs.emplace_back();
    for (auto const n : stage.nodes) cost += m.measured->predicted[n];
  }
  return costs;
}

/// Returns the stages as a table.
inline std::string table_of(model const& m, cut const& c) {
  if (c.stages.size() == 0) return "  nothing to cut: all nodes are constants or reach no output\n";
  std::vector<std::vector<std::string>> rows = {{"stage", "nodes", m.measured ? "measured" : "cost",
                                                 "of ideal", "weights", "bytes in", "bytes out", "load"}};
  auto const predicted = predicted_costs(m, c);
  if (m.measured) rows[0].insert(rows[0].begin() + 2, "predicted");
  if (!c.rank_of.empty()) rows[0].insert(rows[0].begin() + 1, "rank");
  double total = 0;
  for (auto const& box : c.boxes.stages) total += box.cost;
  auto const ideal = total / static_cast<double>(c.boxes.stages.size());
  for (std::size_t i = 0; i < c.boxes.stages.size(); ++i) {
    auto const& box = c.boxes.stages[i];
    rows.push_back({std::to_string(i), cleave::count_text(box.nodes), seconds_text(box.cost),
                    cleave::percent_text(ideal > 0 ? box.cost / ideal : 1), cleave::bytes_text(box.state),
                    cleave::bytes_text(box.in), cleave::bytes_text(box.out), seconds_text(c.parts.loads[i])});
    if (m.measured) rows.back().insert(rows.back().begin() + 2, seconds_text(predicted[i]));
    if (!c.rank_of.empty()) rows.back().insert(rows.back().begin() + 1, std::to_string(index(c.rank_of[i])));
  }
  return table_text(rows) + "  " + sentence_of(c.proof) + "\n";
}

/// Returns the loads of ranks that run several stages each: `loads of the ranks: 20.1 ms, 20.3 ms`.
inline std::string rank_loads_text(std::vector<double> const& loads, std::string const& unit) {
  return "loads of the ranks: " +
         first_of(loads, 16, [&](double load) { return cleave::amount_text(load, unit); });
}

/// Returns the weights that several stages hold, without the results of Constant nodes.
inline std::vector<cleave::onnx::notes::tie> ties_of(model const& m, cut const& c) {
  auto ties = c.notes.ties;
  std::erase_if(ties, [&](auto const& t) { return m.graph.scopes().values[t.storage].tensor == nullptr; });
  return ties;
}

/// Returns the number of nodes that depend on weights alone, and of their copies.
inline std::string constants_text(cleave::onnx::notes const& notes) {
  return plural(notes.copied.size(), "node") + " of weights alone, in " + cleave::count_text(notes.copies) +
         (notes.copies == 1 ? " copy" : " copies") + " where results are read";
}

/// A value that a stage keeps for its next run: its output `present` becomes its input `past`.
struct named_carried_value {
  std::uint32_t stage;
  std::string past, present;
};

/// Says how many values each of some stages keeps for its next run. There is at least one.
inline std::string carried_text(std::vector<named_carried_value> const& carried, std::size_t stages) {
  std::vector<std::size_t> counts(stages);
  for (auto const& v : carried) ++counts[v.stage];
  std::string text;
  for (auto const n : counts) text += (text.empty() ? "" : ", ") + std::to_string(n);
  return "values that each stage keeps for its next run: " + text + "; for instance " +
         cleave::quoted(carried.front().present) + " becomes " + cleave::quoted(carried.front().past);
}

/// Writes these values as the member `carried`.
inline void add_carried(cleave::json::writer& json, std::vector<named_carried_value> const& carried) {
  json.key("carried").open_array();
  for (auto const& v : carried)
    json.open_object()
        .member("stage", v.stage)
        .member("past", v.past)
        .member("present", v.present)
        .close_object();
  json.close_array();
}

/// Returns the values that the stages of a model keep for their next run.
inline std::vector<named_carried_value> carried_of(model const& m, cut const& c) {
  std::vector<named_carried_value> made;
  for (auto const& v : c.notes.carried)
    made.push_back(
        {index(v.stage), std::string(m.graph.name_of(v.past)), std::string(m.graph.name_of(v.present))});
  return made;
}

/// Returns remarks on a cut, one per line.
inline std::vector<std::string> remarks_on(model const& m, cut const& c, std::uint32_t asked,
                                           cleave::onnx::weights weights = cleave::onnx::weights::reference) {
  std::vector<std::string> lines;
  auto const names = [&](auto const& values) {
    return first_of(values, 4, [&](auto v) { return cleave::quoted(m.graph.name_of(v)); });
  };
  if (m.measured) lines = remarks_on(*m.measured, node_names(m));
  if (!c.rank_loads.empty()) lines.push_back(rank_loads_text(c.rank_loads, "s"));
  auto const [dominant, operation] = c.dominant();
  for (auto& line : remarks_on(c.limits, dominant, operation)) lines.push_back(std::move(line));
  if (asked > 0 && c.parts.parts < asked && c.parts.parts > 0)
    lines.push_back("only " + plural(c.parts.parts, "stage") + " instead of " + std::to_string(asked) +
                    ": the model has " + plural(m.nodes_to_place(), "node") + " to place");
  if (auto const sizes = summary_of(m); sizes.unsized > 0)
    lines.push_back(cleave::count_text(sizes.unsized) + " of " + plural(sizes.made, "value") +
                    " have no known shape; " + lost_shape_text(m));
  if (m.costs.bounded > 0)
    lines.push_back(plural(m.costs.bounded, "node") +
                    " priced by the upper bounds of their sizes, which depend on the data of a run");
  if (!c.notes.unsized.empty())
    lines.push_back("unknown size, counted as 0 bytes: " + names(c.notes.unsized) +
                    " (set sizes with --dim or --shape)");
  if (c.advice) lines.push_back(advice_text(*c.advice));
  auto const tie_text = [&](cleave::onnx::notes::tie const& t) {
    return cleave::quoted(m.graph.name_of(t.storage)) + " in " +
           first_of(t.stages, 8, [](auto i) { return std::to_string(index(i)); });
  };
  if (auto const ties = ties_of(m, c); !ties.empty())
    lines.push_back("weights in several stages, to be kept equal in training: " +
                    first_of(ties, 3, tie_text));
  if (!c.notes.carried.empty()) lines.push_back(carried_text(carried_of(m, c), c.stages.size()));
  if (!c.notes.passed.empty())
    lines.push_back("outputs that no stage makes, since the caller has them: " + names(c.notes.passed));
  if (!c.notes.copied.empty())
    lines.push_back(
        constants_text(c.notes) +
        "; none of these results is sent, and they cost nothing: runtimes make them once, at load");
  if (!c.notes.not_copied.empty())
    lines.push_back(plural(c.notes.not_copied.size(), "node") + " of weights alone not copied, since " +
                    (c.notes.not_copied.size() == 1 ? "it" : "they") + " may be random: " +
                    first_of(c.notes.not_copied, 4, [&](auto n) { return cleave::quoted(m.graph.name(n)); }));
  if (!c.notes.untyped.empty())
    lines.push_back("of unknown type, so that no cut can send them: " + names(c.notes.untyped) +
                    " (give shapes and types with --shape)");
  if (!c.notes.dead.empty())
    lines.push_back(plural(c.notes.dead.size(), "node") + " left out: no output needs them");
  if (!c.notes.external.empty() && weights == cleave::onnx::weights::reference)
    lines.push_back("external weights, to be copied to the folder of the stages: " +
                    first_of(c.notes.external, 4, [](auto const& name) { return cleave::quoted(name); }) +
                    " (--weights split or link does so)");
  return lines;
}

/// Returns how the costs of a model are estimated.
inline std::string cost_origin_text() {
  constexpr cleave::onnx::rates r;
  return "static model: the slower of " + cleave::amount_text(r.flops, "FLOP/s") + " and " +
         cleave::amount_text(r.bytes, "B/s") + " of memory, and " + cleave::amount_text(1 / r.nodes, "s") +
         " to start a node";
}

/// Returns the report without the run.
inline cleave::report report_of(model const& m, cut const& c, std::vector<fs::path> const& files) {
  auto const& s = c.stages.snapshot();
  auto const describe = [&](auto n) {
    auto const name = std::string(m.graph.name(s.node[n]));
    return cleave::report_node{name.empty() ? "#" + std::to_string(s.node[n]) : name,
                               m.graph.proto(s.node[n]).op_type(), s.weight[n]};
  };
  auto r = cleave::report_of(s, c.stages.plan(), describe,
                             [&](auto v) { return std::string(m.graph.name_of(s.value[v])); });
  r.title = file_title(m.path);
  r.facts = facts_of(m);
  if (!c.notes.copied.empty()) r.facts.push_back({"Run at load", plural(c.notes.copied.size(), "node")});
  r.cut = c.boxes;
  r.cost_unit = "s";
  for (auto const& f : files) r.files.push_back(f.filename().string());
  r.balance = cleave::report_balance{c.proof.objective, c.parts.loads, c.parts.bound, c.proof.lacking};
  if (!c.rank_loads.empty()) {  // the bound is for ranks, the table has stages
    r.balance->bound = 0;
    r.facts.push_back({"Largest load of a rank", cleave::amount_text(c.proof.bottleneck, "s")});
  }
  r.balance->predicted = predicted_costs(m, c);
  if (m.measured) r.facts.push_back({"Costs measured in", file_title(m.measured->path)});
  if (c.advice) r.balance->advice = advice_text(*c.advice);
  r.cost_origin = m.measured ? "measured, in " + file_title(m.measured->path) : cost_origin_text();
  return r;
}

}  // namespace tool
