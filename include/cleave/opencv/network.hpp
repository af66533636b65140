// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <opencv2/core.hpp>
#include <opencv2/dnn.hpp>
#include <span>
#include <string>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/inference/inference_stages.hpp"
#include "cleave/run/model/tensor_view.hpp"

namespace cleave::inline v0_2::opencv {

/// Options of OpenCV's network.
struct network_options {
  /// With fusion, stages may round differently from the whole model.
  bool fuses = false;
};

/// OpenCV's engine (`cv::dnn`) for the stages of a model. Its values are float32. Results of stages equal
/// those of the whole model in every bit, unless layers are fused.
class network {
 public:
  /// \throws cv::Exception if OpenCV does not know an operator
  explicit network(onnx_stage const& s, opencv::network_options const& o = {})
      : inputs_(s.inputs), outputs_(s.outputs) {
    net_ = cv::dnn::readNetFromONNX(s.model.data(), s.model.size());
    net_.enableFusion(o.fuses);
  }

  /// \throws error if a value is not float32; cv::Exception
  void infer(std::span<tensor_view const> in, std::span<tensor_view> out) {
    for (std::size_t i = 0; i < in.size(); ++i) net_.setInput(matrix_of(in[i], inputs_[i]), inputs_[i]);
    net_.forward(made_, outputs_);
    for (std::size_t i = 0; i < out.size(); ++i) {
      auto const& m = made_[i];
      if (m.type() != CV_32F) throw error("opencv: result '" + outputs_[i] + "' is not float32");
      auto const room = out[i].elements();
      // OpenCV may add or drop axes of extent 1. If there are other elements, its shape counts.
      if (m.total() != room.count) out[i].shape = shape_of(m, outputs_[i]);
      if (m.total() <= room.count) std::memcpy(room.data, m.data, m.total() * sizeof(float));
    }
  }

 private:
  static tensor_shape shape_of(cv::Mat const& m, std::string const& name) {
    if (m.dims > static_cast<int>(detail::most_axes))
      throw error("opencv: result '" + name + "' has more than 8 axes");
    std::vector<std::int64_t> const extents(m.size.p, m.size.p + m.dims);
    return {std::span(extents)};
  }
  static cv::Mat matrix_of(tensor_view const& v, std::string const& name) {
    if (v.type != element_type::f32) throw error("opencv: '" + name + "' is not float32");
    std::vector<int> sizes;
    for (auto const extent : v.shape.list()) sizes.push_back(static_cast<int>(extent));
    return {static_cast<int>(sizes.size()), sizes.data(), CV_32F, v.data};
  }

  cv::dnn::Net net_;
  std::vector<std::string> inputs_, outputs_;
  std::vector<cv::Mat> made_;
};

static_assert(inference_network<network>);

}  // namespace cleave::opencv
