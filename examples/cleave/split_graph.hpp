// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cleave/core/name_digest.hpp>
#include <cleave/formats/files/durable_file.hpp>
#include <cleave/formats/graph_files/module_dag.hpp>
#include <cleave/formats/graph_json.hpp>
#include <cleave/graph/costed_module_graph.hpp>
#include <cleave/split/carried_values.hpp>
#include <cleave/split/modules/split_hierarchy.hpp>
#include <cleave/split/modules/split_module.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "cut.hpp"
#include "graph_copies.hpp"
#include "graph_costs.hpp"
#include "graph_facts.hpp"
#include "map_stages.hpp"
#include "measured.hpp"
#include "model.hpp"

namespace tool {

/// Returns the graph with the costs of a file in its metadata, and those costs.
/// \throws cleave::error if the file does not fit the graph
inline std::pair<cleave::costed_module_graph, measured_costs> with_costs(cleave::costed_module_graph const& g,
                                                                         cost_file const& file) {
  auto const s = cleave::snapshot_of(g);
  cost_names names;
  std::vector<std::uint32_t> place(g.list().size(), cleave::none<std::uint32_t>);
  for (std::uint32_t i = 0; i < s.nodes(); ++i) {
    names.nodes.push_back(g[s.node[i]].name);
    place[s.node[i]] = i;
  }
  auto measured = assign_costs(file, s, names);
  cleave::module_graph priced;
  priced.metadata = g.metadata;
  std::erase_if(priced.metadata, is_about_costs);
  priced.metadata.push_back({"cost_unit", {std::string("s")}});
  priced.metadata.push_back({"cost_origin", {"measured, in " + file_title(file.path)}});
  for (auto const& a : g.attributes()) priced.add_attribute(a);
  auto const set = [](cleave::module_node& n, std::string const& key, cleave::module_argument value) {
    std::erase_if(n.metadata, [&](auto const& entry) { return entry.key == key; });
    n.metadata.push_back({key, std::move(value)});
  };
  for (std::uint32_t at = 0; at < g.list().size(); ++at) {
    auto node = g[at];
    if (auto const i = place[at]; i != cleave::none<std::uint32_t>) {
      bool const priced_before = cleave::detail::cost_of(g, at).cost.has_value();
      if (measured.origin[i] != cost_origin::scaled || priced_before) set(node, "cost", {measured.cost[i]});
      if (auto const& sizes = measured.result_bytes[i]; sizes.size() == 1)
        set(node, "bytes", {static_cast<std::int64_t>(sizes.front())});
    }
    priced.add(std::move(node));
  }
  return {cleave::costed_module_graph(std::move(priced)), std::move(measured)};
}

/// A node's tag and path are its metadata `tag` and `path`; its operation is the target of the call. It
/// belongs to the module that it calls, or to that of the first attribute that it reads.
inline std::vector<node_facts> facts_of_nodes(cleave::module_graph const& g) {
  std::vector<node_facts> facts;
  for (auto const n : g.nodes()) {
    facts.push_back({g[n].target, {}, {}});
    auto& owner = facts.back().owner;
    if (g[n].kind == cleave::node_kind::call_module) owner = g[n].target;
    for (auto const v : g.operands(n))
      if (std::string_view const path = g[v].target;
          owner.empty() && g[v].kind == cleave::node_kind::get_attr)
        owner = path.substr(0, path.find('.') == path.npos ? 0 : path.rfind('.'));
    for (auto const& [key, value] : g[n].metadata) {
      auto const* text = value.size() == 1 ? std::get_if<std::string>(&value.front()) : nullptr;
      if (text != nullptr && key == "tag") facts.back().tag = *text;
      if (text != nullptr && key == "path") facts.back().path = *text;
    }
  }
  return facts;
}

/// Returns the names of the calls, in order.
inline std::vector<std::string> call_names(cleave::module_graph const& g) {
  std::vector<std::string> names;
  for (auto const n : g.nodes()) names.push_back(g[n].name);
  return names;
}

/// Number and total cost of the calls of a graph, including those in the bodies of its modules. Copies are
/// free.
inline std::pair<std::size_t, double> work_of(cleave::module_graph const& g) {
  std::pair<std::size_t, double> work;
  std::vector<cleave::module_graph const*> rest{&g};
  while (!rest.empty()) {
    auto const& at = *rest.back();
    rest.pop_back();
    for (auto const n : at.nodes()) {
      auto const* a = at.find_attribute(at[n].target);
      if (at[n].kind == cleave::node_kind::call_module && a != nullptr && !a->body.empty())
        rest.push_back(&a->body.front());
      else
        ++work.first;
      auto const known = cleave::detail::cost_of(at, n);
      work.second += known.replicable ? 0 : known.cost.value_or(0);
    }
  }
  return work;
}

/// What the tool says about one piece.
struct piece_facts {
  std::size_t nodes = 0, inputs = 0, outputs = 0;
  double cost = 0;

