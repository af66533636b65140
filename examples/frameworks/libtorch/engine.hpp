// SPDX-License-Identifier: MIT
#pragma once
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <cleave/core/error.hpp>
#include <cleave/core/expects.hpp>
#include <cleave/core/ids.hpp>
#include <cleave/run/model/concepts.hpp>
#include <cleave/run/model/named_tensor.hpp>
#include <cleave/run/model/tensor_view.hpp>
#include <cleave/torch/split_backward.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace example {

using cleave::torch::split_backward, cleave::torch::tensors;

/// A stage: its function and its parameters.
class pipe_module : public torch::nn::Module {
 public:
  /// Computes the results of the stage from its inputs. In the last stage, the first result is the loss.
  virtual tensors forward(tensors const& in) = 0;
};

/// In the order of `cleave::element_type`.
inline constexpr std::array element_types = {
    torch::kFloat32, torch::kFloat64, torch::kFloat16, torch::kBFloat16, torch::kInt64,
    torch::kInt32,   torch::kInt16,   torch::kInt8,    torch::kUInt8,    torch::kBool};

/// \throws cleave::error
inline cleave::element_type element_type_of(torch::Tensor const& t) {
  auto const at = std::ranges::find(element_types, t.scalar_type());
  if (at == element_types.end())
    throw cleave::error(std::string("unsupported element type  ") + t.dtype().name().data());
  return static_cast<cleave::element_type>(at - element_types.begin());
}

/// Returns a tensor on the same memory.
inline torch::Tensor tensor_of(cleave::tensor_view const& v) {
  auto const extents = v.shape.list();
  return torch::from_blob(v.data, torch::IntArrayRef(extents.data(), extents.size()),
                          element_types[static_cast<std::size_t>(v.type)]);
}

/// Returns the view of a tensor. If the tensor is not contiguous, only type and shape are valid.
inline cleave::tensor_view view_of(torch::Tensor const& t) {
  return {t.data_ptr(), element_type_of(t),
          std::span<std::int64_t const>(t.sizes().begin(), t.sizes().end())};
}
/// Precondition: it is contiguous.
inline cleave::region region_of(torch::Tensor const& t) {
  cleave::expects(t.is_contiguous(), "region_of: a contiguous tensor");
  return {t.data_ptr(), static_cast<std::size_t>(t.numel()), element_type_of(t)};
}

/// Copies a result. \throws cleave::error if type or shape differ from those that its readers expect
inline void put(torch::Tensor const& t, cleave::tensor_view const& to) {
  auto const made = view_of(t);
  if (made.type != to.type || made.shape != to.shape)
    throw cleave::error("the module makes " + cleave::layout_text(made.type, made.shape) +
                        " but its readers expect " + cleave::layout_text(to.type, to.shape));
  tensor_of(to).copy_(t);
}

/// Runs the stages of one rank, which are libtorch modules. This is all the code between a pipeline and the
/// framework, for devices that run work immediately, such as threads and MPI processes.
class torch_engine {
 public:
  /// Gradients accumulate in `grad()` of the parameters, for the optimiser.
  void add(cleave::stage_id id, std::shared_ptr<pipe_module> module,
           std::unique_ptr<torch::optim::Optimizer> optimiser) {
    auto& s = stages_[id];
    s.tensors = module->parameters();
    for (auto& p : s.tensors) {
      p.mutable_grad() = torch::zeros_like(p);
      s.parameters.push_back(region_of(p));
      s.gradients.push_back(region_of(p.grad()));
    }
    s.module = std::move(module);
    s.optimiser = std::move(optimiser);
  }

  // [passes]
  void forward(auto&, cleave::stage_pass const& p, std::span<cleave::tensor_view const> in,
               std::span<cleave::tensor_view> out) {
    auto& s = stages_.at(p.stage);
    torch::AutoGradMode const with_graph(p.trains);
    pass made;
    for (auto const& v : in)
      made.in.push_back(tensor_of(v).requires_grad_(p.trains && cleave::is_floating(v.type)));
    made.out = s.module->forward(made.in);
    if (made.out.size() < out.size()) throw cleave::error("the module makes fewer results than are read");
    for (std::size_t i = 0; i < out.size(); ++i) put(made.out[i].detach(), out[i]);
    if (p.trains) s.passes[p.microbatch] = std::move(made);
  }

