// SPDX-License-Identifier: MIT
#pragma once
#include <onnx/onnx_pb.h>

#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <opencv2/dnn.hpp>
#include <set>
#include <string>
#include <vector>

#include "support/model_corpus.hpp"

namespace cleave::testing {

using tensors = std::map<std::string, cv::Mat>;  ///< by value name

/// An ONNX model run by OpenCV without fusion, so that a stage computes exactly as the whole model does.
class opencv_model {
 public:
  explicit opencv_model(::onnx::ModelProto const& m) {
    std::set<std::string> constant;
    for (auto const& t : m.graph().initializer()) constant.insert(t.name());
    for (auto const& v : m.graph().input())
      if (!constant.contains(v.name())) inputs_.push_back(v.name());
    std::set<std::string> made;
    for (auto const& n : m.graph().node()) made.insert(n.output().begin(), n.output().end());
    for (auto const& v : m.graph().output())
      if (made.contains(v.name())) outputs_.push_back(v.name());
    if (m.graph().node_size() == 0) return;
    auto const bytes = m.SerializeAsString();
    net_ = cv::dnn::readNetFromONNX(bytes.data(), bytes.size());
    net_.enableFusion(false);
  }

  /// Reads its inputs from `values` and adds its outputs.
  void run(tensors& values) {
    if (outputs_.empty()) return;
    for (auto const& name : inputs_) net_.setInput(values.at(name), name);
    std::vector<cv::Mat> made;
    net_.forward(made, outputs_);
    for (std::size_t i = 0; i < outputs_.size(); ++i) values[outputs_[i]] = made.at(i).clone();
  }

 private:
  cv::dnn::Net net_;
  std::vector<std::string> inputs_, outputs_;
};

/// Returns the inputs of a sidecar's run. Sizes are explicit, because OpenCV would otherwise read nested rows
/// as channels.
inline tensors opencv_inputs(nlohmann::json const& run) {
  tensors values;
  for (auto const& spec : run.at("inputs")) {
    auto data = float_input(spec);
    auto const sizes = spec.at("shape").get<std::vector<int>>();
    cv::Mat const view(static_cast<int>(sizes.size()), sizes.data(), CV_32F, data.data());
    values[spec.at("name").get<std::string>()] = view.clone();
  }
  return values;
}

/// Returns true if shape, type and all bits are equal.
inline bool same_bits(cv::Mat const& a, cv::Mat const& b) {
  if (a.type() != b.type() || a.size != b.size || !a.isContinuous() || !b.isContinuous()) return false;
  return std::memcmp(a.data, b.data, a.total() * a.elemSize()) == 0;
}

}  // namespace cleave::testing
