// SPDX-License-Identifier: MIT
#pragma once
#include <onnx/onnx_pb.h>

#include <cleave/adapt/onnx/split_onnx.hpp>
#include <cleave/adapt/onnx/stages.hpp>
#include <cleave/core/dataflow.hpp>
#include <cleave/core/error.hpp>
#include <cleave/core/ids.hpp>
#include <cleave/core/random.hpp>
#include <cleave/onnx.hpp>
#include <cleave/run/model/edge_layout.hpp>
#include <cleave/run/model/tensor_view.hpp>
#include <cleave/run/program/make_rank_program.hpp>
#include <cleave/run/program/step_plan.hpp>
#include <cleave/run/program/step_values.hpp>
#include <cleave/schedule/families/forward_only.hpp>
#include <cleave/schedule/lower/connect_stages.hpp>
#include <cleave/split/dataflow.hpp>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "opencv_stages.hpp"

namespace example {

/// An ONNX model, cut into one stage per rank.
class staged_model {
 public:
  staged_model(std::filesystem::path const& file, std::uint32_t stages)
      : whole_(cleave::onnx::parse(cleave::onnx::read_file(file))),
        cut_(cleave::onnx::split(checked(whole_), stages)),
        edges_(cleave::dataflow_of(snapshot(), plan())),
        pieces_(cleave::onnx::stages(cut_.stages, cut_.types)) {
    if (pieces_.size() != stages || plan().stages.size() != stages)
      throw cleave::error("a stage would be empty; use fewer ranks");
    for (auto const& e : edges_.edges) layouts_.edges.push_back(layout_of(name(e.value)));
  }

  std::uint32_t stages() const { return edges_.stages; }

  /// Returns the forward-only schedule: microbatches stream through the stages.
  cleave::step_plan plan_for(std::uint32_t microbatches) const {
    return {
        connect_stages(cleave::forward_only(edges_.stages, 1, microbatches), edges_), edges_, layouts_, {}};
  }

  opencv_net whole() const { return {whole_, names(snapshot().inputs), names(snapshot().outputs)}; }
  opencv_stages stages_of(cleave::rank_id rank) const {
    auto const& s = plan().stages[index(rank)];
    opencv_stages made;
    made.add(cleave::stage_id{index(rank)}, {pieces_[index(rank)], names(s.inputs), names(s.outputs)});
    return made;
  }

  std::vector<cleave::edge_layout> inputs() const {
    std::vector<cleave::edge_layout> list;
    for (auto const v : snapshot().inputs) list.push_back(layout_of(name(v)));
    return list;
  }

 private:
  static ::onnx::ModelProto const& checked(::onnx::ModelProto const& m) {
    cleave::onnx::check(m);
    return m;
  }

  cleave::snapshot<cleave::onnx::graph> const& snapshot() const { return cut_.stages.snapshot(); }
  cleave::plan const& plan() const { return cut_.stages.plan(); }

  std::string name(std::uint64_t value) const {
    return std::string(cut_.graph->name_of(snapshot().value[static_cast<std::size_t>(value)]));
  }
  std::vector<std::string> names(auto const& values) const {
    std::vector<std::string> list;
    for (auto const v : values) list.push_back(name(v));
    return list;
  }

  cleave::edge_layout layout_of(std::string const& value) const {
    auto const* const type = cut_.types.priced(value);
    if (cut_.types.bytes(value) == 0 || type->tensor_type().elem_type() != ::onnx::TensorProto::FLOAT)
      throw cleave::error("'" + value + "' is not a float32 tensor of known shape");
    std::vector<std::int64_t> extents;
    for (auto const& d : type->tensor_type().shape().dim()) extents.push_back(d.dim_value());
    return {.type = cleave::element_type::f32,
            .shape = std::span<std::int64_t const>(extents),
            .gradient = cleave::gradient_use::none};
  }

  ::onnx::ModelProto whole_;
  cleave::onnx::split_result cut_;
  cleave::dataflow edges_;
  cleave::run_layouts layouts_;
  std::vector<::onnx::ModelProto> pieces_;
};

/// Random inputs of a model, equal on every rank.
class random_inputs {
 public:
  random_inputs(staged_model const& m, std::uint32_t microbatches) : of_each_(m.inputs().size()) {
    cleave::splitmix random(1);
    for (std::uint32_t i = 0; i < microbatches; ++i)
      for (auto const& l : m.inputs()) {
        auto& data = memory_.emplace_back(static_cast<std::size_t>(*l.shape.count()));
        for (auto& x : data) x = static_cast<float>(random.next() >> 40) * 0x1p-23f - 1;
        views_.push_back({data.data(), l.type, l.shape});
      }
  }

  cleave::step_values values() const { return {views_, of_each_}; }
  /// Returns the inputs of one microbatch.
  std::vector<cv::Mat> matrices(std::size_t microbatch) const {
    std::vector<cv::Mat> list;
    for (std::size_t i = 0; i < of_each_; ++i) list.push_back(matrix_of(views_[microbatch * of_each_ + i]));
    return list;
  }

 private:
  std::size_t of_each_;
  std::vector<std::vector<float>> memory_;
  std::vector<cleave::tensor_view> views_;
};

/// Returns whether a result equals that of the whole model in every bit.
inline bool is_equal(cleave::tensor_view const& result, cv::Mat const& of_whole) {
  auto const r = result.elements();
  return of_whole.total() == r.count && std::memcmp(r.data, of_whole.data, r.bytes()) == 0;
}

}  // namespace example
