// SPDX-License-Identifier: MIT
#pragma once
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/adapt/onnx/check.hpp"
#include "cleave/adapt/onnx/split_onnx.hpp"
#include "cleave/adapt/onnx/stages.hpp"
#include "cleave/core/dataflow.hpp"
#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/edge_layout.hpp"
#include "cleave/run/model/tensor_view.hpp"
#include "cleave/split/dataflow.hpp"

/// Stages of ONNX models, and what computes them in an inference engine.
namespace cleave::inline v0_2 {

/// One stage of an ONNX model.
struct onnx_stage {
  std::string model;                         ///< bytes of an ONNX file
  std::vector<std::string> inputs, outputs;  ///< names, in the order of the views of a pass
};

/// An inference engine that computes one stage.
/// - `N(stage)`, or `N(stage, options)`: loads it. \throws any exception
/// - `n.infer(in, out)`: computes the results `out` of the inputs `in`. It writes their elements, and sets
///   `out[i].shape`. The memory of `out[i]` has room for the shape that it has at first. \throws any
///   exception
template <class N>
concept inference_network = std::movable<N> && std::constructible_from<N, onnx_stage const&> &&
                            requires(N& n, std::span<tensor_view const> in, std::span<tensor_view> out) {
                              { n.infer(in, out) };
                            };

/// The reason why the stages of an ONNX model cannot be run.
struct inference_fault {
  static constexpr char subject[] = "inference: ";
  enum class kind : std::uint8_t {
    no_shape,   ///< value `name` has no known shape
    no_type,    ///< value `name` has an element type that stages cannot send
    axes,       ///< value `name` has `got` axes, more than `allowed`
    stages,     ///< the model makes only `got` stages of `allowed`
    inputs,     ///< `got` inputs are given instead of `allowed`
    layout,     ///< result `name` of a stage is `made` instead of `wanted`
    no_result,  ///< the model has no result `name`
    load,       ///< the engine does not load stage `got`, for the reason `made`
    size,       ///< stage `got` is larger than 2 GiB, the most that ONNX can write
  };
  kind what;
  std::string name = {};
  std::size_t got = 0, allowed = 0;
  std::string made = {}, wanted = {};

  bool operator==(inference_fault const&) const = default;
};

/// Says what is wrong, where, and how to fix it.
inline std::string describe(inference_fault const& f) {
  using enum inference_fault::kind;
  auto const got = std::to_string(f.got), allowed = std::to_string(f.allowed);
  switch (f.what) {
    case no_shape:
      return quoted(f.name) +
             " has no known shape; give the sizes of symbolic dimensions (type_options::dims) "
             "or its shape (type_options::shapes)";
    case no_type:
      return quoted(f.name) + " has elements of type " + f.made + ", which stages cannot send";
    case axes:
      return quoted(f.name) + " has " + got + " axes; at most " + allowed + " are possible";
    case stages:
      return "the model makes only " + got + " stages, not " + allowed + "; ask for fewer";
    case inputs:
      return got + " inputs are given, but " + allowed + " are needed: those of each microbatch in turn";
    case layout:
      return "result " + quoted(f.name) + " is " + f.made + ", but its layout says " + f.wanted +
             "; give the sizes with which the model runs, or let them vary (inference_options::extents)";
    case load:
      return "stage " + got + " cannot be loaded: " + f.made;
    case size:
      return "stage " + got +
             " is larger than 2 GiB, the most that an ONNX file can have; cut into more stages";
    case no_result:
      return "the model has no result " + quoted(f.name) + f.wanted;
  }
  return {};
}

/// Thrown if the stages of an ONNX model cannot be run.
using inference_error = fault_error<inference_fault>;

/// Options of `inference_stages`.
struct inference_options {
  onnx::split_options split = {};
  /// With `dynamic`, values between stages may be smaller than their known shapes, which are then bounds.
  shape_kind extents = shape_kind::fixed;
};

/// An ONNX model, cut into stages that inference engines can run. Keeps a copy of the model.
class inference_stages {
 public:
  /// Cuts the model into `count` stages, balanced by the cost of nodes and the size of values.
  /// \throws onnx::error, inference_error, error
  inference_stages(::onnx::ModelProto model, std::uint32_t count, inference_options const& o = {})
      : model_(std::make_unique<::onnx::ModelProto>(std::move(model))), extents_(o.extents) {
    onnx::check(*model_);
    cut_.emplace(onnx::split(*model_, count, o.split));
    auto const& stages = cut_->stages.plan().stages;
    auto const models = onnx::stages(cut_->stages, cut_->types);
    auto const order = live_stages(cut_->stages);
    if (models.size() != count || stages.size() != count)
      throw inference_error({.what = inference_fault::kind::stages, .got = models.size(), .allowed = count});
    stages_.resize(count);
    for (std::uint32_t i = 0; i < count; ++i) {
      auto const s = index(order[i]);
      stages_[s] = {{}, names(stages[s].inputs), names(stages[s].outputs)};
      if (!models[i].SerializeToString(&stages_[s].model))
        throw inference_error({.what = inference_fault::kind::size, .got = s});
    }
    auto const& graph = cut_->stages.snapshot();
    inputs_ = names(graph.inputs);
    outputs_ = names(graph.outputs);
    edges_ = dataflow_of(graph, cut_->stages.plan());
    for (auto const& e : edges_.edges) {
      layouts_.edges.push_back(layout_of(name(e.value)));
      if (e.from != the_caller) layouts_.edges.back().extents = o.extents;
    }
  }

