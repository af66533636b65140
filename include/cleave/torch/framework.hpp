// SPDX-License-Identifier: MIT
#pragma once
#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/engine/engine_stages.hpp"
#include "cleave/engine/framework.hpp"
#include "cleave/engine/operator_call.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/tensor_view.hpp"
#include "cleave/torch/accumulation_hooks.hpp"
#include "cleave/torch/operators.hpp"
#include "cleave/torch/split_backward.hpp"

namespace cleave::inline v0_2::torch {

/// libtorch as the framework of a stage engine: its tensors, its autograd, and the operators of ATen. Nodes
/// name operators as torch.export and torch.fx do. Modules are not called: trace through them.
class framework {
 public:
  using tensor = ::torch::Tensor;

  framework() = default;
  /// Stages have their tensors on `device`. With `torch::kMeta` a pipe can be traced without memory.
  explicit framework(::torch::Device device) : device_(device) {}

  /// \throws error if a stage cannot send tensors of its type
  tensor_view view(tensor const& t) const {
    auto const& types = cleave::detail::torch_element_types;
    auto const at = std::ranges::find(types, t.scalar_type());
    if (at == types.end())
      throw error(std::string("torch: stages cannot have tensors of type ") +
                  ::torch::toString(t.scalar_type()));
    bool const has_elements = t.is_contiguous() && !t.is_meta();
    return {has_elements ? t.data_ptr() : nullptr, static_cast<element_type>(at - types.begin()),
            std::span<std::int64_t const>(t.sizes().begin(), t.sizes().end())};
  }
  tensor wrap(tensor_view const& v) const {
    auto const extents = v.shape.list();
    auto const type = cleave::detail::torch_element_types[static_cast<std::size_t>(v.type)];
    return ::torch::from_blob(v.data, ::torch::IntArrayRef(extents.data(), extents.size()),
                              ::torch::TensorOptions().dtype(type).device(device_));
  }
  tensor copy(tensor const& t) const { return t.detach().clone(); }
  tensor filled(tensor const& t, double x) const { return ::torch::full_like(t.detach(), x); }
  void write(tensor const& t, tensor_view const& v) const { wrap(v).copy_(t.detach()); }
  void add(tensor const& t, tensor_view const& v, double x) const { wrap(v).add_(t.detach(), x); }
  void fill(tensor_view const& v, double x) const { wrap(v).fill_(x); }

  void begin(stage_pass const& p) const { ::torch::GradMode::set_enabled(p.trains); }
  model_value<tensor> call(operator_call<tensor> const& c) {
    if (c.node.kind == node_kind::call_module)
      throw operator_error({cleave::detail::operator_fault::kind::failed,
                            c.node.name,
                            c.node.target,
                            {},
                            "libtorch has no module of that path; trace through it, as torch.export does"});
    return operators_.call(c);
  }

  tensor leaf(tensor const& t) const { return t.detach().requires_grad_(); }
  bool needs_gradient(tensor const& t) const { return t.requires_grad(); }
  std::vector<std::optional<tensor>> gradients(std::vector<tensor> const& results,
                                               std::vector<tensor> const& at_results,
                                               std::vector<tensor> const& wanted, bool keep) const {
    if (results.empty() || wanted.empty()) return std::vector<std::optional<tensor>>(wanted.size());
    return some(::torch::autograd::grad(results, wanted, at_results, keep, false, true));
  }

  /// Calls `take(i, gradient)` for each of the leaves `wanted`, as soon as its gradient is complete.
  template <class Take>
  void each_gradient(std::vector<tensor> const& results, std::vector<tensor> const& at_results,
                     std::vector<tensor> const& wanted, Take take) const {
    std::vector<char> taken(wanted.size());
    auto const take_next = [&](std::size_t i) {
      taken[i] = 1;
      take(i, wanted[i].grad().defined() ? std::optional(wanted[i].grad()) : std::nullopt);
    };
    if (!results.empty() && !wanted.empty()) {
      cleave::detail::accumulation_hooks const hooks(wanted, take_next);
      ::torch::autograd::backward(results, at_results, false, false, wanted);
      hooks.rethrow();
    }
    for (std::size_t i = 0; i < wanted.size(); ++i)
      if (!taken[i]) take_next(i);
    for (auto const& t : wanted) t.mutable_grad().reset();
  }

  /// A backward pass in two halves.
  class halves {
   public:
    halves(std::vector<tensor> const& results, std::vector<tensor> at_results,
           std::vector<tensor> const& inputs, std::vector<tensor> const& parameters)
        : parameters_(parameters.size()), cut_(results, std::move(at_results), inputs, parameters) {}
    std::vector<std::optional<tensor>> inputs() { return some(cut_.input_gradients()); }
    std::vector<std::optional<tensor>> parameters() {
      std::vector<std::optional<tensor>> found(parameters_);
      each_parameter([&](std::size_t i, std::optional<tensor> g) { found[i] = std::move(g); });
      return found;
    }
    template <class Take>
    void each_parameter(Take take) {
      std::vector<char> taken(parameters_);
      cut_.each_weight_gradient([&](std::size_t i, tensor const& g) {
        taken[i] = 1;
        take(i, std::optional(g));
      });
      for (std::size_t i = 0; i < parameters_; ++i)
        if (!taken[i]) take(i, std::optional<tensor>());
    }

   private:
    std::size_t parameters_;
    split_backward cut_;
  };
  halves split(std::vector<tensor> const& results, std::vector<tensor> at_results,
               std::vector<tensor> const& inputs, std::vector<tensor> const& parameters) const {
    return {results, std::move(at_results), inputs, parameters};
  }

 private:
  static std::vector<std::optional<tensor>> some(std::vector<tensor> const& list) {
    std::vector<std::optional<tensor>> made;
    for (auto const& t : list) made.push_back(t.defined() ? std::optional(t) : std::nullopt);
    return made;
  }

  ::torch::Device device_ = ::torch::kCPU;
  cleave::detail::torch_operators operators_;
};

static_assert(differentiating_framework<framework>);

/// An optimiser of libtorch, such as `torch::optim::AdamW`, for the parameters of each stage.
template <class O>
class optimiser {
 public:
  /// Makes an optimiser with these options for the parameters of each stage.
  template <class Options>
  explicit optimiser(Options const& options)
      : make_([](torch::tensors all, void const* with) {
          return std::make_shared<O>(std::move(all), *static_cast<Options const*>(with));
        }),
        options_(std::make_shared<Options>(options)) {}

  void operator()(framework& f, stage_id s, std::span<stage_parameter const> parameters, double factor) {
    auto& mine = stages_[s];
    if (!mine) {
      torch::tensors all;
      for (auto const& p : parameters) {
        all.push_back(f.wrap(p.value).requires_grad_());
        all.back().mutable_grad() = f.wrap(p.gradient);
      }
      mine = make_(std::move(all), options_.get());
    }
    if (factor != 1) {
      ::torch::NoGradGuard const no_graph;
      for (auto const& p : parameters) f.wrap(p.gradient).mul_(factor);
    }
    if (!parameters.empty()) mine->step();
  }

 private:
  std::shared_ptr<O> (*make_)(torch::tensors, void const*);
  std::shared_ptr<void const> options_;
  std::map<stage_id, std::shared_ptr<O>> stages_;
};

}  // namespace cleave::torch
