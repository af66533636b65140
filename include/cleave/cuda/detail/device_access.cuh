// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cleave/core/real.hpp"
#include "cleave/cuda/detail/device_lanes.hpp"
#include "cleave/run/sums/floating_bits.hpp"

#if !defined(__CUDACC_RELAXED_CONSTEXPR__)
#error \
    "kernels call constexpr functions of the host: give nvcc --expt-relaxed-constexpr, as the CMake target cleave::cuda does"
#endif

namespace cleave::inline v0_2::detail {

/// The lanes of a block on a GPU. Addresses come from tables, so the compiler knows neither that they are in
/// global memory nor their alignment. The loads and stores here state both.
struct gpu_lanes : device_lanes {
  template <class T>
  static __device__ T load(std::byte const* at) {
    auto const p = __cvta_generic_to_global(at);
    T x;
    if constexpr (sizeof(T) == 16) {  // each line is read once, by one warp
      uint4 u;
      asm volatile("ld.global.L1::no_allocate.L2::128B.v4.u32 {%0,%1,%2,%3}, [%4];"
                   : "=r"(u.x), "=r"(u.y), "=r"(u.z), "=r"(u.w)
                   : "l"(p));
      std::memcpy(&x, &u, sizeof x);
    } else if constexpr (sizeof(T) % 16 == 0) {
      // several loads of one warp share a line; the first one fetches it
      uint4 u[sizeof(T) / 16];
      for (std::size_t k = 0; k < sizeof(T) / 16; ++k)
        asm volatile("ld.global.L2::128B.v4.u32 {%0,%1,%2,%3}, [%4];"
                     : "=r"(u[k].x), "=r"(u[k].y), "=r"(u[k].z), "=r"(u[k].w)
                     : "l"(p + 16 * k));
      std::memcpy(&x, u, sizeof x);
    } else if constexpr (sizeof(T) == 8) {
      std::uint64_t u;
      asm volatile("ld.global.L1::no_allocate.L2::128B.u64 %0, [%1];" : "=l"(u) : "l"(p));
      std::memcpy(&x, &u, sizeof x);
    } else if constexpr (sizeof(T) == 4) {
      std::uint32_t u;
      asm volatile("ld.global.u32 %0, [%1];" : "=r"(u) : "l"(p));
      std::memcpy(&x, &u, sizeof x);
    } else {
      static_assert(sizeof(T) <= 2);
      std::uint16_t u;
      if constexpr (sizeof(T) == 2)
        asm volatile("ld.global.u16 %0, [%1];" : "=h"(u) : "l"(p));
      else
        asm volatile("ld.global.u8 %0, [%1];" : "=h"(u) : "l"(p));
      std::memcpy(&x, &u, sizeof x);
    }
    return x;
  }

  /// Packs are stored to be evicted first: sums are larger than the caches, and are not read again soon.
  template <class T>
  static __device__ void store(std::byte* at, T const& x) {
    auto const p = __cvta_generic_to_global(at);
    if constexpr (sizeof(T) % 16 == 0) {
      uint4 u[sizeof(T) / 16];
      std::memcpy(u, &x, sizeof x);
      for (std::size_t k = 0; k < sizeof(T) / 16; ++k)
        asm volatile("st.global.cs.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(p + 16 * k), "r"(u[k].x), "r"(u[k].y),
                     "r"(u[k].z), "r"(u[k].w)
                     : "memory");
    } else if constexpr (sizeof(T) == 8) {
      std::uint64_t u;
      std::memcpy(&u, &x, sizeof x);
      asm volatile("st.global.cs.u64 [%0], %1;" ::"l"(p), "l"(u) : "memory");
    } else if constexpr (sizeof(T) == 4) {
      std::uint32_t u;
      std::memcpy(&u, &x, sizeof x);
      asm volatile("st.global.u32 [%0], %1;" ::"l"(p), "r"(u) : "memory");
    } else {
      static_assert(sizeof(T) <= 2);
      std::uint16_t u = 0;
      std::memcpy(&u, &x, sizeof x);
      if constexpr (sizeof(T) == 2)
        asm volatile("st.global.u16 [%0], %1;" ::"l"(p), "h"(u) : "memory");
      else
        asm volatile("st.global.u8 [%0], %1;" ::"l"(p), "h"(u) : "memory");
    }
  }