  void backward(auto&, cleave::stage_pass const& p, std::span<cleave::tensor_view const> gradients,
                std::span<cleave::tensor_view const> in) {
    auto& s = stages_.at(p.stage);
    auto const made = std::move(s.passes.extract(p.microbatch).mapped());
    auto const [roots, at_roots] = gradients_of(made, p, gradients);
    auto wanted = wanted_of(made, in);
    auto const inputs = wanted.size();
    wanted.insert(wanted.end(), s.tensors.begin(), s.tensors.end());
    auto const found = torch::autograd::grad(roots, wanted, at_roots, false, false, true);
    give(found, in);
    for (std::size_t i = inputs; i < found.size(); ++i)
      if (found[i].defined()) s.tensors[i - inputs].mutable_grad().add_(found[i]);
  }

  void backward_input(auto&, cleave::stage_pass const& p, std::span<cleave::tensor_view const> gradients,
                      std::span<cleave::tensor_view const> in) {
    auto& s = stages_.at(p.stage);
    auto& made = s.passes.at(p.microbatch);
    auto [roots, at_roots] = gradients_of(made, p, gradients);
    for (auto& g : at_roots) g = g.clone();
    made.halves = split_backward(roots, at_roots, wanted_of(made, in), s.tensors);
    give(made.halves.input_gradients(), in);
    keep_inputs(made);
  }

  void backward_weight(auto&, cleave::stage_pass const& p) {
    auto& s = stages_.at(p.stage);
    s.passes.at(p.microbatch).halves.each_weight_gradient([&](std::size_t i, torch::Tensor const& g) {
      s.tensors[i].mutable_grad().add_(g);
    });
    s.passes.erase(p.microbatch);
  }
  // [passes]

  std::span<cleave::region const> gradients(cleave::stage_id i) const { return stages_.at(i).gradients; }
  std::span<cleave::region const> parameters(cleave::stage_id i) const { return stages_.at(i).parameters; }

  void update(auto&, cleave::stage_id i, double factor) {
    auto& s = stages_.at(i);
    for (auto& p : s.tensors) p.mutable_grad().mul_(factor);
    s.optimiser->step();
    for (auto& p : s.tensors) p.mutable_grad().zero_();
  }

 private:
  /// Data kept from a forward pass for its backward pass. The results own the autograd graph.
  struct pass {
    tensors in, out;
    split_backward halves = {};
    tensors kept = {};  ///< copies of the inputs
  };
  struct loaded_stage {
    std::shared_ptr<pipe_module> module;
    std::unique_ptr<torch::optim::Optimizer> optimiser;
    std::vector<torch::Tensor> tensors;  ///< the parameters
    std::vector<cleave::region> parameters, gradients;
    std::map<cleave::microbatch_id, pass> passes;
  };

  /// The results that receive gradients, and the gradients.
  static std::pair<tensors, tensors> gradients_of(pass const& made, cleave::stage_pass const& p,
                                                  std::span<cleave::tensor_view const> gradients) {
    if (p.from_loss) return {{made.out.at(0)}, {torch::full_like(made.out[0], p.weight)}};
    tensors roots, at_roots;
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients[i].data || !made.out.at(i).requires_grad()) continue;
      roots.push_back(made.out[i]);
      at_roots.push_back(tensor_of(gradients[i]));
    }
    return {roots, at_roots};
  }

  /// The inputs that need gradients.
  static tensors wanted_of(pass const& made, std::span<cleave::tensor_view const> in) {
    tensors wanted;
    for (std::size_t i = 0; i < in.size(); ++i)
      if (in[i].data) wanted.push_back(made.in[i]);
    return wanted;
  }

  /// The memory of inputs and gradients is released after the first half. The graph refers to inputs and
  /// their views through their storage, which therefore receives a copy.
  static void keep_inputs(pass& made) {
    for (auto const& t : made.in) {
      auto const& copy = made.kept.emplace_back(t.detach().clone());
      t.storage().unsafeGetStorageImpl()->set_data_ptr({copy.data_ptr(), t.device()});
    }
  }

  /// Writes their gradients: the first entries of `found`.
  static void give(std::span<torch::Tensor const> found, std::span<cleave::tensor_view const> in) {
    auto next = found.begin();
    for (auto const& v : in) {
      if (!v.data) continue;
      if (next->defined())
        tensor_of(v).copy_(*next);
      else
        tensor_of(v).zero_();
      ++next;
    }
  }

  std::map<cleave::stage_id, loaded_stage> stages_;
};

}  // namespace example
