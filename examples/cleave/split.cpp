// SPDX-License-Identifier: MIT
// cleave split MODEL.onnx -k 4 --out DIR: cuts a model into balanced stages and writes each stage as a model.
#include <array>
#include <cleave/adapt/onnx/write.hpp>
#include <cleave/draw/graph_svg.hpp>
#include <cleave/draw/report.hpp>
#include <cstdint>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <string_view>
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

std::vector<tied_weight> tied_weights(model const& m, cut const& c) {
  std::vector<tied_weight> ties;
  for (auto const& t : ties_of(m, c)) ties.push_back({std::string(m.graph.name_of(t.storage)), t.stages});
  return ties;
}

/// Sets the text of a plan for onnxruntime-genai: the stages in the order in which they run, in the files
/// that
/// `--out` writes.
void write_pipeline_to(framework_plan& plan, model const& m, cut const& c) {
  std::vector<cleave::genai_stage> stages;
  auto const& s = c.stages.snapshot();
  for (auto const id : c.stages.plan().order) {
    auto const& stage = c.stages.plan().stages[index(id)];
    auto const name = "stage_" + std::to_string(index(id));
    stages.push_back({name, name + ".onnx", {}, {}});
    for (auto const& [values, names] :
         {std::pair(&stage.inputs, &stages.back().inputs), std::pair(&stage.outputs, &stages.back().outputs)})
      for (auto const v : *values) names->emplace_back(m.graph.name_of(s.value[v]));
  }
  plan.own.text = cleave::write_genai_pipeline(stages);
}

/// \throws usage_error if a schedule has several stages per rank, in a way that the framework has not
void require_places(cut_options const& options) {
  if (!options.plan_for || !options.place || options.place->stages() == options.place->ranks) return;
  auto const f = *options.plan_for;
  if (f == framework::torchtitan || f == framework::ort_genai) return;
  auto const stages = static_cast<std::uint32_t>(options.place->stages());
  if (f != framework::megatron)
    throw usage_error("--for " + option_name(f) + ": " + full_name(f) +
                      " runs one stage per rank, the schedule has " + std::to_string(stages) + " stages on " +
                      plural(options.place->ranks, "rank"));
  if (stages % options.place->ranks != 0 ||
      options.place->rank_of !=
          cleave::map_stages(cleave::map_style::loop, options.place->ranks, stages).rank_of)
    throw usage_error(
        "--for megatron: Megatron-LM places stages round-robin, the schedule does not; take one such as "
        "Interleaved1F1B");
}

/// \throws usage_error if --layers is given and no plan has layers
void require_plan(cut_options const& options) {
  bool const reads = options.rule.what == cut_rule::kind::plan && options.rule.from != framework::ort_genai;
  bool const writes = options.plan_for && *options.plan_for != framework::ort_genai;
  if (!options.layers.empty() && !reads && !writes)
    throw usage_error("--layers is for plans of layers: give --for, as in --for vllm, or --by with a plan");
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
            "MODEL.onnx | GRAPH.json | LAYERS.csv",
            "Cuts a model into stages that are balanced by cost and transferred bytes, or assigned by "
            "another rule.\n"
            "Nodes that depend on weights alone are copied into the stages that read their results. No cut\n"
            "sends a value of unknown type. The file - is standard input.",
            {}};
  add_cut_options(c, options);
  c.options.push_back(file_to_read("--costs", "FILE",
                                   "measured costs of nodes: a profile of onnxruntime, or CSV with "
                                   "name,time[,bytes] (s, or a unit as in 1.5ms)",
                                   costs));
  add_rule_options(c, options.rule);
  add_plan_options(c, options);
  c.options.push_back(folder_to_write(
      "-o", "--out", "write stage_0.onnx (.json for a graph), stage_1.onnx, ... to this folder", out,
      [](auto name) {
        return cleave::onnx::is_stage_name(name) || is_piece_name(name) || name == outer_name;
      }));
  c.options.push_back(choice_option(
      "--weights", "HOW", std::array<std::string_view, 3>{"reference", "split", "link"},
      "weights in files of their own: refer to them, split them by stage, or make hard links (reference)",
      [&](std::size_t at) {
        using enum cleave::onnx::weights;
        weights = std::array{reference, split, link}[at];
      }));
  c.options.push_back(file_to_write("", "--report", "write a report as a self-contained HTML page",
                                    report_file, is_own_page));
  add_map_options(c, map);
  c.options.push_back(json_flag(as_json));
  c.options.push_back(
      form_flag("--svg", "print a picture of the graph, coloured by stage, instead of text", as_picture));
  add_type_options(c, types);
  auto typed = read_options(c, words);
  auto const path = only_operand(typed.operands);
  if (options.counted && options.rule.what != cut_rule::kind::balance)
    note("-k has no effect here: it applies to --by balance; other rules determine the number of stages");
  require_plan(options);
  bool const reads_pipeline =
      options.rule.what == cut_rule::kind::plan && options.rule.from == framework::ort_genai;
  read_places(map, options);
  require_places(options);
  bool const is_graph = is_graph_file(path);
  if (as_picture && (as_json || is_graph))
    throw usage_error("--svg is for ONNX models and cannot be combined with --json");
  if (is_graph) require_no_sizes(types);
  if (is_graph && (reads_pipeline || options.plan_for == framework::ort_genai))
    throw usage_error("ort-genai is for ONNX models, whose stages onnxruntime-genai runs");
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
  auto cut = cut_model(m, options, doing);
  std::vector<fs::path> files;
  if (!out.empty()) {
    doing("writing the stages");
    files = cleave::onnx::write_stages(
        cut.stages, m.types, out,
        {.replace = replaced_by(typed), .weights = weights, .model_folder = folder_of(m.path)});
  }
  if (cut.plan && cut.plan->what == framework::ort_genai) write_pipeline_to(*cut.plan, m, cut);
  if (!report_file.empty()) write_page(report_file, cleave::write_report(report_of(m, cut, files)));
  if (!map.file.empty()) write_map_of(m, cut, map);
  doing.clear();

  if (as_picture) {
    print(cleave::write_graph_svg(cut.stages.snapshot(), cut.parts,
                                  (is_standard(m.path) ? input_name(m.path) : m.path.stem().string()) +
                                      " in " + plural(cut.stages.size(), "stage")));
    return 0;
  }
  if (as_json) {
    print(json_of(m, cut, files, asked, weights));
    return 0;
  }
  print(bold(short_name(m.path) + " in " + plural(cut.stages.size(), "stage")) + "\n");
  print(table_of(m, cut));
  for (auto const& line : remarks_on(m, cut, asked, weights)) print("  note: " + line + "\n");
  if (cut.hosts)
    for (auto const& line : cut.hosts->lines(tied_weights(m, cut))) print("  " + line + "\n");
  if (cut.plan) print(lines_of(*cut.plan, "s"));
  for (auto const& f : files) print("  " + shown(f) + "\n");
  print(written_line(map.file) + written_line(report_file));
  return 0;
}

}  // namespace tool
