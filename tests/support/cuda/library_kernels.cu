// SPDX-License-Identifier: MIT
// What the kernels of the library do on the fake runtime: the code of their lanes, one lane after the other
// in an order that changes, on memory of the host. What is compiled here is also what the tests look at for
// how it was.
#include "cleave/cuda/kernels.cuh"

#include <array>
#include <cstddef>
#include <cstdint>

#include "support/cuda/fake_cuda.hpp"

namespace cleave::testing {

/// For the test of what nvcc makes of kernels: what it must find.
__global__ void control_of_any_address(float* far, int choice) {
  __shared__ float near[32];
  near[threadIdx.x] = 0;
  float* const p = choice > 3 ? near : far;
  p[threadIdx.x] += near[choice];
  far[0] = near[1];
}
__global__ void control_of_stack(int* p) {
  int x[64];
  for (int i = 0; i < 64; ++i) x[p[i] & 63] = i;
  *p = x[p[64] & 63];
}
__global__ void control_of_rounding(float* x, double* y) {
  x[0] += x[1] * x[2];
  y[0] += y[1] * y[2];
}
__global__ void control_of_16_bytes(float4* p) { p[0] = p[1]; }

namespace {

/// Calls `f(block, lane)` for all lanes of all blocks, those of a block in an order of its own.
template <class F>
void run_lanes(dim3 grid, dim3 block, F f) {
  for (std::uint32_t b = 0; b < grid.x; ++b)
    for (std::uint32_t i = 0; i < block.x; ++i) f(b, (i * 77 + 13 * b) % block.x);
}

/// The segments with tiles of a run, and their table.
template <class F>
void tell_segments(fake_accesses& a, sum_segment const* segments, std::uint32_t count, F f) {
  a.reads(segments, count * sizeof(sum_segment));
  for (std::uint32_t i = 0; i < count; ++i) f(segments[i]);
}

template <class From, class To, class Operation>
void bind_accumulate() {
  using sum = common_sum_t<From, To>;
  auto const body = [](dim3 grid, dim3 block, sum_segment const* segments, std::uint32_t count,
                       std::uint32_t tiles, sum factor, float const* device_factor,
                       std::uint32_t* nonfinite) {
    if (device_factor) factor *= sum{*device_factor};
    bool bad = false;
    run_lanes(grid, block, [&](std::uint32_t b, std::uint32_t lane) {
      bad |= accumulate_block<From, To, watched<Operation>, device_lanes>(segments, count, tiles, factor, b,
                                                                          grid.x, lane);
    });
    if (nonfinite && bad) *nonfinite |= 1;
  };
  auto const accesses = [](fake_accesses& a, dim3, dim3, sum_segment const* segments, std::uint32_t count,
                           std::uint32_t, sum, float const* device_factor, std::uint32_t* nonfinite) {
    if (device_factor) a.reads(device_factor, sizeof *device_factor);
    if (nonfinite) a.writes(nonfinite, sizeof *nonfinite);
    tell_segments(a, segments, count, [&](sum_segment const& s) {
      a.reads(s.from, s.count * sizeof(From));
      if (Operation::reads_target) a.reads(s.to, s.count * sizeof(To));
      a.writes(s.to, s.count * sizeof(To));
    });
  };
  bind_kernel(&accumulate_kernel<From, To, Operation>, body, accesses);
}

template <class T, reduce_op Op, std::size_t Room>
void bind_reduce() {
  auto const body = [](dim3 grid, dim3 block, region_addresses<Room> const& r) {
    run_lanes(grid, block, [&](std::uint32_t b, std::uint32_t lane) {
      reduce_lane<T, Op, device_lanes>(r, b, grid.x, lane);
    });
  };
  auto const accesses = [](fake_accesses& a, dim3, dim3, region_addresses<Room> const& r) {
    for (std::uint32_t k = 0; k < r.regions; ++k) {
      a.reads(r.at[k], r.count * sizeof(T));
      a.writes(r.at[k], r.count * sizeof(T));
    }
  };
  bind_kernel(&reduce_kernel<T, Op, Room>, body, accesses);
}

template <class T>
void bind_squares() {
  auto const body = [](dim3 grid, dim3 block, sum_segment const* segments, std::uint32_t count,
                       std::uint32_t tiles, double* partials) {
    std::size_t const all = block.x * square_packs<T, device_lanes>;
    for (std::uint32_t t = 0; t < tiles; ++t) partials[t] = -1;  // of another tile
    run_lanes(grid, {1, 1, 1}, [&](std::uint32_t b, std::uint32_t) {
      for (std::uint32_t t = b; t < tiles; t += grid.x) {
        auto const& s = segments[segment_of(segments, count, t)];
        std::array<double, sums_by_turns> sums;
        run_lanes({1, 1, 1}, block, [&](std::uint32_t, std::uint32_t lane) {
          auto const mine = square_lane<T, device_lanes>(s, t, lane);
          for (std::size_t u = 0; u < mine.size(); ++u) sums[u * block.x + lane] = mine[u];
        });
        partials[t] = sum_of_neighbours(sums, all);
      }
    });
  };
  auto const accesses = [](fake_accesses& a, dim3, dim3, sum_segment const* segments, std::uint32_t count,
                           std::uint32_t tiles, double* partials) {
    tell_segments(a, segments, count, [&](sum_segment const& s) { a.reads(s.from, s.count * sizeof(T)); });
    a.writes(partials, tiles * sizeof *partials);
  };
  bind_kernel(&squares_kernel<T>, body, accesses);
}

void bind_partials() {
  auto const body = [](dim3, dim3, double const* partials, std::uint64_t count, double* result) {
    std::array<double, sums_by_turns> sums = {};
    for (std::uint64_t t = 0; t < count; ++t) sums[t % sums_by_turns] += partials[t];
    *result = sum_of_neighbours(sums, sums_by_turns);
  };
  bind_kernel(&partials_kernel, body,
              [](fake_accesses& a, dim3, dim3, double const* partials, std::uint64_t count, double* result) {
                a.reads(partials, count * sizeof *partials);
                a.writes(result, sizeof *result);
              });
}

bool bind_all() {
  for (auto const from : {element_type::f32, element_type::f64, element_type::f16, element_type::bf16})
    with_floating(from, [](auto x) {
      using From = decltype(x);
      bind_squares<From>();
      auto const bind_to = []<class To>(To) {
        bind_accumulate<From, To, adding>();
        bind_accumulate<From, To, overwriting>();
      };
      bind_to(float{}), bind_to(double{}), bind_to(float16_bits{}), bind_to(bfloat16_bits{});
    });
  for (auto const type :
       {element_type::f32, element_type::f64, element_type::f16, element_type::bf16, element_type::i64,
        element_type::i32, element_type::i16, element_type::i8, element_type::u8})
    with_element(type, [](auto x) {
      using T = decltype(x);
      bind_reduce<T, reduce_op::sum, 2>();
      bind_reduce<T, reduce_op::max, 2>();
      bind_reduce<T, reduce_op::sum, most_reduced_regions>();
      bind_reduce<T, reduce_op::max, most_reduced_regions>();
    });
  bind_partials();
  return true;
}

bool const are_bound = bind_all();

}  // namespace
}  // namespace cleave::testing
