// SPDX-License-Identifier: MIT
#pragma once
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <chrono>
#include <cleave/adapt/onnx/own_process.hpp>
#include <cleave/run/forward/forward.hpp>
#include <cleave/split/dataflow.hpp>
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

/// A model, or a stage of one, in OpenCV. Fusion is off, so that a stage computes just what the whole does
/// there.
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
    for (auto& made : out) made = made.clone();  // the net overwrites its own in the next call
    return out;
  }

 private:
  cv::dnn::Net net_;
  std::vector<std::string> inputs_, outputs_;
};

/// A model and its stages, loaded into OpenCV and run once. \throws cv::Exception where it cannot.
class opencv_run {
 public:
  explicit opencv_run(job const& j) : j_(j), dataflow_(dataflow_of(snapshot(), j.stages.stages.plan())) {
    cv::utils::logging::setLogLevel(cv::utils::logging::LOG_LEVEL_SILENT);
    cv::setNumThreads(1);
    for (auto const& f : j.fills)
      if (f.how != input_fill::kind::floats || f.type != ::onnx::TensorProto::FLOAT)
        throw cleave::error("takes float32 only, and input " + cleave::quoted(f.name) + " has another type");
    auto const live = cleave::onnx::live_stages(j.stages.stages);
    stages_.reserve(live.size());
    for (std::size_t i = 0; i < live.size(); ++i) {
      auto const& stage = j.stages.stages.plan().stages[i];
      if (index(live[i]) != i) throw cleave::error("cannot run stages that are out of order");
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

  /// Runs whole and stages `attempts` times; the times are those of the fastest.
  cleave::report_run operator()() {
    std::vector<std::vector<cv::Mat>> inputs;
    for (std::uint32_t m = 0; m < j_.microbatches; ++m) inputs.push_back(inputs_of(m));
    cleave::report_run r;
    r.microbatches = j_.microbatches;
    r.largest_difference = 0;
    r.engine = "OpenCV DNN " + std::string(CV_VERSION) + ", a thread a stage, fusion off";
    r.machine = machine_text();
    for (int attempt = 0; attempt < attempts; ++attempt) {
      std::vector<std::vector<cv::Mat>> expected;
      auto const begin = std::chrono::steady_clock::now();
      for (auto& in : inputs) expected.push_back(whole_.front()({}, in));
      auto const whole_ns = std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count();
      auto run = cleave::run_forward(stages_, dataflow_, inputs);

      if (attempt == 0 || whole_ns < r.whole_ns) r.whole_ns = whole_ns;
      if (attempt == 0 || duration(run.timeline) < duration(r.timeline)) r.timeline = std::move(run.timeline);
      for (std::size_t m = 0; m < inputs.size(); ++m)
        r.largest_difference = std::max(*r.largest_difference, difference(expected[m], run.results[m]));
    }
    return r;
  }

 private:
  cleave::snapshot<cleave::onnx::graph> const& snapshot() const { return j_.stages.stages.snapshot(); }

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

  /// Between what the whole made and what the stages gave; infinite where shapes differ.
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

/// The operator that OpenCV stumbled over, or the first line of what it said.
inline std::string opencv_complaint(cv::Exception const& e) {
  std::smatch found;
  std::string const text = e.what();
  if (std::regex_search(text, found, std::regex("Node \\[([^@\\]]+)")))
    return "does not run operator " + cleave::printable(found[1].str());
  return cleave::printable(e.err.substr(0, e.err.find('\n')), 120);
}

/// Why OpenCV does not run a job, or nothing. Tried in a process of its own: not every model that it does not
/// like ends in an exception.
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
  return cleave::onnx::in_own_process(attempt, std::chrono::minutes(10)).value_or("crashes or hangs on it");
}

}  // namespace tool