  /// Uses a single instruction where there is one, with the same bits as the host's code.
  template <class T>
  static __device__ widened_t<T> widen(T x) {
    if constexpr (std::is_same_v<T, float16_bits>) {
      float f;
      asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(x.bits));
      return f;
    } else {
      return widened(x);
    }
  }
  template <class T>
  static __device__ T narrow(float x) {
    if constexpr (std::is_same_v<T, float16_bits>) {
      T made;
      asm("cvt.rn.f16.f32 %0, %1;" : "=h"(made.bits) : "f"(x));
      return made;
    }
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    else if constexpr (std::is_same_v<T, bfloat16_bits>) {
      T made;
      asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(made.bits) : "f"(x));
      return made;
    }
#endif
    else {
      return narrowed<T>(x);
    }
  }
  template <class T>
  static __device__ T narrow(double x) {
    if constexpr (sizeof(T) == 2)
      return narrow<T>(rounded_to_odd(x));
    else
      return static_cast<T>(x);
  }

  /// Separate instructions, because a fused one would round only once.
  static __device__ float product(float a, float b) { return __fmul_rn(a, b); }
  static __device__ double product(double a, double b) { return __dmul_rn(a, b); }
  static __device__ float sum(float a, float b) { return __fadd_rn(a, b); }
  static __device__ double sum(double a, double b) { return __dadd_rn(a, b); }

  /// Returns what the host's `square_root` does, step by step.
  static __device__ double square_root(double x) {
    if (!is_finite(x)) return x;
    int const e = binary_exponent(x);
    if (e == -1023) return 0;
    int const half = (e - (e & 1)) / 2;
    double const m = product(product(x, power_of_two(-half)), power_of_two(-half));
    double root = sum(0.59, product(0.42, m));
    for (int step = 0; step < 5; ++step) root = product(0.5, sum(root, __ddiv_rn(m, root)));
    return product(root, power_of_two(half));
  }
};

/// Lanes whose packs have 32 bytes, aligned to that. GPUs access them at once from sm_100 on. Older ones
/// access 16 bytes twice, which is slower than packs of 16 bytes.
struct wide_gpu_lanes : wide_lanes_of<gpu_lanes> {
  template <class T>
  static __device__ T load(std::byte const* at) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
    if constexpr (sizeof(T) == 32) {
      T x;
      std::uint32_t u[8];
      asm volatile("ld.global.L1::no_allocate.L2::128B.v8.b32 {%0,%1,%2,%3,%4,%5,%6,%7}, [%8];"
                   : "=r"(u[0]), "=r"(u[1]), "=r"(u[2]), "=r"(u[3]), "=r"(u[4]), "=r"(u[5]), "=r"(u[6]),
                     "=r"(u[7])
                   : "l"(__cvta_generic_to_global(at)));
      std::memcpy(&x, u, sizeof x);
      return x;
    } else
#endif
      return gpu_lanes::load<T>(at);
  }
  template <class T>
  static __device__ void store(std::byte* at, T const& x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
    if constexpr (sizeof(T) == 32) {
      std::uint32_t u[8];
      std::memcpy(u, &x, sizeof x);
      asm volatile("st.global.cs.v8.b32 [%0], {%1,%2,%3,%4,%5,%6,%7,%8};" ::"l"(__cvta_generic_to_global(at)),
                   "r"(u[0]), "r"(u[1]), "r"(u[2]), "r"(u[3]), "r"(u[4]), "r"(u[5]), "r"(u[6]), "r"(u[7])
                   : "memory");
    } else
#endif
      gpu_lanes::store(at, x);
  }
};

/// The lanes of kernels of sums, which the program chooses when it is compiled.
#ifdef CLEAVE_PACKS_OF_32_BYTES
using sum_lanes = wide_gpu_lanes;
#else
using sum_lanes = gpu_lanes;
#endif

}  // namespace cleave::detail
