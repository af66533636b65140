// SPDX-License-Identifier: MIT
#pragma once
#include <cuda_runtime_api.h>

#include <cleave/cuda/callable_stage.hpp>
#include <cleave/cuda/check.hpp>
#include <cleave/cuda/device.hpp>
#include <cleave/cuda/fp8.hpp>
#include <cleave/run/program/make_rank_program.hpp>
#include <cleave/schedule/families/one_f_one_b.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

/// Two stages that hand values on as 8-bit floats, and gradients of 1 back.
namespace example {

inline constexpr std::int64_t fp8_width = 1000;

inline cleave::cuda::fp8_options fp8_choice() { return {.block = 128}; }

// [layouts]
inline cleave::run_layouts layouts_in_fp8() {
  cleave::run_layouts layouts;
  layouts.edges.assign(3, {.type = cleave::element_type::f32, .shape = {fp8_width}});
  return cleave::cuda::in_fp8(std::move(layouts), {1}, fp8_choice());  // the edge between the stages
}
// [layouts]

inline cleave::step_plan fp8_plan() {
  constexpr auto first = cleave::stage_id{0}, second = cleave::stage_id{1};
  cleave::dataflow const edges{
      .stages = 2,
      .edges = {
          {cleave::the_caller, 0, first, 0}, {first, 0, second, 0}, {second, 0, cleave::the_caller, 0}}};
  cleave::program_options const options{.delivery = {.delivery = cleave::delivery::one_queue}};
  return {cleave::one_f_one_b(2, 4), edges, layouts_in_fp8(), options};
}

class fp8_stages {
 public:
  using views = std::span<cleave::tensor_view const>;

  explicit fp8_stages(cleave::cuda::device& d) : messages_(d, fp8_choice()), numbers_(d.allocate(2 * bytes)) {
    std::vector<float> const ones(fp8_width, 1);
    cleave::cuda::check(cudaMemcpy(numbers_.data(), ones.data(), bytes, cudaMemcpyHostToDevice),
                        "cudaMemcpy");
  }

  // [pack]
  void forward(cudaStream_t s, cleave::stage_pass const& p, views in, std::span<cleave::tensor_view> out) {
    if (index(p.stage) == 0) return messages_.pack_values(s, in[0].elements(), out[0]);
    messages_.unpack_values(s, in[0], out[0].elements());
  }
  void backward(cudaStream_t s, cleave::stage_pass const& p, views gradients, views in) {
    if (index(p.stage) == 1) return messages_.pack_gradients(s, ones(), in[0]);
    messages_.unpack_gradients(s, gradients[0], arrived());
  }
  // [pack]

  cleave::region arrived() const {
    return {static_cast<std::byte*>(numbers_.data()) + bytes, fp8_width, cleave::element_type::f32};
  }

 private:
  static constexpr std::size_t bytes = fp8_width * sizeof(float);

  cleave::region ones() const { return {numbers_.data(), fp8_width, cleave::element_type::f32}; }

  cleave::cuda::fp8_messages messages_;
  cleave::cuda::buffer numbers_;
};

}  // namespace example
