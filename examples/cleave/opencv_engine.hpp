// SPDX-License-Identifier: MIT
#pragma once
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <chrono>
#include <cleave/adapt/onnx/own_process.hpp>
#include <cleave/run/forward/forward.hpp>
#include <cleave/split/dataflow.hpp>
#include <cleave/split/run_stages.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <opencv2/core/utils/logger.hpp>
#include <opencv2/dnn.hpp>
#include <regex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine.hpp"

namespace tool {

/// A model or a stage in OpenCV. Fusion is off, so that a stage computes exactly what the whole model
/// computes there.
class opencv_net {
 public:
  opencv_net(::onnx::ModelProto const& m, std::vector<std::string> inputs, std::vector<std::string> outputs)
      : inputs_(std::move(inputs)), outputs_(std::move(outputs)) {
    auto const bytes = m.SerializeAsString();
    net_ = cv::dnn::readNetFromONNX(bytes.data(), bytes.size());
    net_.enableFusion(false);
  }

  std::vector<cv::Mat> operator()(cleave::microbatch_id, std::span<cv::Mat> in) {
    for (std::size_t i = 0; i < in.size(); ++i) net_.setInput(in[i], inputs_[i]);
    std::vector<cv::Mat> out;
    net_.forward(out, outputs_);
    for (auto& made : out) made = made.clone();  // the next call overwrites the net's outputs
    return out;
  }

 private:
  cv::dnn::Net net_;
  std::vector<std::string> inputs_, outputs_;
};

/// A model and its stages, loaded into OpenCV and run once. \throws cv::Exception if OpenCV cannot run them.
class opencv_run {
 public:
  explicit opencv_run(job const& j) : j_(j), dataflow_(dataflow_of(snapshot(), j.stages.stages.plan())) {
    cv::utils::logging::setLogLevel(cv::utils::logging::LOG_LEVEL_SILENT);
    cv::setNumThreads(1);
    for (auto const& f : j.fills)
      if (f.how != input_fill::kind::floats || f.type != ::onnx::TensorProto::FLOAT)
        throw cleave::error("supports only float32 inputs; input " + cleave::quoted(f.name) +
                            " has another type");
    auto const live = cleave::onnx::live_stages(j.stages.stages);
    stages_.reserve(live.size());
    for (std::size_t i = 0; i < live.size(); ++i) {
      auto const& stage = j.stages.stages.plan().stages[i];
      if (index(live[i]) != i)
        throw cleave::error("cannot run stages whose numbers are not in topological order");
      stages_.emplace_back(cleave::onnx::parse(cleave::onnx::read_file(j.files[i])), names(stage.inputs),
                           names(stage.outputs));
    }
    made_ = snapshot().outputs;
    std::erase_if(made_, [&](auto v) { return snapshot().from[v] != cleave::source::node; });
    whole_.emplace_back(*j.whole.proto, names(snapshot().inputs), names(made_));
    auto first = inputs_of(0);
    whole_.front()({}, first);
    cleave::run_forward(stages_, dataflow_, std::vector<std::vector<cv::Mat>>{first});
  }

  /// Runs the whole model, the stages one by one and the pipeline `attempts` times, and returns the times of
  /// the fastest runs.
  cleave::report_run operator()() {
    std::vector<std::vector<cv::Mat>> inputs;
    for (std::uint32_t m = 0; m < j_.microbatches; ++m) inputs.push_back(inputs_of(m));
    cleave::report_run r;
    r.microbatches = j_.microbatches;
    r.largest_difference = 0;
    r.engine = "OpenCV DNN " + std::string(CV_VERSION) + ", one thread per stage, fusion off";
    r.machine = machine_text();
    for (int attempt = 0; attempt < attempts; ++attempt) {
      std::vector<std::vector<cv::Mat>> expected;
      auto const begin = std::chrono::steady_clock::now();
      for (auto& in : inputs) expected.push_back(whole_.front()({}, in));
      auto const whole_ns = std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count();
      auto const alone = times_alone(inputs);
      auto run = cleave::run_forward(stages_, dataflow_, inputs);

      if (attempt == 0) r.stage_ns = alone;
      for (std::size_t i = 0; i < alone.size(); ++i) r.stage_ns[i] = std::min(r.stage_ns[i], alone[i]);
      if (attempt == 0 || whole_ns < r.whole_ns) r.whole_ns = whole_ns;
      if (attempt == 0 || duration(run.timeline) < duration(r.timeline)) r.timeline = std::move(run.timeline);
      for (std::size_t m = 0; m < inputs.size(); ++m)
        r.largest_difference = std::max(*r.largest_difference, difference(expected[m], run.results[m]));
    }
    return r;
  }