  std::uint32_t count() const { return edges_.stages; }
  onnx_stage const& stage(stage_id s) const { return stages_[index(s)]; }
  onnx::split_result const& cut() const { return *cut_; }
  dataflow const& edges() const { return edges_; }
  run_layouts const& layouts() const { return layouts_; }
  shape_kind extents() const { return extents_; }
  /// Return the names of the model's inputs and results, in order.
  std::vector<std::string> const& inputs() const { return inputs_; }
  std::vector<std::string> const& outputs() const { return outputs_; }
  /// Returns the element type and shape of a value.
  /// \throws inference_error
  edge_layout layout_of(std::string const& value) const {
    using enum inference_fault::kind;
    auto const* const type = cut_->types.priced(value);
    if (!type || cut_->types.bytes(value) == 0) throw inference_error({.what = no_shape, .name = value});
    auto const element = element_of(type->tensor_type().elem_type());
    if (!element)
      throw inference_error(
          {.what = no_type,
           .name = value,
           .made = ::onnx::TensorProto::DataType_Name(
               static_cast<::onnx::TensorProto::DataType>(type->tensor_type().elem_type()))});
    std::vector<std::int64_t> extents;
    for (auto const& d : type->tensor_type().shape().dim()) extents.push_back(d.dim_value());
    if (extents.size() > detail::most_axes)
      throw inference_error(
          {.what = axes, .name = value, .got = extents.size(), .allowed = detail::most_axes});
    return {
        .type = *element, .shape = std::span<std::int64_t const>(extents), .gradient = gradient_use::none};
  }

 private:
  /// Returns the element type of a tensor of ONNX, if stages can send it.
  static std::optional<element_type> element_of(std::int32_t t) {
    using of = ::onnx::TensorProto;
    constexpr std::int32_t types[] = {of::FLOAT, of::DOUBLE, of::FLOAT16, of::BFLOAT16, of::INT64,
                                      of::INT32, of::INT16,  of::INT8,    of::UINT8,    of::BOOL};
    static_assert(std::size(types) == detail::element_names.size());  // in the same order
    auto const* const at = std::ranges::find(types, t);
    if (at == std::end(types)) return std::nullopt;
    return static_cast<element_type>(at - types);
  }
  std::string name(std::uint64_t value) const {
    return std::string(cut_->graph->name_of(cut_->stages.snapshot().value[static_cast<std::size_t>(value)]));
  }
  std::vector<std::string> names(auto const& values) const {
    std::vector<std::string> list;
    for (auto const v : values) list.push_back(name(v));
    return list;
  }

  std::unique_ptr<::onnx::ModelProto> model_;  // `cut_` refers to it
  shape_kind extents_;
  std::optional<onnx::split_result> cut_;
  std::vector<onnx_stage> stages_;
  std::vector<std::string> inputs_, outputs_;
  dataflow edges_;
  run_layouts layouts_;
};

}  // namespace cleave
