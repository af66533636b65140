// SPDX-License-Identifier: MIT
#include "cleave/cuda/callable_stage.hpp"

#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cleave/cuda/device.hpp"
#include "cleave/cuda/offload.hpp"
#include "support/cuda/fake_cuda.hpp"
#include "support/cuda/linear_bodies.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;

namespace {

using sentences = std::vector<std::string>;
using views = std::span<tensor_view const>;

struct forward_bodies {
  void forward(cudaStream_t, stage_pass const&, views, std::span<tensor_view>) {}
};
struct custom_bodies : forward_bodies {
  void custom(cudaStream_t, action const&, std::span<custom_part const>) {}
  void overlapped(cudaStream_t, custom_part const&, custom_part const&) {}
  void before_forward(cudaStream_t, stage_pass const&) {}
  void after_forward(cudaStream_t, stage_pass const&) {}
  void after_backward(cudaStream_t, stage_pass const&) {}
};
static_assert(stage<cleave::cuda::callable_stage<forward_bodies>, cleave::cuda::device>);
static_assert(custom_stage<cleave::cuda::callable_stage<custom_bodies>, cleave::cuda::device>);
static_assert(!custom_stage<cleave::cuda::callable_stage<forward_bodies>, cleave::cuda::device>);
static_assert(overlapped_stage<cleave::cuda::callable_stage<custom_bodies>, cleave::cuda::device>);
static_assert(!overlapped_stage<cleave::cuda::callable_stage<forward_bodies>, cleave::cuda::device>);
static_assert(hooked_before_forward<cleave::cuda::callable_stage<custom_bodies>, cleave::cuda::device>);
static_assert(hooked_after_forward<cleave::cuda::callable_stage<custom_bodies>, cleave::cuda::device>);
static_assert(hooked_after_backward<cleave::cuda::callable_stage<custom_bodies>, cleave::cuda::device>);
static_assert(!hooked_after_backward<cleave::cuda::callable_stage<forward_bodies>, cleave::cuda::device>);
static_assert(!trained_stage<cleave::cuda::callable_stage<forward_bodies>, cleave::cuda::device>);
static_assert(!parameter_stage<cleave::cuda::callable_stage<forward_bodies>>);
static_assert(!stage<cleave::cuda::callable_stage<no_body>, cleave::cuda::device>);

static_assert(split_backward_stage<cuda_linear_engine, cleave::cuda::device>);
static_assert(updated_stage<cuda_linear_engine, cleave::cuda::device>);
static_assert(offloaded_stage<cuda_linear_engine, cleave::cuda::device>);
static_assert(recomputed_stage<cuda_linear_engine, cleave::cuda::device>);
static_assert(!sharded_stage<cuda_linear_engine, cleave::cuda::device>);

}  // namespace

TEST_CASE("cuda::callable_stage: passes the stream handle to each body; a forward body alone makes a stage") {
  fake_cuda fake;
  cleave::cuda::device d;
  auto s = d.make_stream(0);
  std::vector<cudaStream_t> seen;
  cleave::cuda::callable_stage one(cleave::cuda::pass_bodies{
      [&](cudaStream_t on, stage_pass const&, views, std::span<tensor_view>) { seen.push_back(on); }});
  static_assert(!trained_stage<decltype(one), cleave::cuda::device>);
  cleave::cuda::callable_stage two(cleave::cuda::pass_bodies{
      [&](cudaStream_t on, stage_pass const&, views, std::span<tensor_view>) { seen.push_back(on); },
      [&](cudaStream_t on, stage_pass const&, views, views) { seen.push_back(on); }});
  static_assert(trained_stage<decltype(two), cleave::cuda::device>);
  stage_pass const p{.stage = stage_id{0}, .microbatch = microbatch_id{0}};
  one.forward(s, p, {}, {});
  two.forward(s, p, {}, {});
  two.backward(s, p, {}, {});
  CHECK(seen == std::vector<cudaStream_t>(3, s.handle()));
}

TEST_CASE("cuda::pinned_saved_activations: returns offloaded data in any order, even to another address") {
  fake_cuda fake({.longest_delay = std::chrono::microseconds(100)});
  {
    cleave::cuda::device d;
    cleave::cuda::pinned_saved_activations saved_activations(d, 64, 1);
    auto const b = d.allocate(512);
    auto* const at = static_cast<double*>(b.data());
    auto s = d.make_stream(0);
    auto const region_at = [&](int i) { return region{at + 8 * i, 8, element_type::f64}; };
    auto const pass = [](std::uint32_t m) {
      return stage_pass{.stage = stage_id{1}, .microbatch = microbatch_id{m}};
    };
    std::array<double, 24> given{}, made{};
    for (std::size_t i = 0; i < given.size(); ++i) given[i] = static_cast<double>(i);
    d.copy(s, at, given.data(), sizeof given);
    saved_activations.offload(s.handle(), pass(0), region_at(0));
    saved_activations.offload(s.handle(), pass(0), region_at(1), 1);
    saved_activations.offload(s.handle(), pass(1), region_at(2));
    CHECK(saved_activations.count() == 3);
    cleave::cuda::check(cudaMemsetAsync(at, 0xff, 512, s.handle()), "cudaMemsetAsync");
    saved_activations.reload(s.handle(), pass(1), region_at(4));
    saved_activations.reload(s.handle(), pass(0), region_at(3), 1);
    saved_activations.offload(s.handle(), pass(2), region_at(4));
    saved_activations.reload(s.handle(), pass(2), region_at(2));
    saved_activations.reload(s.handle(), pass(0), region_at(5));
    CHECK(saved_activations.count() == 0);
    cleave::cuda::check(cudaStreamSynchronize(s.handle()), "cudaStreamSynchronize");
    cleave::cuda::check(cudaMemcpy(made.data(), at + 16, 64, cudaMemcpyDeviceToHost), "cudaMemcpy");
    cleave::cuda::check(cudaMemcpy(made.data() + 8, at + 24, 64, cudaMemcpyDeviceToHost), "cudaMemcpy");
    cleave::cuda::check(cudaMemcpy(made.data() + 16, at + 40, 64, cudaMemcpyDeviceToHost), "cudaMemcpy");
    for (std::size_t i = 0; i < 8; ++i) {
      CHECK(made[i] == given[16 + i]);
      CHECK(made[8 + i] == given[8 + i]);
      CHECK(made[16 + i] == given[i]);
    }
  }
  CHECK(fake.reports() == sentences());
  CHECK(fake.leaks() == sentences());
}
