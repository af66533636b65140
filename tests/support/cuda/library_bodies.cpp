// SPDX-License-Identifier: MIT
// The library's kernels on the fake runtime: their lane code runs on host memory, lane by lane in varying
// order.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <type_traits>
#include <utility>

#include "cleave/core/expects.hpp"
#include "cleave/cuda/detail/device_lanes.hpp"
#include "cleave/cuda/detail/fp8_lane.hpp"
#include "cleave/cuda/detail/reduce_lane.hpp"
#include "cleave/cuda/detail/square_lane.hpp"
#include "cleave/run/model/update.hpp"
#include "cleave/run/sums/sum_in_order.hpp"
#include "support/cuda/fake_cuda.hpp"
#include "support/cuda/library_kernels.hpp"

namespace cleave::testing {

using namespace detail;
namespace {

/// Returns a parameter of a launch.
template <class T>
T const& parameter(void* const* all, std::size_t i) {
  return *static_cast<T const*>(all[i]);
}

template <class... Parameters>
struct parameter_list {};

/// Binds a kernel with its body and its accesses, each computed from its parameters.
template <class... Parameters>
void bind(void const* stub, parameter_list<Parameters...>, void (*body)(dim3, void* const*),
          std::function<void(fake_accesses&, void* const*)> accesses) {
  fake_kernel k;
  k.parameters = {{sizeof(Parameters), alignof(Parameters), std::is_pointer_v<Parameters>}...};
  k.body = [body](dim3 grid, dim3, void* const* p) { body(grid, p); };
  k.accesses = [accesses](fake_accesses& a, dim3, dim3, void* const* p) { accesses(a, p); };
  bind_kernel(stub, std::move(k));
}

template <class T>
constexpr element_type type_of = [] {
  for (std::size_t i = 0; i < element_names.size(); ++i) {
    bool same = false;
    dispatch_element_type(static_cast<element_type>(i),
                          [&](auto zero) { same = std::is_same_v<decltype(zero), T>; });
    if (same) return static_cast<element_type>(i);
  }
  return element_type::boolean;
}();

/// Lanes that abort on a misaligned vector access, as a GPU would.
struct strict_lanes : device_lanes {
  template <class T>
  static T load(std::byte const* at) {
    check<T>(at);
    return device_lanes::load<T>(at);
  }
  template <class T>
  static void store(std::byte* at, T const& x) {
    check<T>(at);
    device_lanes::store(at, x);
  }

