// SPDX-License-Identifier: MIT
#include "cleave/cuda/offload.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cleave/cuda/detail/kernels.hpp"
#include "cleave/cuda/device.hpp"
#include "support/comes_true.hpp"
#include "support/cuda/fake_cuda.hpp"

using namespace cleave;
using namespace cleave::detail;
using namespace cleave::testing;
using namespace std::chrono_literals;

namespace {

using sentences = std::vector<std::string>;

stage_pass pass_of(std::uint32_t m) { return {.stage = stage_id{0}, .microbatch = microbatch_id{m}}; }

void fill(cudaStream_t s, void* at, int with, std::size_t bytes) {
  cleave::cuda::check(cudaMemsetAsync(at, with, bytes, s), "cudaMemsetAsync");
}
std::vector<char> bytes_at(cleave::cuda::device& d, cuda_stream& s, void const* at, std::size_t bytes) {
  auto const there = d.allocate_pinned(bytes);
  d.copy(s, there.data(), at, bytes);
  cleave::cuda::check(cudaStreamSynchronize(s.handle()), "cudaStreamSynchronize");
  auto const* const first = static_cast<char const*>(there.data());
  return {first, first + bytes};
}

}  // namespace

TEST_CASE("cuda::overlapped_saved_activations: each pass gets its own bytes back, offloaded or not") {
  constexpr std::size_t bytes = 4096;
  fake_cuda const fake({.seed = 4, .longest_delay = 100us});
  {
    cleave::cuda::device d;
    auto s = d.make_stream(0);
    cleave::cuda::overlapped_saved_activations saved(d, bytes, 1);
    for (int round = 0; round < 3; ++round) {
      for (std::uint32_t m = 0; m < 4; ++m) {
        fill(s.handle(), saved.save(s.handle(), pass_of(m), bytes), 10 * round + static_cast<int>(m), bytes);
        if (m < 3) saved.offload(s.handle(), pass_of(m));
      }
      CHECK(saved.count() == 4);
      saved.reload(pass_of(0));
      saved.reload(pass_of(1));
      for (std::uint32_t m = 0; m < 4; ++m) {
        if (m == 2) saved.reload(pass_of(2));
        auto const* const at = saved.await(s.handle(), pass_of(m));
        CHECK(bytes_at(d, s, at, bytes) ==
              std::vector(bytes, static_cast<char>(10 * round + static_cast<int>(m))));
        saved.release(s.handle(), pass_of(m));
      }
      CHECK(saved.count() == 0);
    }
  }
  CHECK(fake.reports() == sentences());
  CHECK(fake.leaks() == sentences());
}

TEST_CASE("cuda::overlapped_saved_activations: copies go both ways while the stage computes") {
  constexpr std::size_t bytes = 4096;
  fake_cuda fake;
  cleave::cuda::device d;
  auto s = d.make_stream(0);
  cleave::cuda::overlapped_saved_activations saved(d, bytes, 1);
  auto const memory = d.allocate(8);
  region const one{memory.data(), 1, element_type::f64};
  fill(s.handle(), saved.save(s.handle(), pass_of(0), bytes), 7, bytes);
  saved.offload(s.handle(), pass_of(0));
  fake.hang("reduce_kernel", 1);
  launch_sum_in_order(s.handle(), std::span(&one, 1), reduce_op::sum, 1);  // the stage computes for long
  CHECK(comes_true([&] { return saved.has_moved(pass_of(0)); }));
  saved.reload(pass_of(0));
  CHECK(comes_true([&] { return saved.has_moved(pass_of(0)); }));
  CHECK(cudaStreamQuery(s.handle()) == cudaErrorNotReady);
  fake.release();
  CHECK(bytes_at(d, s, saved.await(s.handle(), pass_of(0)), bytes) == std::vector<char>(bytes, 7));
  saved.release(s.handle(), pass_of(0));
  CHECK(fake.reports() == sentences());
}
