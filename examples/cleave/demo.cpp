// SPDX-License-Identifier: MIT
// cleave demo MODEL.onnx -k 4: the whole way of a model. Reads it, cuts it, writes its stages, runs them as a
// pipeline, compares them with the whole, and writes a report.
#include <onnx/checker.h>

#include <algorithm>
#include <cleave/adapt/onnx/write.hpp>
#include <cleave/io/report.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cut.hpp"
#include "engine.hpp"
#include "model.hpp"
#include "onnxruntime_engine.hpp"
#include "subcommands.hpp"
#if __has_include(<opencv2/dnn.hpp>)
#include "opencv_engine.hpp"
#endif

namespace tool {

namespace {

void headline(char const* number, std::string const& text) {
  print("\n" + bold(std::string(number) + "  " + text) + "\n");
}

/// `gpt2` is examples/models/gpt2.onnx; all else is a path.
fs::path find_model(std::vector<std::string> const& operands) {
  if (operands.empty()) return fs::path(CLEAVE_SOURCE_DIR) / "examples/models/googlenet.onnx";
  auto const path = only_operand(operands);
  auto const shipped = fs::path(CLEAVE_SOURCE_DIR) / "examples/models" / (path.string() + ".onnx");
  return !path.has_extension() && !fs::exists(path) && fs::exists(shipped) ? shipped : path;
}

/// What the ONNX checker says of a stage. It asks for a shape of each input and output, which onnxruntime
/// does not: where inference finds none, that is only remarked.
std::string verdict_on(fs::path const& file) {
  auto stage = cleave::parse_onnx(cleave::read_onnx_file(file));
  std::size_t unshaped = 0;
  auto const complete = [&](onnx::ValueInfoProto& v) {
    if (!v.type().has_tensor_type() || v.type().tensor_type().has_shape()) return;
    v.mutable_type()->mutable_tensor_type()->mutable_shape();
    ++unshaped;
  };
  for (auto& v : *stage.mutable_graph()->mutable_input()) complete(v);
  for (auto& v : *stage.mutable_graph()->mutable_output()) complete(v);
  try {
    onnx::checker::check_model(stage);
  } catch (std::exception const& e) {
    return "refused by the ONNX checker: " + cleave::printable(e.what(), 160);
  }
  return "accepted by the ONNX checker" +
         (unshaped == 0 ? ""
                        : ", but for the shapes of " + plural(unshaped, "boundary value") +
                              ", which inference does not find");
}

/// The run of the first engine that can; why others cannot is printed.
std::optional<cleave::report_run> run(job const& j) {
  auto const cannot = [&](std::string const& engine, std::string const& why) {
    j.doing.clear();
    print("  not by " + engine + ": " + why + "\n");
  };
#if __has_include(<opencv2/dnn.hpp>)
  j.doing("trying OpenCV");
  auto const obstacle = find_opencv_obstacle(j);
  if (obstacle.empty()) {
    j.doing("running " + plural(j.microbatches, "microbatch"));
    return opencv_run(j)();
  }
  cannot("OpenCV", obstacle);
#else
  cannot("OpenCV", "it was not there when this tool was built (libopencv-dnn-dev)");
#endif
  try {
    j.doing("running in onnxruntime, which is fetched the first time");
    return run_in_onnxruntime(j);
  } catch (cleave::error const& e) {
    cannot("onnxruntime", e.what());
    return std::nullopt;
  }
}

std::string outcome_of(cleave::report_run const& r) {
  auto const whole = static_cast<double>(r.whole_ns), pipelined = static_cast<double>(duration(r.timeline));
  return "  by " + r.engine + "; " + r.machine + "\n  whole model, one after the other   " +
         cleave::milliseconds_text(whole) + "\n  stages, as a pipeline              " +
         cleave::milliseconds_text(pipelined) + " (" + cleave::decimal_text(whole / pipelined, 2) +
         " times as fast" + (whole < pipelined ? "; short stages gain nothing from threads" : "") +
         ")\n  largest difference                 " + cleave::short_text(*r.largest_difference) + "\n";
}

}  // namespace

int demo(std::span<std::string const> words) {
  cut_options options;
  cleave::onnx_type_options types;
  std::string out;
  std::uint32_t microbatches = 8;
  command c{
      "demo",
      "[MODEL.onnx | googlenet | gpt2 | densenet121]",
      "Cuts a model into stages, runs them as a pipeline, compares them with the whole and writes a report.",
      {}};
  add_cut_options(c, options);
  c.options.push_back({"-m", "--microbatches", "N", "a whole number from 1 to 10000", "how many to run (8)",
                       [&](auto text) { return read_number(text, microbatches, 1u, 10000u); }});
  c.options.push_back({"-o", "--out", "DIR", "a folder", "where stages and report go (build/demo/MODEL)",
                       [&](auto text) { return !(out = text).empty(); }});
  add_type_options(c, types);
  auto const path = find_model(read_options(c, words));

  progress const doing;
  auto const m = read_model(path, types, doing);
  doing.clear();
  print(bold("1  " + cleave::printable(path.filename().string())) + "\n" + description_of(m));

  auto const cut = cut_model(m, options, doing);
  doing.clear();
  headline("2", "cut into " + plural(cut.stages.size(), "stage"));
  print(table_of(cut));
  for (auto const& line : remarks_on(m, cut, options.stages)) print("  note: " + line + "\n");

  fs::path const folder = out.empty() ? fs::path(CLEAVE_SOURCE_DIR) / "build/demo" / m.name() : fs::path(out);
  doing("writing the stages");
  auto const files = cleave::write_onnx_stages(cut.stages, m.types, folder);
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
  write_file(folder / "report.html", cleave::write_report(report));
  print("  " + shown(folder / "report.html") + "\n");
  if (report.run && *report.run->largest_difference > 0)
    throw cleave::infeasible_error("the stages do not equal the whole: see largest difference");
  return 0;
}

}  // namespace tool
