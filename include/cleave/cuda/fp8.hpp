// SPDX-License-Identifier: MIT
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/cuda/check.hpp"
#include "cleave/cuda/detail/fp8_lane.hpp"
#include "cleave/cuda/detail/kernels.hpp"
#include "cleave/cuda/device.hpp"
#include "cleave/run/model/edge_layout.hpp"
#include "cleave/run/model/tensor_view.hpp"

namespace cleave::inline v0_2::cuda {

/// The formats and scales of 8-bit floats that replace values of f32, f16 or bf16 in messages.
struct fp8_options {
  cuda::fp8_format values = cuda::fp8_format::e4m3;
  cuda::fp8_format gradients = cuda::fp8_format::e5m2;
  std::uint64_t block =
      0;  ///< values with a scale of their own: a multiple of 16; 0: one scale for a message
};

}  // namespace cleave::cuda

namespace cleave::inline v0_2::detail {

/// An edge that cannot travel as 8-bit floats, or an option that is not possible.
struct fp8_fault {
  static constexpr char subject[] = "cuda::fp8: ";
  enum class kind : std::uint8_t {
    type,   ///< the values of edge `edge` are not f32, f16 or bf16
    shape,  ///< the shape of edge `edge` is known only while a step runs
    edge,   ///< there is no edge `edge`
    block,  ///< a block has `edge` values
  };
  kind what;
  std::uint64_t edge = 0;

  bool operator==(fp8_fault const&) const = default;
};

/// Says what is wrong, and how to fix it.
inline std::string describe(fp8_fault const& f) {
  auto const edge = "edge #" + std::to_string(f.edge);
  switch (f.what) {
    case fp8_fault::kind::type:
      return "the values of " + edge + " are not f32, f16 or bf16; leave it out";
    case fp8_fault::kind::shape:
      return "the shape of " + edge + " is known only while a step runs; leave it out";
    case fp8_fault::kind::edge:
      return "there is no " + edge;
    case fp8_fault::kind::block:
      return "a block of " + std::to_string(f.edge) + " values; use a multiple of 16, or 0";
  }
  return {};
}

using fp8_error = fault_error<fp8_fault>;

constexpr bool is_fp8_source(element_type t) {
  return t == element_type::f32 || t == element_type::f16 || t == element_type::bf16;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2::cuda {

/// Returns the layouts of a plan in which the edges `edges` carry 8-bit floats with scales instead of their
/// values, and in the other direction their gradients. A stage unpacks such an input with `fp8_messages`
/// before it reads it, and packs such a result.
/// \throws fp8_error
inline run_layouts in_fp8(run_layouts layouts, std::vector<std::uint32_t> const& edges,
                          cuda::fp8_options const& o = {}) {
  using kind = detail::fp8_fault::kind;
  if (o.block % detail::fp8_together != 0) throw detail::fp8_error({kind::block, o.block});
  for (auto const e : edges) {
    if (e >= layouts.edges.size()) throw detail::fp8_error({kind::edge, e});
    auto& l = layouts.edges[e];
    if (l.extents == shape_kind::dynamic) throw detail::fp8_error({kind::shape, e});
    if (!detail::is_fp8_source(l.type)) throw detail::fp8_error({kind::type, e});
    detail::fp8_block_list const all{static_cast<std::uint64_t>(*l.shape.count()), o.block};
    l.type = element_type::u8;
    l.shape = {static_cast<std::int64_t>(all.bytes())};  // that of the largest microbatch
    l.batch_axis.reset();
    if (l.gradient == gradient_use::wanted) l.gradient = gradient_use::packed;
  }
  return layouts;
}

/// Packs values and gradients for edges of `in_fp8`, and unpacks them, on the stream of a stage. The kernels
/// read and write GPU memory; results have the bits of the host.
class fp8_messages {
 public:
  explicit fp8_messages(cuda::device const& d, cuda::fp8_options const& o = {})
      : options_(o), processors_(d.processors()) {}

  /// Packs `from` into `to`, the view of a result of the stage, or unpacks `from`, the view of an input. The
  /// region has as many values as the microbatch; they are f32, f16 or bf16.
  /// \throws cuda_error
  void pack_values(cudaStream_t s, region const& from, tensor_view const& to) const {
    pack(s, from, to, options_.values);
  }
  void unpack_values(cudaStream_t s, tensor_view const& from, region const& to) const {
    unpack(s, from, to, options_.values);
  }
  /// Do the same for gradients of inputs and of results.
  void pack_gradients(cudaStream_t s, region const& from, tensor_view const& to) const {
    pack(s, from, to, options_.gradients);
  }
  void unpack_gradients(cudaStream_t s, tensor_view const& from, region const& to) const {
    unpack(s, from, to, options_.gradients);
  }

 private:
  detail::fp8_block_list list_of(region const& r, tensor_view const& packed) const {
    detail::fp8_block_list const all{r.count, options_.block};
    expects(detail::is_fp8_source(r.type), "cuda::fp8_messages: values are f32, f16 or bf16");
    expects(all.bytes() <= packed.elements().bytes(), "cuda::fp8_messages: the packed values fit the view");
    return all;
  }
  void pack(cudaStream_t s, region const& from, tensor_view const& to, cuda::fp8_format f) const {
    auto const all = list_of(from, to);
    if (from.count == 0) return;
    check(cudaMemsetAsync(to.data, 0, all.first_byte(), s), "cudaMemsetAsync");
    detail::launch_fp8_pack(s, from, to.data, all, f, processors_);
    detail::check_launch("launch of a packing");
  }
  void unpack(cudaStream_t s, tensor_view const& from, region const& to, cuda::fp8_format f) const {
    auto const all = list_of(to, from);
    if (to.count == 0) return;
    detail::launch_fp8_unpack(s, from.data, to, all, f, processors_);
    detail::check_launch("launch of an unpacking");
  }

  cuda::fp8_options options_;
  std::uint32_t processors_;
};

}  // namespace cleave::cuda
