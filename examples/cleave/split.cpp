// SPDX-License-Identifier: MIT
// cleave split MODEL.onnx -k 4 --out DIR: cuts a model into balanced stages and writes each stage as a model.
#include <cleave/adapt/onnx/write.hpp>
#include <cleave/draw/graph_svg.hpp>
#include <cleave/draw/report.hpp>
#include <cstdint>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cut.hpp"
#include "map_stages.hpp"
#include "model.hpp"
#include "own_files.hpp"
#include "split_graph.hpp"
#include "split_json.hpp"
#include "subcommands.hpp"

namespace tool {

namespace {

void write_map_of(model const& m, cut const& c, map_options const& to) {
  auto const& s = c.stages.snapshot();
  std::vector<std::string> nodes, modules;
  for (std::uint32_t n = 0; n < s.nodes(); ++n) {
    nodes.emplace_back(m.graph.proto(s.node[n]).name());
    modules.push_back(module_path_of(nodes.back()));
  }
  write_map(to, s, c.stages.plan(), unique_names(std::move(nodes)), modules,
            [&](auto v) { return std::string(m.graph.name_of(v)); });
}

}  // namespace

int split(std::span<std::string const> words) {
  bool as_json = false, as_picture = false;
  cut_options options;
  cleave::onnx::type_options types;
  auto weights = cleave::onnx::weights::reference;
  std::string out, costs;
  output_file report_file;
  map_options map;
  command c{"split",
            "MODEL.onnx | GRAPH.json",
            "Cuts a model into stages that are balanced by cost and transferred bytes, or assigned by "
            "another rule.\n"
            "Nodes that depend on weights alone are copied into the stages that read their results. No cut\n"
            "sends a value of unknown type.",
            {}};
  add_cut_options(c, options);
  c.options.push_back(file_to_read("--costs", "FILE",
                                   "measured costs of nodes: a profile of onnxruntime, or CSV with "
                                   "name,time[,bytes] (s, or a unit as in 1.5ms)",
                                   costs));
  add_rule_options(c, options.rule);
  c.options.push_back(folder_to_write(
      "-o", "--out", "write stage_0.onnx, stage_1.onnx, ... to this folder", out, [](auto name) {
        return cleave::onnx::is_stage_name(name) || is_piece_name(name) || name == outer_name;
      }));
  c.options.push_back(
      {"", "--weights", "HOW", "reference, split or link",
       "weights in files of their own: refer to them, split them by stage, or make hard links (reference)",
       [&](auto text) {
         using enum cleave::onnx::weights;
         for (auto const& [name, how] : {std::pair("reference", reference), {"split", split}, {"link", link}})
           if (text == name) return weights = how, true;
         return false;
       }});
  c.options.push_back(file_to_write("", "--report", "write a report as a self-contained HTML page",
                                    report_file, is_own_page));
  add_map_options(c, map);
  c.options.push_back(flag("--json", "print one JSON object instead of text", as_json));
  c.options.push_back(
      flag("--svg", "print a picture of the graph, coloured by stage, instead of text", as_picture));
  add_type_options(c, types);
  auto typed = read_options(c, words);
  auto const path = only_operand(typed.operands);
  if (options.counted && options.rule.what != cut_rule::kind::balance)
    note("-k has no effect here: it applies to --by balance; other rules determine the number of stages");
  read_places(map, options);
  bool const is_graph = path.extension() == ".json";
  if (as_picture && (as_json || is_graph))
    throw usage_error("--svg is for ONNX models and cannot be combined with --json");
  if (is_graph) require_no_sizes(types);
  if (weights != cleave::onnx::weights::reference && (out.empty() || is_graph))
    throw usage_error(is_graph ? "--weights is for ONNX models; a graph in JSON has no weights"
                               : "--weights needs --out, the folder that gets the weights");
  auto const measured = costs.empty() ? std::nullopt : std::optional(read_cost_file(costs));
  if (is_graph) return split_graph(path, options, map, out, typed, report_file, as_json, measured);
  auto const asked = options.rule.what == cut_rule::kind::balance ? options.stages : 0;

  progress const doing;
  auto m = read_model(path, types, doing);
  if (measured) apply_costs(m, *measured);
  require_external_kept(m, typed);
  auto const cut = cut_model(m, options, doing);
  std::vector<fs::path> files;
  if (!out.empty()) {
    doing("writing the stages");
    files = cleave::onnx::write_stages(
        cut.stages, m.types, out,
        {.replace = replaced_by(typed), .weights = weights, .model_folder = folder_of(m.path)});
  }
  if (!report_file.empty()) write_page(report_file, cleave::write_report(report_of(m, cut, files)));
  if (!map.file.empty()) write_map_of(m, cut, map);
  doing.clear();

  if (as_picture) {
    print(cleave::write_graph_svg(cut.stages.snapshot(), cut.parts,
                                  m.path.stem().string() + " in " + plural(cut.stages.size(), "stage")));
    return 0;
  }
  if (as_json) {
    print(json_of(m, cut, files, asked, weights));
    return 0;
  }
  print(bold(cleave::printable(m.path.filename().string()) + " in " + plural(cut.stages.size(), "stage")) +
        "\n");
  print(table_of(m, cut));
  for (auto const& line : remarks_on(m, cut, asked, weights)) print("  note: " + line + "\n");
  for (auto const& f : files) print("  " + shown(f) + "\n");
  if (!map.file.empty()) print("  " + shown(map.file.path) + "\n");
  if (!report_file.empty()) print("  " + shown(report_file.path) + "\n");
  return 0;
}

}  // namespace tool
