// SPDX-License-Identifier: MIT
// cleave demo MODEL.onnx -k 4: reads a model, cuts it, writes its stages, runs them as a pipeline, compares
// them with the whole, and writes a report.
#include <cleave/adapt/onnx/write.hpp>
#include <cleave/draw/report.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cut.hpp"
#include "demo_files.hpp"
#include "engine.hpp"
#include "model.hpp"
#include "subcommands.hpp"
#include "verify.hpp"

namespace tool {

namespace {

void headline(char const* number, std::string const& text) {
  print("\n" + bold(std::string(number) + "  " + text) + "\n");
}

/// Finds a model: `gpt2` is examples/models/gpt2.onnx; other words are paths.
fs::path find_model(std::vector<std::string> const& operands) {
  if (operands.empty()) return fs::path(CLEAVE_SOURCE_DIR) / "examples/models/googlenet.onnx";
  auto const path = only_operand(operands);
  auto const shipped = fs::path(CLEAVE_SOURCE_DIR) / "examples/models" / (path.string() + ".onnx");
  return !path.has_extension() && !fs::exists(path) && fs::exists(shipped) ? shipped : path;
}

}  // namespace

int demo(std::span<std::string const> words) {
  if (!words.empty() && words.front() == "train") return train(words.subspan(1));
  cut_options options;
  cleave::onnx::type_options types;
  std::string out;
  std::uint32_t microbatches = 8;
  command c{
      "demo",
      "[MODEL.onnx | googlenet | gpt2 | densenet121 | train]",
      "Cuts a model into stages, runs them as a pipeline, compares them with the whole and writes a report.\n"
      "`demo train` trains a small model instead; see `demo train --help`.",
      {},
      {}};
  add_cut_options(c, options);
  c.options.push_back({"-m", "--microbatches", "N", "a whole number from 1 to 10000",
                       "number of microbatches to run (8)",
                       [&](auto text) { return read_number(text, microbatches, 1u, 10000u); }});
  auto const has = [](std::string_view name) {
    return name == "report.html" || cleave::onnx::is_stage_name(name);
  };
  c.options.push_back(
      folder_to_write("-o", "--out", "folder of the stages and the report (build/demo/MODEL)", out, has));
  add_type_options(c, types);
  auto typed = read_options(c, words);
  auto const path = find_model(typed.operands);
  auto const folder = demo_folder(out, model_name(path));
  if (out.empty()) typed.files.push_back({"the demo", folder, {.what = file_use::kind::folder, .has = has}});
  typed.require_kept({path});
  require_own_report(folder, typed);

  progress const doing;
  auto const m = read_model(path, types, doing);
  require_external_kept(m, typed);
  doing.clear();
  print(bold("1  " + cleave::printable(path.filename().string())) + "\n" + description_of(m));

  auto const cut = cut_model(m, options, doing);
  doing.clear();
  headline("2", "cut into " + plural(cut.stages.size(), "stage"));
  print(table_of(cut));
  for (auto const& line : remarks_on(m, cut, options.stages)) print("  note: " + line + "\n");

  doing("writing the stages");
  make_folder(folder, "name another folder with --out");
  auto const files = cleave::onnx::write_stages(cut.stages, m.types, folder, replaced_by(typed));
  doing.clear();
  headline("3", "written to " + shown(folder));
  for (auto const& f : files)
    print("  " + f.filename().string() + "   " + cleave::bytes_text(fs::file_size(f)) + ", " + verdict_on(f) +
          "\n");

  headline("4", "run as a pipeline, " + plural(microbatches, "microbatch"));
  auto report = report_of(m, cut, files);
  try {
    auto const fills = input_fills(m);
    for (auto const& f : fills) print("  input " + fill_text(f) + "\n");
    if (!files.empty()) report.run = run({m, cut, files, fills, microbatches, doing});
  } catch (cleave::error const& e) {
    doing.clear();
    print(std::string("  not run: ") + e.what() + "\n");
  }
  doing.clear();
  if (report.run) print(outcome_of(*report.run));

  headline("5", "report");
  write_page({folder / "report.html"}, cleave::write_report(report));
  print("  " + shown(folder / "report.html") + "\n");
  if (report.run && *report.run->largest_difference > 0)
    throw cleave::infeasible_error(
        "the outputs of the stages differ from those of the whole model; see the largest difference above");
  return 0;
}

}  // namespace tool
