// SPDX-License-Identifier: MIT
#pragma once
#include <onnx/onnx_pb.h>

#include <cleave/core/error.hpp>
#include <cleave/core/ids.hpp>
#include <cleave/run/model/concepts.hpp>
#include <cleave/run/model/tensor_view.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <opencv2/dnn.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace example {

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

  /// Valid until the next call.
  std::vector<cv::Mat> operator()(std::span<cv::Mat const> in) {
    for (std::size_t i = 0; i < in.size(); ++i) net_.setInput(in[i], inputs_[i]);
    std::vector<cv::Mat> out;
    net_.forward(out, outputs_);
    return out;
  }

 private:
  cv::dnn::Net net_;
  std::vector<std::string> inputs_, outputs_;
};

// [engine]
/// The same memory as a matrix.
inline cv::Mat matrix_of(cleave::tensor_view const& v) {
  if (v.type != cleave::element_type::f32) throw cleave::error("OpenCV takes float32 only");
  std::vector<int> sizes;
  for (auto const extent : v.shape.list()) sizes.push_back(static_cast<int>(extent));
  return {static_cast<int>(sizes.size()), sizes.data(), CV_32F, v.data};
}

/// Runs the stages of one rank, on any device that carries out work as it is issued.
class opencv_stages {
 public:
  void add(cleave::stage_id id, opencv_net net) { nets_.emplace(id, std::move(net)); }

  void forward(auto&, cleave::stage_pass const& p, std::span<cleave::tensor_view const> in,
               std::span<cleave::tensor_view> out) {
    std::vector<cv::Mat> given;
    for (auto const& v : in) given.push_back(matrix_of(v));
    auto const made = nets_.at(p.stage)(given);
    for (std::size_t i = 0; i < out.size(); ++i) {
      auto const room = out[i].elements();
      if (made[i].total() != room.count)
        throw cleave::error("a result has another shape than the model says");
      std::memcpy(room.data, made[i].data, room.bytes());
    }
  }

 private:
  std::map<cleave::stage_id, opencv_net> nets_;
};
// [engine]

}  // namespace example
