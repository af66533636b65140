// SPDX-License-Identifier: MIT
#pragma once
#include <onnx/checker.h>

#include <algorithm>
#include <cleave/adapt/onnx/load.hpp>
#include <cleave/draw/report.hpp>
#include <cleave/draw/stage_graph.hpp>
#include <cleave/formats/json/json_writer.hpp>
#include <cleave/formats/units.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine.hpp"
#include "model.hpp"
#include "onnxruntime_engine.hpp"
#include "terminal.hpp"
#if __has_include(<opencv2/dnn.hpp>)
#include "opencv_engine.hpp"
#endif

namespace tool {

/// Returns the verdict of the ONNX checker on a stage. The checker requires a shape for each input and
/// output, which onnxruntime does not. Shapes that inference cannot find are therefore only mentioned.
inline std::string verdict_on(fs::path const& file) {
  auto stage = cleave::onnx::parse(cleave::onnx::read_file(file));
  std::size_t unshaped = 0;
  auto const complete = [&](::onnx::ValueInfoProto& v) {
    if (!v.type().has_tensor_type() || v.type().tensor_type().has_shape()) return;
    v.mutable_type()->mutable_tensor_type()->mutable_shape();
    ++unshaped;
  };
  for (auto& v : *stage.mutable_graph()->mutable_input()) complete(v);
  for (auto& v : *stage.mutable_graph()->mutable_output()) complete(v);
  try {
    ::onnx::checker::check_model(stage);
  } catch (std::exception const& e) {
    return "refused by the ONNX checker: " + cleave::printable(e.what(), 160);
  }
  return "accepted by the ONNX checker" +
         (unshaped == 0 ? ""
                        : ", except that inference finds no shape of " + plural(unshaped, "boundary value"));
}

/// Runs the job on the first engine that supports it. Prints why the others do not, and adds it to
/// `refusals`.
inline std::optional<cleave::report_run> run(job const& j, std::vector<std::string>& refusals) {
  auto const cannot = [&](std::string const& engine, std::string const& why) {
    j.doing.clear();
    refusals.push_back(engine + ": " + why);
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
  cannot("OpenCV", "this tool was built without it (Debian: libopencv-dnn-dev)");
#endif
  try {
    j.doing("running in onnxruntime, which is downloaded the first time");
    return run_in_onnxruntime(j);
  } catch (cleave::error const& e) {
    cannot("onnxruntime", e.what());
    return std::nullopt;
  }
}

/// Returns a table of the predicted and the measured time of each stage, for a microbatch that runs alone.
inline std::string stage_times_of(cleave::report_run const& r, cleave::quotient const& boxes) {
  double predicted = 0, measured = 0;
  for (auto const& box : boxes.stages) predicted += box.cost;
  for (auto const ns : r.stage_ns) measured += static_cast<double>(ns);
  auto const share = [](double part, double all) { return cleave::percent_text(all > 0 ? part / all : 0); };
  std::vector<std::vector<std::string>> rows = {{"stage", "predicted", "of all", "measured", "of all"}};
  for (std::size_t i = 0; i < r.stage_ns.size(); ++i) {
    auto const cost = boxes.stages[i].cost;
    auto const ns = static_cast<double>(r.stage_ns[i]);
    rows.push_back({std::to_string(i), cleave::milliseconds_text(1e9 * cost), share(cost, predicted),
                    cleave::milliseconds_text(ns), share(ns, measured)});
  }
  rows.push_back({"all", cleave::milliseconds_text(1e9 * predicted), share(predicted, predicted),
                  cleave::milliseconds_text(measured), share(measured, measured)});
  return "  time of a microbatch in each stage, predicted, and measured while nothing else runs\n" +
         table_text(rows);
}

/// Returns how many times as fast as one stage after the other a pipeline of these stages can be on so many
/// processors. It takes at least the time of the first microbatch and then of the slowest stage for each
/// other, and at least an equal share of all work on each processor.
inline double largest_speedup(std::vector<std::int64_t> const& stage_ns, std::uint32_t microbatches,
                              unsigned processors) {
  double all = 0, slowest = 0;
  for (auto const ns : stage_ns) {
    all += static_cast<double>(ns);
    slowest = std::max(slowest, static_cast<double>(ns));
  }
  auto const work = microbatches * all;
  auto const least = std::max(all + (microbatches - 1) * slowest, work / processors);
  return least > 0 ? work / least : 1;
}

/// Writes the outcome of a run as an object:
///   engine, machine, microbatches
///   whole_seconds, pipeline_seconds   all microbatches by the whole model, and by the stages as a pipeline
///   most_times_as_fast                by which factor the pipeline can be faster on this machine
///   largest_difference                between the results of both
///   stages                            [{predicted_seconds, measured_seconds}] for one microbatch
inline void write_outcome(cleave::json::writer& to, cleave::report_run const& r,
                          cleave::quotient const& boxes) {
  to.open_object().member("engine", r.engine).member("machine", r.machine);
  to.member("microbatches", r.microbatches).member("whole_seconds", 1e-9 * static_cast<double>(r.whole_ns));
  to.member("pipeline_seconds", 1e-9 * static_cast<double>(duration(r.timeline)));
  auto const processors = std::max(std::thread::hardware_concurrency(), 1u);
  to.member("most_times_as_fast", largest_speedup(r.stage_ns, r.microbatches, processors));
  to.member("largest_difference", *r.largest_difference).key("stages").open_array();
  for (std::size_t i = 0; i < r.stage_ns.size(); ++i)
    to.open_object()
        .member("predicted_seconds", boxes.stages[i].cost)
        .member("measured_seconds", 1e-9 * static_cast<double>(r.stage_ns[i]))
        .close_object();
  to.close_array().close_object();
}

inline std::string outcome_of(cleave::report_run const& r, cleave::quotient const& boxes) {
  auto const whole = static_cast<double>(r.whole_ns), pipelined = static_cast<double>(duration(r.timeline));
  auto const processors = std::max(std::thread::hardware_concurrency(), 1u);
  auto const most = largest_speedup(r.stage_ns, r.microbatches, processors);
  return "  by " + r.engine + "; " + r.machine + "\n" + stage_times_of(r, boxes) +
         "  whole model, one after the other      " + cleave::milliseconds_text(whole) +
         "\n  stages, as a pipeline              " + cleave::milliseconds_text(pipelined) + " (" +
         cleave::decimal_text(whole / pipelined, 2) + " times as fast; " + plural(processors, "processor") +
         (processors == 1 ? " allows" : " allow") + " at most " + cleave::decimal_text(most, 2) +
         (whole < pipelined ? "; short stages gain nothing from threads" : "") +
         ")\n  largest difference                 " + cleave::short_text(*r.largest_difference) + "\n";
}

}  // namespace tool
