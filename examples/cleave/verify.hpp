// SPDX-License-Identifier: MIT
#pragma once
#include <onnx/checker.h>

#include <cleave/adapt/onnx/load.hpp>
#include <cleave/draw/report.hpp>
#include <cleave/formats/units.hpp>
#include <cstddef>
#include <optional>
#include <string>

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

/// Runs the job on the first engine that supports it, and prints why the others do not.
inline std::optional<cleave::report_run> run(job const& j) {
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

inline std::string outcome_of(cleave::report_run const& r) {
  auto const whole = static_cast<double>(r.whole_ns), pipelined = static_cast<double>(duration(r.timeline));
  return "  by " + r.engine + "; " + r.machine + "\n  whole model, one after the other      " +
         cleave::milliseconds_text(whole) + "\n  stages, as a pipeline              " +
         cleave::milliseconds_text(pipelined) + " (" + cleave::decimal_text(whole / pipelined, 2) +
         " times as fast" + (whole < pipelined ? "; short stages gain nothing from threads" : "") +
         ")\n  largest difference                 " + cleave::short_text(*r.largest_difference) + "\n";
}

}  // namespace tool
