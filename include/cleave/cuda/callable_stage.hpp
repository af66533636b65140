// SPDX-License-Identifier: MIT
#pragma once
#include <cuda_runtime_api.h>

#include <span>
#include <utility>

#include "cleave/core/ids.hpp"
#include "cleave/cuda/detail/stream.hpp"
#include "cleave/cuda/device.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/custom_stage.hpp"
#include "cleave/run/model/recording.hpp"
#include "cleave/run/model/tensor_view.hpp"
#include "cleave/run/model/update.hpp"
#include "cleave/schedule/model/action.hpp"

namespace cleave::inline v0_2::detail {

/// Stands for the missing backward pass of a stage.
struct no_body {};

}  // namespace cleave::detail

namespace cleave::inline v0_2::cuda {

/// The two passes of a stage as callables, such as lambdas. `forward` takes `(cudaStream_t, stage_pass
/// const&, std::span<tensor_view const> in, std::span<tensor_view> out)`. `backward` takes `(cudaStream_t,
/// stage_pass const&, std::span<tensor_view const> gradients, std::span<tensor_view const> in)`.
template <class Forward, class Backward = detail::no_body>
struct pass_bodies {
  Forward forward;
  Backward backward = {};
};
template <class Forward>
pass_bodies(Forward) -> pass_bodies<Forward>;
template <class Forward, class Backward>
pass_bodies(Forward, Backward) -> pass_bodies<Forward, Backward>;

/// Stages whose functions take a `cudaStream_t` instead of a stream of the device. `Bodies` otherwise has the
/// members of a stage with the same arguments (run/model/concepts.hpp), as functions or callables. It needs
/// only those that it supports. So code that launches kernels or calls CUDA libraries needs no knowledge of
/// devices.
///
/// A body issues its work to that stream and does not wait for it. It may use other streams if they wait for
/// this stream first and this stream waits for them afterwards. It leaves the current GPU unchanged.
template <class Bodies>
class callable_stage {
 public:
  explicit callable_stage(Bodies b) : bodies_(std::move(b)) {}

  Bodies& bodies() { return bodies_; }

  void forward(detail::cuda_stream& s, stage_pass const& p, std::span<tensor_view const> in,
               std::span<tensor_view> out)
    requires requires(Bodies& b, cudaStream_t on) { b.forward(on, p, in, out); }
  {
    bodies_.forward(s.handle(), p, in, out);
  }
  void backward(detail::cuda_stream& s, stage_pass const& p, std::span<tensor_view const> gradients,
                std::span<tensor_view const> in)
    requires requires(Bodies& b, cudaStream_t on) { b.backward(on, p, gradients, in); }
  {
    bodies_.backward(s.handle(), p, gradients, in);
  }
  void backward_input(detail::cuda_stream& s, stage_pass const& p, std::span<tensor_view const> gradients,
                      std::span<tensor_view const> in)
    requires requires(Bodies& b, cudaStream_t on) { b.backward_input(on, p, gradients, in); }
  {
    bodies_.backward_input(s.handle(), p, gradients, in);
  }
  void backward_weight(detail::cuda_stream& s, stage_pass const& p)
    requires requires(Bodies& b, cudaStream_t on) { b.backward_weight(on, p); }
  {
    bodies_.backward_weight(s.handle(), p);
  }
  void recompute(detail::cuda_stream& s, stage_pass const& p, std::span<tensor_view const> in)
    requires requires(Bodies& b, cudaStream_t on) { b.recompute(on, p, in); }
  {
    bodies_.recompute(s.handle(), p, in);
  }
  void offload(detail::cuda_stream& s, stage_pass const& p)
    requires requires(Bodies& b, cudaStream_t on) { b.offload(on, p); }
  {
    bodies_.offload(s.handle(), p);
  }
  void reload(detail::cuda_stream& s, stage_pass const& p)
    requires requires(Bodies& b, cudaStream_t on) { b.reload(on, p); }
  {
    bodies_.reload(s.handle(), p);
  }
  void custom(detail::cuda_stream& s, action const& a, std::span<custom_part const> parts)
    requires requires(Bodies& b, cudaStream_t on) { b.custom(on, a, parts); }
  {
    bodies_.custom(s.handle(), a, parts);
  }
  void overlapped(detail::cuda_stream& s, custom_part const& forward, custom_part const& backward)
    requires requires(Bodies& b, cudaStream_t on) { b.overlapped(on, forward, backward); }
  {
    bodies_.overlapped(s.handle(), forward, backward);
  }
  void before_forward(detail::cuda_stream& s, stage_pass const& p)
    requires requires(Bodies& b, cudaStream_t on) { b.before_forward(on, p); }
  {
    bodies_.before_forward(s.handle(), p);
  }
  void after_forward(detail::cuda_stream& s, stage_pass const& p)
    requires requires(Bodies& b, cudaStream_t on) { b.after_forward(on, p); }
  {
    bodies_.after_forward(s.handle(), p);
  }
  void after_backward(detail::cuda_stream& s, stage_pass const& p)
    requires requires(Bodies& b, cudaStream_t on) { b.after_backward(on, p); }
  {
    bodies_.after_backward(s.handle(), p);
  }
  void unshard(detail::cuda_stream& s, stage_id i)
    requires requires(Bodies& b, cudaStream_t on) { b.unshard(on, i); }
  {
    bodies_.unshard(s.handle(), i);
  }
  void reshard(detail::cuda_stream& s, stage_id i)
    requires requires(Bodies& b, cudaStream_t on) { b.reshard(on, i); }
  {
    bodies_.reshard(s.handle(), i);
  }
  void update(detail::cuda_stream& s, stage_id i, double factor)
    requires requires(Bodies& b, cudaStream_t on) { b.update(on, i, factor); }
  {
    bodies_.update(s.handle(), i, factor);
  }
  void update(detail::cuda_stream& s, stage_id i, device_update const* u)
    requires requires(Bodies& b, cudaStream_t on) { b.update(on, i, u); }
  {
    bodies_.update(s.handle(), i, u);
  }
  void begin_recording(detail::cuda_stream& s)
    requires requires(Bodies& b, cudaStream_t on) { b.begin_recording(on); }
  {
    bodies_.begin_recording(s.handle());
  }
  void end_recording(detail::cuda_stream& s)
    requires requires(Bodies& b, cudaStream_t on) { b.end_recording(on); }
  {
    bodies_.end_recording(s.handle());
  }
  bool records() const
    requires detail::recorded_stage<Bodies>
  {
    return bodies_.records();
  }
  std::span<region const> gradients(stage_id i)
    requires detail::parameter_stage<Bodies>
  {
    return bodies_.gradients(i);
  }
  std::span<region const> parameters(stage_id i)
    requires requires(Bodies& b) { std::span<region const>(b.parameters(i)); }
  {
    return bodies_.parameters(i);
  }

 private:
  Bodies bodies_;
};

}  // namespace cleave::cuda
