// SPDX-License-Identifier: MIT
// cleave split MODEL.onnx -k 4 --out DIR: cuts a model into balanced stages and writes each as a model.
//
// --json writes one object:
//   file                        of the model
//   stages                      a list of
//     nodes                     positions in the file
//     cost, share               estimated seconds, and as a multiple of an even share
//     load                      cost at the stage's speed and what its transfers cost, in seconds
//     weight_, in_, out_bytes   null where a size is unknown
//     inputs, outputs           names of values
//     file                      with --out only
//   transfers                   [{value, from, to, bytes}] between stages
//   bottleneck, bound, gap      the largest load; below bound no cut can be; bottleneck / bound - 1
//   ties                        [{weight, stages}]: one weight in several stages
//   passed                      outputs that no stage makes
//   remarks                     what the text says below the table
#include <cleave/adapt/onnx/write.hpp>
#include <cleave/io/json_writer.hpp>
#include <cleave/io/report.hpp>
#include <cstddef>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "cut.hpp"
#include "model.hpp"
#include "subcommands.hpp"

namespace tool {

namespace {

std::string json_of(model const& m, cut const& c, std::vector<fs::path> const& files, std::uint32_t asked) {
  cleave::json_writer json(cleave::json_writer::layout::indented);
  auto const& s = c.stages.snapshot();
  auto const name = [&](auto v) { return m.graph.name_of(s.value[v]); };
  auto const bytes = [&](char const* key, cleave::byte_sum const& sum) {
    json.key(key);
    sum.unknown > 0 ? json.null() : json.value(sum.known);
  };
  auto const list = [&](char const* key, auto const& items, auto show) {
    json.key(key).open_array();
    for (auto const& item : items) json.value(show(item));
    json.close_array();
  };
  double total = 0;
  for (auto const& box : c.boxes.stages) total += box.cost;

  json.open_object().member("file", m.path.string()).key("stages").open_array();
  for (std::size_t i = 0; i < c.stages.size(); ++i) {
    auto const& box = c.boxes.stages[i];
    auto const& stage = c.stages.plan().stages[i];
    json.open_object();
    list("nodes", stage.nodes, [&](auto n) { return s.node[n]; });
    json.member("cost", box.cost)
        .member("share", total > 0 ? box.cost * static_cast<double>(c.stages.size()) / total : 1);
    json.member("load", c.parts.loads[i]);
    bytes("weight_bytes", box.state), bytes("in_bytes", box.in), bytes("out_bytes", box.out);
    list("inputs", stage.inputs, name), list("outputs", stage.outputs, name);
    if (i < files.size()) json.member("file", files[i].string());
    json.close_object();
  }
  json.close_array().key("transfers").open_array();
  for (auto const& t : c.stages.plan().transfers) {
    json.open_object().member("value", name(t.value)).member("from", index(t.from)).member("to", index(t.to));
    bytes("bytes", {s.bytes[t.value], s.bytes[t.value] == 0});
    json.close_object();
  }
  json.close_array()
      .member("bottleneck", c.parts.bottleneck)
      .member("bound", c.parts.bound)
      .member("gap", c.parts.gap());
  json.key("ties").open_array();
  for (auto const& t : ties_of(m, c)) {
    json.open_object().member("weight", m.graph.name_of(t.storage));
    list("stages", t.stages, [](auto i) { return index(i); });
    json.close_object();
  }
  json.close_array();
  list("passed", c.notes.passed, [&](auto v) { return m.graph.name_of(v); });
  list("remarks", remarks_on(m, c, asked), [](auto const& line) { return line; });
  return json.close_object().text() + "\n";
}

}  // namespace

int split(std::span<std::string const> words) {
  bool as_json = false;
  cut_options options;
  cleave::onnx_type_options types;
  std::string out, report_file;
  command c{
      "split", "MODEL.onnx", "Cuts a model into stages that are balanced by cost and transferred bytes.", {}};
  add_cut_options(c, options);
  c.options.push_back({"-o", "--out", "DIR", "a folder", "write stage_0.onnx, stage_1.onnx, ... there",
                       [&](auto text) { return !(out = text).empty(); }});
  c.options.push_back({"", "--report", "FILE", "a file name", "write a report as a self-contained HTML page",
                       [&](auto text) { return !(report_file = text).empty(); }});
  c.options.push_back(flag("--json", "one JSON object instead of text", as_json));
  add_type_options(c, types);
  auto const path = only_operand(read_options(c, words));

  progress const doing;
  auto const m = read_model(path, types, doing);
  auto const cut = cut_model(m, options, doing);
  std::vector<fs::path> files;
  if (!out.empty()) {
    doing("writing the stages");
    files = cleave::write_onnx_stages(cut.stages, m.types, out);
  }
  if (!report_file.empty()) write_file(report_file, cleave::write_report(report_of(m, cut, files)));
  doing.clear();

  if (as_json) {
    print(json_of(m, cut, files, options.stages));
    return 0;
  }
  print(bold(cleave::printable(m.path.filename().string()) + " in " + plural(cut.stages.size(), "stage")) +
        "\n");
  print(table_of(cut));
  for (auto const& line : remarks_on(m, cut, options.stages)) print("  note: " + line + "\n");
  for (auto const& f : files) print("  " + shown(f) + "\n");
  if (!report_file.empty()) print("  " + shown(report_file) + "\n");
  return 0;
}

}  // namespace tool