  explicit piece_facts(cleave::module_graph const& g)
      : inputs(g.inputs().size()), outputs(g.outputs().size()) {
    std::tie(nodes, cost) = work_of(g);
  }
};

/// A graph cut into pieces, with the facts that the tool prints and writes.
struct split_graph_result {
  cleave::module_graph outer{};
  std::vector<std::string> names{};    ///< of the pieces, as in the outer graph
  std::vector<piece_facts> pieces{};   ///< in step with `names`
  cleave::balanced_partition parts{};  ///< for rules other than cuts inside modules
  certificate proof{};                 ///< for these parts
  cut_limits limits{};
  std::vector<double> rank_loads{};     ///< if ranks are balanced
  std::string dominant{}, operation{};  ///< of the node that bounds the largest load
  cleave::report report{};              ///< about these parts, without its title and facts
  std::vector<named_carried_value> carried{};
  std::vector<std::string> remarks{};
  std::optional<framework_plan> plan{};
  std::optional<placed_ranks> hosts{};

  cleave::module_graph const& graph(std::size_t i) const {
    return outer.find_attribute(names[i])->body.front();
  }
};

/// Writes the stage map of a cut into `parts`.
template <class Snapshot>
void write_map_of(cleave::costed_module_graph const& g, Snapshot const& s, cleave::partition const& parts,
                  map_options const& to) {
  std::vector<std::string> nodes, modules;
  for (std::uint32_t n = 0; n < s.nodes(); ++n) {
    auto const& node = g[s.node[n]];
    nodes.push_back(node.name);
    modules.push_back(node.kind == cleave::node_kind::call_module ? node.target : "");
  }
  write_map(to, s, cleave::make_plan(s, parts), unique_names(std::move(nodes)), modules,
            [&](auto v) { return g[v].kind == cleave::node_kind::get_attr ? g[v].target : g[v].name; });
}

/// Cuts a graph. Unless the pieces are kept, the result has no graphs of them, and only one is in memory at a
/// time. \throws cleave::error with the node or module that breaks the rule.
inline split_graph_result cut_graph(cleave::costed_module_graph const& g, cut_options const& options,
                                    map_options const& map, bool reports, bool keeps_pieces) {
  using position = cleave::module_graph::position;
  auto const names_of = [](cleave::module_graph const& outer) {
    std::vector<std::string> names;
    for (auto const n : outer.nodes())
      if (auto const* a = outer.find_attribute(outer[n].target); a != nullptr && !a->body.empty())
        names.push_back(outer[n].target);
    return names;
  };
  auto const facts =
      reads_facts(options.rule, options.plan().has_value()) ? facts_of_nodes(g) : std::vector<node_facts>();
  bool const flat = std::ranges::any_of(facts, [](auto const& f) { return !f.path.empty(); });
  if (options.rule.what == cut_rule::kind::modules && !flat) {
    for (auto const& [name, given] : {std::pair("--map", !map.file.empty()),
                                      {"--report", reports},
                                      {"--for", options.plan_for.has_value()},
                                      {"--hosts", !options.hosts.empty()}})
      if (given)
        throw usage_error(std::string(name) +
                          " is for cuts between the nodes of a graph, not for cuts inside its modules");
    if (g.carries())
      throw usage_error(
          "--by modules cuts inside the modules of this graph, where values that a run leaves for the next "
          "(`carried`) are not kept in one stage; choose another --by");
    auto outer = cleave::split_hierarchy(g, options.rule.words).outer;
    auto names = names_of(outer);
    std::vector<piece_facts> pieces;
    for (auto const& name : names) pieces.emplace_back(outer.find_attribute(name)->body.front());
    return {std::move(outer), std::move(names), std::move(pieces)};
  }
  auto s = cleave::snapshot_of(g);
  if ((options.rule.what == cut_rule::kind::balance || options.plan()) && !g.has_costs())
    throw cleave::error(
        options.plan() ? "no node has a `cost`, by which plans are compared; give the nodes costs"
                       : "no node has a `cost`, which --by balance needs; give the nodes costs, or choose "
                         "another --by");
  auto const unit = unit_of(g);
  auto const cost_per_byte = cost_per_byte_of(options, unit);
  auto made = cut_by_rule(options, g, s, facts, cost_per_byte, unit.name);
  auto& parts = made.parts;
  if (!map.file.empty()) write_map_of(g, s, parts, map);
  auto plan = cleave::make_plan(s, parts);
  auto& proof = made.proof;
  proof.bottleneck *= unit.of_name;
  if (proof.bound) *proof.bound *= unit.of_name;
  proof.lacking = cleave::unpriced_calls(g, cost_per_byte);
  for (auto& load : made.rank_loads) load *= unit.of_name;
  if (made.plan) {
    made.plan->own.largest *= unit.of_name;
    if (made.plan->best) made.plan->best->largest *= unit.of_name;
  }
  split_graph_result result{.parts = parts,
                            .proof = proof,
                            .limits = made.limits,
                            .rank_loads = std::move(made.rank_loads),
                            .plan = std::move(made.plan)};
  if (made.limits.node) {
    auto const& node = g[s.node[*made.limits.node]];
    result.dominant = node.name;
    result.operation = node.target.empty() ? "call" : node.target;
  }
  if (reports) {
    result.report = report_of(g, s, plan, parts, proof, unit);
    if (!result.rank_loads.empty()) result.report.balance->bound = 0;  // the bound is for ranks
  }
  result.remarks = remarks_on(g, s, options, unit);
  auto const carried = cleave::carried_values(s, plan);
  std::vector<std::pair<position, position>> kept;
  for (auto const& v : carried) kept.emplace_back(s.value[v.past], s.value[v.present]);
  auto const copies = with_copies(g, s, plan);
  s = {};  // the pieces need the memory
  plan = {};
  std::size_t next = 0;  // calls come in the order of nodes()
  auto const part_of = [&](cleave::module_node const&) { return copies.stage[next++]; };
  std::map<std::string, piece_facts> facts_of_piece;
  std::map<std::string, std::string> path_of_label;
  auto const take = [&](cleave::module_piece const& piece, cleave::module_graph& graph) {
    facts_of_piece.emplace(piece.path, graph);
    path_of_label.emplace(piece.label, piece.path);
    if (!keeps_pieces) graph = {};
  };
  result.outer = cleave::split_module(copies.made ? *copies.made : g, part_of, {}, take).outer;
  if (copies.made) result.outer = with_origins(result.outer, copies.original, true);
  result.names = names_of(result.outer);
  for (auto const& name : result.names) result.pieces.push_back(facts_of_piece.at(name));
  for (std::size_t i = 0; i < kept.size(); ++i) {
    auto const& path = path_of_label.at(std::to_string(index(carried[i].stage)));
    auto const at = std::ranges::find(result.names, path) - result.names.begin();
    result.carried.push_back(
        {static_cast<std::uint32_t>(at), value_name(g, kept[i].first), value_name(g, kept[i].second)});
  }
  if (!result.carried.empty()) result.remarks.push_back(carried_text(result.carried, result.names.size()));
  if (!options.hosts.empty()) {
    bool const places = options.place && options.place->stages() == result.names.size();
    auto const rank_of = places ? options.place->rank_of : std::vector<cleave::rank_id>();
    result.hosts.emplace(options.hosts, result.names.size(), rank_of);
  }
  return result;
}

inline constexpr std::string_view outer_name = "outer.json";

/// Returns `stage_4.json` for 4.
inline std::string piece_name(std::size_t i) { return "stage_" + std::to_string(i) + ".json"; }

/// Returns whether `name` is `stage_<number>.json`.
inline bool is_piece_name(std::string_view name) {
  if (!name.starts_with("stage_")) return false;
  name.remove_prefix(6);
  auto const digits = std::min(name.find_first_not_of("0123456789"), name.size());
  return digits > 0 && name.substr(digits) == ".json";
}

/// Identifies a graph by the kinds and names of its nodes, ignoring costs. O(nodes).
inline std::string graph_mark(cleave::module_graph const& g) {
  cleave::name_digest names;
  for (auto const n : g.nodes()) names.add(g[n].name).add(g[n].target);
  return names.text();
}

/// Key in the metadata of each piece and of the outer graph; its value is the mark of the graph that was cut.
inline constexpr char graph_mark_key[] = "cleave.graph";

/// Writes a graph as JSON, with other metadata and the mark, to a new file among `files`.
/// \throws cleave::file_error
inline void add_marked_json(cleave::pending_files& files, std::string const& name,
                            cleave::module_graph const& g, std::vector<cleave::keyword_argument> metadata,
                            std::string const& mark) {
  std::erase_if(metadata, [](auto const& entry) { return entry.key == graph_mark_key; });
  metadata.push_back({graph_mark_key, {mark}});
  auto& file = files.add(name);
  std::uint64_t written = 0;
  auto const put = [&](std::string const& part) {
    file.write(written, bytes_of(part));
    written += part.size();
  };
  cleave::detail::graph_json_writer(cleave::json::writer::layout::indented, put).write(g, metadata);
  file.finish();
}

/// Returns the mark of a text written by `add_marked_json`, or nothing.
inline std::optional<std::string> find_graph_mark(std::string text) {
  try {
    for (auto const& [key, value] : cleave::read_graph_json(std::move(text)).metadata)
      if (key == graph_mark_key && value.size() == 1)
        if (auto const* mark = std::get_if<std::string>(&value.front())) return *mark;
  } catch (cleave::error const&) {  // not a graph
  }
  return std::nullopt;
}

/// Returns the files of an earlier cut in a folder, which a new cut replaces.
/// \throws cleave::error if a file is not a piece of a cut, or is of another graph
inline std::vector<std::string> earlier_pieces(fs::path const& folder, std::string const& mark,
                                               typed_words const& typed) {
  std::vector<std::string> names;
  for (auto const& entry : fs::directory_iterator(folder))
    if (auto const name = entry.path().filename().string(); name == outer_name || is_piece_name(name))
      names.push_back(name);
  std::ranges::sort(names);
  for (auto const& name : names) {
    bool const is_file = fs::is_regular_file(folder / name);  // reading a pipe would block
    auto const text = is_file ? read_text(folder / name) : "";
    auto const found = !is_file ? std::nullopt : text.empty() ? std::optional(mark) : find_graph_mark(text);
    if (found && (typed.overwrite || *found == mark)) continue;
    throw cleave::error(cleave::printable((folder / name).string()) + ": is " +
                        (found ? "a stage of another graph" : "not a graph that cleave wrote") +
                        "; move it, or choose another folder");
  }
  return names;
}

/// Writes the outer graph and each piece, and removes those of an earlier cut. Returns the paths of the
/// pieces. \throws cleave::error
inline std::vector<fs::path> write_pieces(fs::path const& folder, split_graph_result const& cut,
                                          std::string const& mark, typed_words const& typed) {
  make_folder(folder);
  auto const earlier = earlier_pieces(folder, mark, typed);
  cleave::pending_files files(folder.string());
  add_marked_json(files, std::string(outer_name), cut.outer, cut.outer.metadata, mark);
  std::vector<fs::path> paths;
  for (std::size_t i = 0; i < cut.names.size(); ++i) {
    auto metadata = cut.graph(i).metadata;
    for (auto const& entry : cut.outer.metadata)
      if (is_about_costs(entry) &&
          std::ranges::find(metadata, entry.key, &cleave::keyword_argument::key) == metadata.end())
        metadata.push_back(entry);
    add_marked_json(files, piece_name(i), cut.graph(i), std::move(metadata), mark);
    paths.push_back(folder / piece_name(i));
  }
  files.keep(earlier);
  return paths;
}

/// `cleave split GRAPH.json`: writes each piece as a graph, and outer.json, which calls the pieces.
inline int split_graph(fs::path const& path, cut_options const& options, map_options const& map,
                       std::string const& out, typed_words const& typed, output_file const& report_file,
                       bool as_json, std::optional<cost_file> const& costs) {
  auto g = read_graph(path);
  std::optional<measured_costs> measured;
  if (costs) {
    auto priced = with_costs(g, *costs);
    g = std::move(priced.first);
    measured = std::move(priced.second);
  }
  auto const unit = unit_of(g);
  auto cut = cut_graph(g, options, map, !report_file.empty(), !out.empty());
  auto const files = out.empty() ? std::vector<fs::path>{} : write_pieces(out, cut, graph_mark(g), typed);
  cleave::json::writer json(cleave::json::writer::layout::indented);
  json.open_object().member("file", given_name(path)).member("unit", unit.name).key("stages").open_array();
  std::vector<std::vector<std::string>> rows = {
      {"stage", "name", "nodes", measured ? "measured" : "cost", "inputs", "outputs"}};
  std::vector<double> predicted(measured ? cut.parts.parts : 0);
  for (std::size_t i = 0; i < cut.parts.of.size() && measured; ++i)
    if (cut.parts.of[i] != cleave::no_part) predicted[index(cut.parts.of[i])] += measured->predicted[i];
  if (!predicted.empty()) rows[0].insert(rows[0].begin() + 3, "predicted");
  for (std::size_t i = 0; i < cut.names.size(); ++i) {
    auto const& piece = cut.pieces[i];
    rows.push_back({std::to_string(i), cleave::printable(cut.names[i]), cleave::count_text(piece.nodes),
                    cost_text(piece.cost, unit), std::to_string(piece.inputs),
                    std::to_string(piece.outputs)});
    if (i < predicted.size()) rows.back().insert(rows.back().begin() + 3, cost_text(predicted[i], unit));
    json.open_object().member("name", cut.names[i]).member("nodes", piece.nodes);
    json.member("cost", piece.cost * unit.of_name);
    if (i < predicted.size()) json.member("predicted_cost", predicted[i] * unit.of_name);
    json.member("inputs", piece.inputs).member("outputs", piece.outputs);
    if (i < files.size()) json.member("file", files[i].string());
    json.close_object();
  }
  json.close_array();
  if (measured) add_measured(json, *measured);
  if (cut.plan) add_plan(json, *cut.plan);
  if (cut.hosts) cut.hosts->add_to(json);
  if (!cut.rank_loads.empty()) {
    json.key("rank_loads").open_array();
    for (auto const load : cut.rank_loads) json.value(load);
    json.close_array();
  }
  add_carried(json, cut.carried);
  if (cut.parts.parts > 0) {
    add_certificate(json, cut.proof);
    add_limits(json, cut.limits, cut.dominant, cut.operation);
  }
  if (!report_file.empty()) {
    cut.report.title = file_title(path);
    cut.report.facts = facts_of(g);
    for (auto const& f : files) cut.report.files.push_back(f.filename().string());
    write_page(report_file, cleave::write_report(cut.report));
  }
  if (as_json) {
    print(json.close_object().text() + "\n");
    return 0;
  }
  print(bold(short_name(path) + " in " + plural(cut.names.size(), "stage")) + "\n");
  print(table_text(rows));
  if (cut.parts.parts > 0 && cut.parts.bottleneck > 0) print("  " + sentence_of(cut.proof) + "\n");
  if (!cut.rank_loads.empty()) print("  note: " + rank_loads_text(cut.rank_loads, unit.name) + "\n");
  for (auto const& line : remarks_on(cut.limits, cut.dominant, cut.operation))
    print("  note: " + line + "\n");
  if (measured)
    for (auto const& line : remarks_on(*measured, call_names(g))) print("  note: " + line + "\n");
  if (cut.parts.parts > 0 && !cut.proof.lacking.leaves_bounds())
    print("  note: give each call its `cost`, 0 if it is free" +
          std::string(cut.proof.lacking.values > 0 ? ", and its `bytes`" : "") + "\n");
  if (options.rule.what == cut_rule::kind::balance && cut.parts.parts < options.stages) {
    auto const copied = static_cast<std::size_t>(std::ranges::count(cut.parts.of, cleave::no_part));
    print("  note: only " + plural(cut.parts.parts, "stage") + " instead of " +
          std::to_string(options.stages) + ": the graph has " + plural(cut.parts.of.size() - copied, "node") +
          " to place\n");
  }
  for (auto const& line : cut.remarks) print("  note: " + line + "\n");
  if (cut.hosts)
    for (auto const& line : cut.hosts->lines({})) print("  " + line + "\n");
  if (cut.plan) print(lines_of(*cut.plan, unit.name));
  for (auto const& f : files) print("  " + shown(f) + "\n");
  if (!files.empty()) print("  " + shown(fs::path(out) / outer_name) + " calls them\n");
  print(written_line(map.file) + written_line(report_file));
  return 0;
}

}  // namespace tool