 private:
  cleave::snapshot<cleave::onnx::graph> const& snapshot() const { return j_.stages.stages.snapshot(); }

  /// Runs the stages one after the other and returns the mean time of each, in nanoseconds.
  std::vector<std::int64_t> times_alone(std::vector<std::vector<cv::Mat>> const& inputs) {
    std::vector<std::int64_t> total(stages_.size());
    for (auto const& in : inputs)
      cleave::run_stages(j_.stages.stages, in, [&](cleave::stage_id i, std::span<cv::Mat> values) {
        auto const begin = std::chrono::steady_clock::now();
        auto made = stages_[index(i)]({}, values);
        total[index(i)] += std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count();
        return made;
      });
    for (auto& t : total) t /= static_cast<std::int64_t>(std::max<std::size_t>(inputs.size(), 1));
    return total;
  }

  template <class Values>
  std::vector<std::string> names(Values const& values) const {
    std::vector<std::string> list;
    for (auto const v : values) list.emplace_back(j_.whole.graph.name_of(snapshot().value[v]));
    return list;
  }

  std::vector<cv::Mat> inputs_of(std::uint32_t microbatch) const {
    std::vector<cv::Mat> list;
    for (std::size_t i = 0; i < j_.fills.size(); ++i) {
      std::vector<int> const sizes(j_.fills[i].shape.begin(), j_.fills[i].shape.end());
      cv::Mat m(static_cast<int>(sizes.size()), sizes.data(), CV_32F);
      auto s = seed_of(microbatch, i);
      for (std::size_t e = 0; e < m.total(); ++e)
        m.ptr<float>()[e] = static_cast<float>(next(s) >> 40) * 0x1p-23f - 1.0f;
      list.push_back(m);
    }
    return list;
  }

  /// Returns the largest difference between the outputs of the whole and of the stages; infinite if shapes
  /// differ.
  double difference(std::vector<cv::Mat> const& expected, std::vector<cv::Mat> const& given) const {
    double most = 0;
    std::size_t made = 0, result = 0;
    for (auto const v : snapshot().outputs) {
      bool const by_node = snapshot().from[v] == cleave::source::node;
      if (by_node) most = std::max(most, difference(expected.at(made++), given.at(result)));
      if (by_node || snapshot().from[v] == cleave::source::input) ++result;
    }
    return most;
  }
  static double difference(cv::Mat const& a, cv::Mat const& b) {
    if (a.type() != b.type() || a.size != b.size) return std::numeric_limits<double>::infinity();
    if (std::memcmp(a.data, b.data, a.total() * a.elemSize()) == 0) return 0;
    return cv::norm(a, b, cv::NORM_INF);
  }

  job const& j_;
  cleave::dataflow dataflow_;
  std::vector<opencv_net> stages_, whole_;
  std::vector<std::uint32_t> made_;
};

/// Returns the operator that OpenCV does not support, or the first line of its message.
inline std::string opencv_complaint(cv::Exception const& e) {
  std::smatch found;
  std::string const text = e.what();
  if (std::regex_search(text, found, std::regex("Node \\[([^@\\]]+)")))
    return "does not support operator " + cleave::printable(found[1].str());
  return cleave::printable(e.err.substr(0, e.err.find('\n')), 120);
}

/// Returns why OpenCV cannot run a job, or nothing. Tries it in a separate process, since OpenCV may crash
/// instead of throwing.
inline std::string find_opencv_obstacle(job const& j) {
  auto const attempt = [&]() -> std::string {
    try {
      opencv_run const run(j);
      return "";
    } catch (cv::Exception const& e) {
      return opencv_complaint(e);
    } catch (std::exception const& e) {
      return e.what();
    }
  };
  return cleave::onnx::in_own_process(attempt, std::chrono::minutes(10))
      .value_or("crashes or does not finish");
}

}  // namespace tool