 private:
  template <class T>
  static void check(void const* at) {
    constexpr std::uintptr_t unit = sizeof(T) < 16 ? sizeof(T) : 16;
    expects(reinterpret_cast<std::uintptr_t>(at) % unit == 0, "kernel: a misaligned address");
  }
};

/// Calls `f(block, lane)` for all lanes of all blocks; each block has its own order of lanes.
template <class F>
void run_lanes(std::uint32_t blocks, F f) {
  constexpr std::uint32_t lanes = device_lanes::lanes;
  for (std::uint32_t b = 0; b < blocks; ++b)
    for (std::uint32_t i = 0; i < lanes; ++i) f(b, (i * 77 + 13 * b) % lanes);
}

/// Reads the segment table of a run: the first parameter points to it, the second is its length.
std::span<sum_segment const> told_segments(fake_accesses& a, void* const* p) {
  std::span const segments(parameter<sum_segment const*>(p, 0), parameter<std::uint32_t>(p, 1));
  a.reads(segments.data(), segments.size_bytes());
  return segments;
}

template <class From, class To, class Operation>
void run_accumulate(dim3 grid, void* const* p) {
  using sum = common_sum_t<From, To>;
  auto factor = parameter<sum>(p, 3);
  if (auto const* const device_factor = parameter<float const*>(p, 4)) factor *= sum{*device_factor};
  bool bad = false;
  run_lanes(grid.x, [&](std::uint32_t block, std::uint32_t lane) {
    bad |= accumulate_block<From, To, nonfinite_checked<Operation>, strict_lanes>(
        parameter<sum_segment const*>(p, 0), parameter<std::uint32_t>(p, 1), parameter<std::uint32_t>(p, 2),
        factor, block, grid.x, lane);
  });
  auto* const nonfinite = parameter<std::uint32_t*>(p, 5);
  if (nonfinite && bad) *nonfinite |= 1;
}

template <class From, class To, class Operation>
void bind_accumulate() {
  using parameters = parameter_list<sum_segment const*, std::uint32_t, std::uint32_t, common_sum_t<From, To>,
                                    float const*, std::uint32_t*>;
  bind(accumulate_stub(type_of<From>, type_of<To>,
                       Operation::reads_target ? sum_target::added_to : sum_target::overwritten),
       parameters{}, &run_accumulate<From, To, Operation>,
       [from = sizeof(From), to = sizeof(To), reads = Operation::reads_target](fake_accesses& a,
                                                                               void* const* p) {
         if (auto const* const factor = parameter<float const*>(p, 4)) a.reads(factor, sizeof *factor);
         if (auto* const nonfinite = parameter<std::uint32_t*>(p, 5)) a.writes(nonfinite, sizeof *nonfinite);
         for (auto const& s : told_segments(a, p)) {
           a.reads(s.from, s.count * from);
           if (reads) a.reads(s.to, s.count * to);
           a.writes(s.to, s.count * to);
         }
       });
}

template <class T, reduce_op Op, std::size_t Room>
void run_reduce(dim3 grid, void* const* p) {
  run_lanes(grid.x, [&](std::uint32_t block, std::uint32_t lane) {
    reduce_lane<T, Op, strict_lanes>(parameter<region_addresses<Room>>(p, 0), block, grid.x, lane);
  });
}

template <class T, reduce_op Op, std::size_t Room>
void bind_reduce() {
  bind(reduce_stub(type_of<T>, Op, Room), parameter_list<region_addresses<Room>>{}, &run_reduce<T, Op, Room>,
       [size = sizeof(T)](fake_accesses& a, void* const* p) {
         auto const& r = parameter<region_addresses<Room>>(p, 0);
         for (std::uint32_t k = 0; k < r.regions; ++k) {
           a.reads(r.at[k], r.count * size);
           if (k >= r.first_stored && k < r.end_stored) a.writes(r.at[k], r.count * size);
         }
       });
}

template <class T>
void run_squares(dim3, void* const* p) {
  std::span const segments(parameter<sum_segment const*>(p, 0), parameter<std::uint32_t>(p, 1));
  constexpr std::size_t all = device_lanes::lanes * square_packs<T, device_lanes>;
  for (std::uint32_t t = 0; t < parameter<std::uint32_t>(p, 2); ++t) {
    auto const& s = segments[segment_of(segments.data(), segments.size(), t)];
    std::array<double, sums_by_turns> sums;
    run_lanes(1, [&](std::uint32_t, std::uint32_t lane) {
      auto const mine = square_lane<T, strict_lanes>(s, t, lane);
      for (std::size_t u = 0; u < mine.size(); ++u) sums[u * device_lanes::lanes + lane] = mine[u];
    });
    parameter<double*>(p, 3)[t] = sum_of_neighbours(sums, all);
  }
}

template <class T>
void bind_squares() {
  using parameters = parameter_list<sum_segment const*, std::uint32_t, std::uint32_t, double*>;
  bind(squares_stub(type_of<T>), parameters{}, &run_squares<T>,
       [size = sizeof(T)](fake_accesses& a, void* const* p) {
         for (auto const& s : told_segments(a, p)) a.reads(s.from, s.count * size);
         a.writes(parameter<double*>(p, 3), parameter<std::uint32_t>(p, 2) * sizeof(double));
       });
}

void run_partials(dim3, void* const* p) {
  std::array<double, sums_by_turns> sums = {};
  for (std::uint64_t t = 0; t < parameter<std::uint64_t>(p, 1); ++t)
    sums[t % sums_by_turns] += parameter<double const*>(p, 0)[t];
  *parameter<double*>(p, 2) = sum_of_neighbours(sums, sums_by_turns);
}

void bind_partials() {
  bind(partials_stub(), parameter_list<double const*, std::uint64_t, double*>{}, &run_partials,
       [](fake_accesses& a, void* const* p) {
         a.reads(parameter<double const*>(p, 0), parameter<std::uint64_t>(p, 1) * sizeof(double));
         a.writes(parameter<double*>(p, 2), sizeof(double));
       });
}

void run_update(dim3, void* const* p) {
  auto const& o = *parameter<update_options const*>(p, 1);
  *parameter<device_update*>(p, 2) =
      update_of(magnitude(o.factor) * square_root(*parameter<double const*>(p, 0)), o);
}

void bind_update() {
  bind(update_stub(), parameter_list<double const*, update_options const*, device_update*>{}, &run_update,
       [](fake_accesses& a, void* const* p) {
         a.reads(parameter<double const*>(p, 0), sizeof(double));
         a.reads(parameter<update_options const*>(p, 1), sizeof(update_options));
         a.writes(parameter<device_update*>(p, 2), sizeof(device_update));
       });
}

/// Calls `f(at)` for the first value of each turn of each lane.
template <class F>
void run_fp8(dim3 grid, fp8_block_list const& all, F f) {
  run_lanes(grid.x, [&](std::uint32_t block, std::uint32_t lane) {
    for (auto at = fp8_first(block, lane); at < all.count; at += fp8_apart(grid.x)) f(at);
  });
}

template <class T>
void run_fp8_largest(dim3 grid, void* const* p) {
  auto const* const from = parameter<std::byte const*>(p, 0);
  auto* const largest = reinterpret_cast<std::uint32_t*>(parameter<std::byte*>(p, 1));
  auto const& all = parameter<fp8_block_list>(p, 2);
  run_fp8(grid, all, [&](std::uint64_t at) {
    auto& to = largest[all.block_of(at)];
    to = (std::max)(to, fp8_largest<T, strict_lanes>(from + at * sizeof(T), fp8_in_turn(all, at)));
  });
}

template <class T, cuda::fp8_format F>
void run_fp8_pack(dim3 grid, void* const* p) {
  auto const* const from = parameter<std::byte const*>(p, 0);
  auto* const to = parameter<std::byte*>(p, 1);
  auto const& all = parameter<fp8_block_list>(p, 2);
  run_fp8(grid, all, [&](std::uint64_t at) {
    fp8_pack<T, F, strict_lanes>(from + at * sizeof(T), to + all.first_byte() + at, fp8_in_turn(all, at),
                                 reinterpret_cast<float const*>(to)[all.block_of(at)]);
  });
}

template <class T, cuda::fp8_format F>
void run_fp8_unpack(dim3 grid, void* const* p) {
  auto const* const from = parameter<std::byte const*>(p, 0);
  auto* const to = parameter<std::byte*>(p, 1);
  auto const& all = parameter<fp8_block_list>(p, 2);
  run_fp8(grid, all, [&](std::uint64_t at) {
    fp8_unpack<T, F, strict_lanes>(from + all.first_byte() + at, to + at * sizeof(T), fp8_in_turn(all, at),
                                   reinterpret_cast<float const*>(from)[all.block_of(at)]);
  });
}

template <class T>
void bind_fp8() {  // names `bind` in full, because std::byte makes std::bind a candidate
  using parameters = parameter_list<std::byte const*, std::byte*, fp8_block_list>;
  auto const scales = [](fp8_block_list const& all) { return all.blocks() * sizeof(float); };
  testing::bind(fp8_largest_stub(type_of<T>), parameters{}, &run_fp8_largest<T>,
                [scales](fake_accesses& a, void* const* p) {
                  auto const& all = parameter<fp8_block_list>(p, 2);
                  a.reads(parameter<std::byte const*>(p, 0), all.count * sizeof(T));
                  a.writes(parameter<std::byte*>(p, 1), scales(all));
                });
  auto const bind_format = [&]<cuda::fp8_format F>() {
    testing::bind(fp8_stub(type_of<T>, F, fp8_way::pack), parameters{}, &run_fp8_pack<T, F>,
                  [scales](fake_accesses& a, void* const* p) {
                    auto const& all = parameter<fp8_block_list>(p, 2);
                    a.reads(parameter<std::byte const*>(p, 0), all.count * sizeof(T));
                    a.reads(parameter<std::byte*>(p, 1), scales(all));
                    a.writes(parameter<std::byte*>(p, 1) + all.first_byte(), all.count);
                  });
    testing::bind(fp8_stub(type_of<T>, F, fp8_way::unpack), parameters{}, &run_fp8_unpack<T, F>,
                  [](fake_accesses& a, void* const* p) {
                    auto const& all = parameter<fp8_block_list>(p, 2);
                    a.reads(parameter<std::byte const*>(p, 0), all.bytes());
                    a.writes(parameter<std::byte*>(p, 1), all.count * sizeof(T));
                  });
  };
  bind_format.template operator()<cuda::fp8_format::e4m3>();
  bind_format.template operator()<cuda::fp8_format::e5m2>();
}

bool bind_all() {
  for (auto const from : {element_type::f32, element_type::f64, element_type::f16, element_type::bf16})
    dispatch_floating_type(from, [](auto x) {
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
    dispatch_element_type(type, [](auto x) {
      using T = decltype(x);
      bind_reduce<T, reduce_op::sum, 2>();
      bind_reduce<T, reduce_op::max, 2>();
      bind_reduce<T, reduce_op::sum, most_reduced_regions>();
      bind_reduce<T, reduce_op::max, most_reduced_regions>();
    });
  bind_partials();
  bind_update();
  bind_fp8<float>(), bind_fp8<float16_bits>(), bind_fp8<bfloat16_bits>();
  return true;
}

bool const are_bound = bind_all();

}  // namespace
}  // namespace cleave::testing
