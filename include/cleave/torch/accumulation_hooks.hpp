// SPDX-License-Identifier: MIT
#pragma once
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cleave/core/language.hpp"

namespace cleave::inline v0_2::detail {

/// Calls a function each time that libtorch has added to the gradient of a leaf, while it lives. Calls do not
/// overlap, though libtorch may make them on threads of its own.
class accumulation_hooks {
 public:
  /// `f(i)` is called for `leaves[i]`.
  template <class F>
  accumulation_hooks(std::vector<::torch::Tensor> const& leaves, F& f) {
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      auto accumulator = ::torch::autograd::impl::grad_accumulator(leaves[i]);
      auto const key = accumulator->add_post_hook(std::make_unique<hook<F>>(*this, f, i));
      placed_.emplace_back(std::move(accumulator), key);
    }
  }
  accumulation_hooks(accumulation_hooks const&) = delete;
  accumulation_hooks& operator=(accumulation_hooks const&) = delete;
  ~accumulation_hooks() {
    for (auto const& [accumulator, key] : placed_) accumulator->del_post_hook(key);
  }

  /// Throws the first exception of the function, if there was one. It is not called after that.
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  using variables = ::torch::autograd::variable_list;
  using node = decltype(::torch::autograd::impl::grad_accumulator(std::declval<::torch::Tensor>()));

  template <class F>
  class hook : public ::torch::autograd::FunctionPostHook {
   public:
    hook(accumulation_hooks& of, F& f, std::size_t i) : of_(of), f_(f), i_(i) {}
    variables operator()(variables const& outputs, variables const& /*inputs*/) override {
      std::lock_guard const alone(of_.calls_);
      if (of_.failure_) return outputs;
      try {
        f_(i_);
      } catch (...) {
        of_.failure_ = std::current_exception();
      }
      return outputs;
    }

   private:
    accumulation_hooks& of_;
    F& f_;
    std::size_t i_;
  };

  std::mutex calls_;
  std::exception_ptr failure_;
  std::vector<std::pair<node, std::uintptr_t>> placed_;
};

}  // namespace cleave::detail
