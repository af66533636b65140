// SPDX-License-Identifier: MIT
// cleave demo MODEL.onnx -k 4: reads a model, cuts it, writes its stages, runs them as a pipeline, compares
// them with the whole, and writes a report. Without a model it makes two of true size.
#include <cleave/adapt/onnx/write.hpp>
#include <cleave/draw/report.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cut.hpp"
#include "demo_files.hpp"
#include "demo_models.hpp"
#include "engine.hpp"
#include "model.hpp"
#include "split_json.hpp"
#include "subcommands.hpp"
#include "verify.hpp"

namespace tool {

namespace {

void headline(char const* number, std::string const& text) {
  print("\n" + bold(std::string(number) + "  " + text) + "\n");
}

/// The options of a demo.
struct demo_options {
  cut_options cut;
  cleave::onnx::type_options types;
  std::uint32_t microbatches = 8;
  bool as_json = false;
};

/// A model, and the folder of its stages and its report.
struct demo_task {
  fs::path model, folder;
  demo_model const* made = nullptr;  ///< if the demo makes the model itself
};

/// Finds a model. `resnet50` is made into the output folder, `gpt2` is examples/models/gpt2.onnx, and other
/// words are paths.
demo_task task_of(std::string const& word, std::string const& out) {
  fs::path const path = word;
  for (auto const& m : demo_models) {
    if (word != m.name || fs::is_regular_file(path)) continue;
    auto const folder = demo_folder(out, word);
    return {folder / (word + ".onnx"), folder, &m};
  }
  auto const shipped = fs::path(CLEAVE_SOURCE_DIR) / "examples/models" / (word + ".onnx");
  auto const model = !path.has_extension() && !fs::exists(path) && fs::exists(shipped) ? shipped : path;
  return {model, demo_folder(out, model_name(model))};
}

std::vector<demo_task> tasks_of(std::vector<std::string> const& operands, std::string const& out) {
  if (operands.size() == 1 && operands[0] == "-")
    throw usage_error(
        "a demo reads its model twice, to cut it and to run it, and standard input can be read once; name a "
        "file");
  if (!operands.empty()) return {task_of(only_operand(operands).string(), out)};
  std::vector<demo_task> tasks;
  for (auto const& m : demo_models) {
    std::string const name(m.name);
    tasks.push_back(task_of(name, out.empty() ? out : (fs::path(out) / name).string()));
  }
  return tasks;
}

/// Makes the model of a task if it is one of the demo's own.
/// \throws cleave::error if that would replace another file
void make_model(demo_task const& task, typed_words const& typed, progress const& doing) {
  if (task.made == nullptr) return;
  doing("making " + std::string(task.made->name));
  if (!typed.overwrite) require_own(task.model, {.what = file_use::kind::written, .is_own = is_demo_model});
  make_folder(task.folder, "name another folder with --out");
  write_file({task.model}, task.made->make().SerializeAsString());
}

/// Runs a demo and adds its outcome to `json`. Returns whether the stages gave the results of the whole
/// model, or were not run.
bool show_model(demo_task const& task, demo_options const& options, typed_words& typed,
                cleave::json::writer& json) {
  auto const& folder = task.folder;
  progress const doing;
  make_model(task, typed, doing);
  auto const m = read_model(task.model, options.types, doing);
  require_external_kept(m, typed);
  doing.clear();
  print(bold("1  " + cleave::printable(task.model.filename().string())) + "\n" + description_of(m));
  if (task.made != nullptr) print("  made      with random weights, " + shown(task.model) + "\n");

  auto const cut = cut_model(m, options.cut, doing);
  doing.clear();
  headline("2", "cut into " + plural(cut.stages.size(), "stage"));
  print(table_of(m, cut));
  for (auto const& line : remarks_on(m, cut, options.cut.stages)) print("  note: " + line + "\n");

  doing("writing the stages");
  make_folder(folder, "name another folder with --out");
  auto const files = cleave::onnx::write_stages(cut.stages, m.types, folder, replaced_by(typed));
  doing.clear();
  headline("3", "written to " + shown(folder));
  for (auto const& f : files)
    print("  " + f.filename().string() + "   " + cleave::bytes_text(fs::file_size(f)) + ", " + verdict_on(f) +
          "\n");

  headline("4", "run as a pipeline, " + plural(options.microbatches, "microbatch"));
  auto report = report_of(m, cut, files);
  std::vector<std::string> not_by;
  try {
    auto const fills = input_fills(m);
    for (auto const& f : fills) print("  input " + fill_text(f) + "\n");
    if (!files.empty()) report.run = run({m, cut, files, fills, options.microbatches, doing}, not_by);
  } catch (cleave::error const& e) {
    doing.clear();
    print(std::string("  not run: ") + e.what() + "\n");
    not_by.emplace_back(e.what());
  }
  doing.clear();
  if (report.run) print(outcome_of(*report.run, cut.boxes));

  headline("5", "report");
  write_page({folder / "report.html"}, cleave::write_report(report));
  print("  " + shown(folder / "report.html") + "\n");
  json.open_object();
  add_cut(json, m, cut, files, options.cut.stages, cleave::onnx::weights::reference);
  json.key("run");
  report.run ? write_outcome(json, *report.run, cut.boxes) : static_cast<void>(json.null());
  json.key("not_run_by").open_array();
  for (auto const& why : not_by) json.value(why);
  json.close_array().member("report", (folder / "report.html").string()).close_object();
  return !report.run || *report.run->largest_difference == 0;
}

}  // namespace

int demo(std::span<std::string const> words) {
  if (!words.empty() && words.front() == "train") return train(words.subspan(1));
  demo_options options;
  std::string out;
  command c{
      "demo",
      "[resnet50 | vit_tiny | MODEL.onnx | googlenet | gpt2 | densenet121 | train]",
      "Cuts a model into stages, runs them as a pipeline, compares them with the whole and writes a report.\n"
      "Without a model: ResNet-50 and then the transformer ViT-Tiny, made on the spot with random weights.\n"
      "`demo train` trains a small model instead; see `demo train --help`.",
      {},
      {}};
  add_cut_options(c, options.cut);
  c.options.push_back(number_option("-m", "--microbatches", "N", "number of microbatches to run (8)",
                                    options.microbatches, 1, 10'000));
  auto const has = [](std::string_view name) {
    return name == "report.html" || cleave::onnx::is_stage_name(name);
  };
  c.options.push_back(
      folder_to_write("-o", "--out", "folder of the stages and the report (build/demo/MODEL)", out, has));
  add_type_options(c, options.types);
  c.options.push_back(json_flag(options.as_json));
  auto typed = read_options(c, words);
  if (options.as_json) texts_go = text_target::nowhere;
  auto const tasks = tasks_of(typed.operands, out);
  for (auto const& task : tasks) {
    if (out.empty() || tasks.size() > 1)
      typed.files.push_back({"the demo", task.folder, {.what = file_use::kind::folder, .has = has}});
    typed.require_kept({task.model});
    require_own_report(task.folder, typed);
  }
  bool equal = true;
  cleave::json::writer json(cleave::json::writer::layout::indented);
  json.open_object().key("models").open_array();
  for (auto const& task : tasks) {
    if (&task != &tasks.front()) print("\n\n");
    equal = show_model(task, options, typed, json) && equal;
  }
  if (options.as_json) write_stdout(json.close_array().close_object().text() + "\n");
  if (!equal)
    throw cleave::infeasible_error(
        "the outputs of the stages differ from those of the whole model; see the largest difference above");
  return 0;
}

}  // namespace tool
