// SPDX-License-Identifier: MIT
// Measures the speed of adding gradients on a GPU, in bytes read and written, as a share of its copy speed in
// the same run.
//
//   gpu_sums FOLDER [small]    FOLDER gets the sizes and times that torch_sums.py compares with
//                              small: sizes for the fake runtime
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <numbers>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "by_cub.hpp"
#include "cleave/cuda/detail/kernels.hpp"
#include "cleave/cuda/device.hpp"
#include "gpu/report.hpp"
#include "packs.hpp"
#include "support/rng.hpp"
#include "timing.hpp"

namespace {

using namespace cleave;

using namespace cleave::detail;
using bench::spread;
using cleave::testing::gpu_report;
using cleave::testing::rng;
using cleave::testing::text;

constexpr std::size_t mib = std::size_t{1} << 20;
using sizes = std::vector<std::size_t>;

struct bench_run {
  std::string folder;
  bool small;
  bench::gpu_clock gpu = bench::gpu_clock();
  gpu_report report{"sums"};
  std::size_t runs = 25, cache = 256 * mib;  ///< data large enough to flush the caches
  double copied = 0;                         ///< copy speed in bytes per second, the ceiling

  std::size_t scaled(std::size_t bytes) const {
    return small ? std::max<std::size_t>(bytes / 4096, 4096) : bytes;
  }
};

/// Measures the copy speed, the best of two sizes.
void measure_copies(bench_run& b) {
  for (auto const bytes : {b.scaled(256 * mib), b.scaled(1024 * mib), b.scaled(4096 * mib)}) {
    auto const from = b.gpu.device.allocate(bytes), to = b.gpu.device.allocate(bytes);
    auto const t = b.gpu.seconds(b.runs, [&](std::size_t turn) {
      auto const &a = turn % 2 == 0 ? from : to, &z = turn % 2 == 0 ? to : from;
      b.gpu.device.copy(b.gpu.stream, z.data(), a.data(), bytes);
    });
    double const rate = 2 * static_cast<double>(bytes) / t.median;
    b.report.tell(bytes < mib ? text("copy of %zu KiB", bytes >> 10) : text("copy of %zu MiB", bytes / mib),
                  text("%.0f GB/s read and written", rate * 1e-9), rate);
    b.copied = std::max(b.copied, rate);
  }
}

/// Reports the bytes moved by a kernel as a share of the copy speed. `least` is the required share, 0 for
/// none.
void tell_rate(bench_run& b, std::string const& what, double bytes, spread const& t, double least) {
  double const share = bytes / t.median / b.copied;
  auto const measured = text("%.0f GB/s, %.1f %% of copying (%.1f to %.1f)", bytes / t.median * 1e-9,
                             100 * share, 100 * bytes / t.most / b.copied, 100 * bytes / t.least / b.copied);
  if (least > 0)
    b.report.measure(what, text("%.0f %% of copying or more", 100 * least), measured, share, share >= least);
  else
    b.report.tell(what, measured, share);
}

/// Tensors of one type with these sizes, at multiples of 256 bytes plus `off` elements.
std::vector<region> tensors(void* memory, sizes const& counts, element_type t, std::size_t off) {
  std::vector<region> all;
  std::size_t at = 0;
  for (auto const n : counts) {
    all.push_back({static_cast<std::byte*>(memory) + at + off * size_of(t), n, t});
    at += ((n + off) * size_of(t) + 255) / 256 * 256;
  }
  return all;
}
std::size_t bytes_of(sizes const& counts, element_type t, std::size_t off) {
  std::size_t all = 0;
  for (auto const n : counts) all += ((n + off) * size_of(t) + 255) / 256 * 256;
  return all;
}
std::size_t total(sizes const& counts) {
  std::size_t all = 0;
  for (auto const n : counts) all += n;
  return all;
}

/// Lists of sums over copies of the same tensors, enough that no cache holds them.
struct rotating_sums {
  std::vector<cleave::cuda::buffer> memory;
  std::vector<cuda_sums> sums;
  std::size_t elements;

  rotating_sums(bench_run& b, sizes const& counts, element_type from, element_type to, std::size_t off = 0)
      : elements(total(counts)) {
    auto const first = bytes_of(counts, from, off), second = bytes_of(counts, to, off);
    for (std::size_t i = 0; i < std::clamp<std::size_t>(b.scaled(b.cache) / (first + second), 1, 8); ++i) {
      for (auto const bytes : {first, second}) {
        cleave::cuda::check(cudaMemset(memory.emplace_back(b.gpu.device.allocate(bytes)).data(), 0x3c, bytes),
                            "cudaMemset");
      }
      auto const &f = memory[memory.size() - 2], &t = memory.back();
      auto const froms = tensors(f.data(), counts, from, off), tos = tensors(t.data(), counts, to, off);
      std::vector<region_pair> pairs;
      for (std::size_t k = 0; k < counts.size(); ++k) pairs.push_back({froms[k], tos[k]});
      sums.push_back(b.gpu.device.make_sums(pairs));
    }
  }
  void issue(bench_run& b, std::size_t turn, accumulate_options const& o) {
    b.gpu.device.accumulate(b.gpu.stream, sums[turn % sums.size()], o);
  }
};

using target = enum accumulate_options::target;

void measure_sums(bench_run& b, std::string const& what, sizes const& counts, element_type from,
                  element_type to, target how, double least, std::size_t off = 0) {
  rotating_sums s(b, counts, from, to, off);
  auto const t = b.gpu.seconds(
      b.runs, [&](std::size_t turn) { s.issue(b, turn, {.factor = 1.0 / 1024, .target = how}); });
  auto const each = size_of(from) + size_of(to) * (how == target::added_to ? 2 : 1);
  tell_rate(b, what, static_cast<double>(s.elements * each), t, least);
}

/// Log-normal sizes of about `elements` in total; the largest is about a thousand times the smallest.
sizes log_normal(std::size_t count, std::size_t elements) {
  rng random = rng::recorded(5);
  std::vector<double> raw;
  double all = 0;
  for (std::size_t i = 0; i < count; ++i) {
    double const normal =
        std::sqrt(-2 * std::log(1 - random.unit())) * std::cos(2 * std::numbers::pi * random.unit());
    all += raw.emplace_back(std::exp(1.5 * normal));
  }
  sizes made;
  for (auto const x : raw)
    made.push_back(1 + static_cast<std::size_t>(x / all * static_cast<double>(elements)));
  return made;
}
sizes small_tensors(bench_run const& b) {
  rng random = rng::recorded(6);
  sizes made(b.small ? 500 : 10'000);
  for (auto& n : made) n = 64 + random.below(4096);
  return made;
}

void measure_accumulate(bench_run& b) {
  using enum element_type;
  struct size_row {
    std::size_t bytes;
    char const* text;
  };
  for (auto const& [bytes, size] :
       {size_row{256 * mib, "256 MiB"}, size_row{1024 * mib, "1 GiB"}, size_row{4096 * mib, "4 GiB"}}) {
    sizes const one = {b.scaled(bytes) / 6};
    measure_sums(b, std::string("accumulate bf16 to f32, one tensor, ") + size, one, bf16, f32,
                 target::added_to, 0.92);
    measure_sums(b, std::string("accumulate bf16 to f32, 1,000 log-normal tensors, ") + size,
                 log_normal(1000, one[0]), bf16, f32, target::added_to, 0.90);
  }
  sizes const giga = {b.scaled(1024 * mib) / 6};
  measure_sums(b, "accumulate bf16 to f32, 10,000 small tensors", small_tensors(b), bf16, f32,
               target::added_to, 0);
  measure_sums(b, "accumulate bf16 to f32, one tensor off by an element, 1 GiB", giga, bf16, f32,
               target::added_to, 0, 1);
  measure_sums(b, "accumulate f16 to f32, one tensor, 1 GiB", giga, f16, f32, target::added_to, 0.92);
  measure_sums(b, "accumulate f32 to f32, one tensor, 1 GiB", giga, f32, f32, target::added_to, 0.92);
  measure_sums(b, "first microbatch, bf16 over f32, one tensor, 1 GiB", giga, bf16, f32, target::overwritten,
               0.90);
  measure_sums(b, "flatten bf16, 1,000 log-normal tensors, 1 GiB", log_normal(1000, giga[0]), bf16, bf16,
               target::overwritten, 0.90);
  measure_sums(b, "flatten f32 to bf16, 1,000 log-normal tensors, 1 GiB", log_normal(1000, giga[0]), f32,
               bf16, target::overwritten, 0.90);
  measure_sums(b, "flatten f32, 1,000 log-normal tensors, 1 GiB", log_normal(1000, giga[0]), f32, f32,
               target::overwritten, 0.90);
}

void measure_reductions(bench_run& b) {
  std::size_t const n = b.scaled(1024 * mib) / 8;
  for (std::size_t const copies : {2u, 4u}) {
    std::vector<cleave::cuda::buffer> memory;
    std::vector<region> all;
    for (std::size_t i = 0; i < copies; ++i) {
      memory.push_back(b.gpu.device.allocate(n * 4));
      all.push_back({memory.back().data(), n, element_type::f32});
    }
    auto const t = b.gpu.seconds(b.runs, [&](std::size_t) {
      launch_sum_in_order(b.gpu.stream.handle(), all, reduce_op::sum, b.gpu.device.processors());
    });
    tell_rate(b, text("tied reduction of %zu copies, f32", copies), static_cast<double>(copies * n * 8), t,
              0.90);
  }
}

/// What each of several processes does with its slice of a gradient: one copy gets the sum of all.
void measure_slices(bench_run& b) {
  std::size_t const copies = 8, n = b.scaled(1024 * mib) / (4 * (copies + 1));
  std::vector<cleave::cuda::buffer> memory;
  std::vector<region> all;
  for (std::size_t i = 0; i < copies; ++i) {
    memory.push_back(b.gpu.device.allocate(n * 4));
    all.push_back({memory.back().data(), n, element_type::f32});
  }
  auto const t = b.gpu.seconds(b.runs, [&](std::size_t) {
    launch_sum_in_order(b.gpu.stream.handle(), all, reduce_op::sum, b.gpu.device.processors(), 3);
  });
  tell_rate(b, "reduction of 8 slices into one, f32", static_cast<double>((copies + 1) * n * 4), t, 0.90);
}

void measure_squares(bench_run& b) {
  std::size_t const n = b.scaled(1024 * mib) / 4;
  auto const memory = b.gpu.device.allocate(n * 4);
  region const r{memory.data(), n, element_type::f32};
  cuda_squares const squares(b.gpu.device.resources(), {&r, 1}, b.gpu.stream);
  auto const t =
      b.gpu.seconds(b.runs, [&](std::size_t) { squares.issue(b.gpu.stream, b.gpu.device.processors()); });
  tell_rate(b, "sum of squares, f32, 1 GiB", static_cast<double>(n * 4), t, 0.90);
}

void measure_cub(bench_run& b) {
  std::size_t const n = b.scaled(1024 * mib) / 6;
  auto const from = b.gpu.device.allocate(n * 2), to = b.gpu.device.allocate(n * 4);
  char const* const what = "CUB's DeviceTransform, bf16 to f32, one tensor, 1 GiB";
  auto* const sum = static_cast<float*>(to.data());
  if (!bench::add_by_cub(b.gpu.stream.handle(), from.data(), sum, n, 1.f))
    return b.report.skip(what, "CUB was not found when this was compiled");
  auto const t = b.gpu.seconds(
      b.runs, [&](std::size_t) { bench::add_by_cub(b.gpu.stream.handle(), from.data(), sum, n, 1.f); });
  tell_rate(b, what, static_cast<double>(n * 10), t, 0);
}

/// All sizes of packs in one run, and which of them is fastest on this GPU.
void measure_packs(bench_run& b) {
  rotating_sums s(b, {b.scaled(1024 * mib) / 6}, element_type::bf16, element_type::f32);
  struct tried {
    bench::pack_of which;
    char const* text;
    double rate = 0;
  };
  tried all[] = {{bench::pack_of::longer, "16 bytes of the longer type"},
                 {bench::pack_of::shorter, "16 bytes of the shorter type"},
                 {bench::pack_of::longer_wide, "32 bytes of the longer type"}};
  for (auto& p : all) {
    bool is_here = true;
    auto const t = b.gpu.seconds(b.runs, [&](std::size_t turn) {
      auto const& list = s.sums[turn % s.sums.size()];
      is_here = bench::add_in_packs(p.which, b.gpu.stream.handle(), list.segments(), list.runs()[0],
                                    b.gpu.device.processors());
    });
    if (!is_here) return b.report.skip("sizes of packs", "the fake runtime does not have these kernels");
    double const bytes = static_cast<double>(s.elements * 10);
    tell_rate(b, text("accumulate bf16 to f32, packs of %s, 1 GiB", p.text), bytes, t, 0);
    p.rate = bytes / t.median;
  }
  b.report.measure("packs of 16 bytes of the longer type, beside those of the shorter", "as fast or faster",
                   text("%.3f times as fast", all[0].rate / all[1].rate), all[0].rate / all[1].rate,
                   all[0].rate >= all[1].rate);
  b.report.tell("packs of 32 bytes of the longer type, beside those of 16",
                text("%.3f times as fast", all[2].rate / all[0].rate), all[2].rate / all[0].rate);
}

/// Writes the data for torch_sums.py: sizes, and seconds from the call until all work has ended.
void measure_for_torch(bench_run& b, std::string const& name, sizes const& counts, element_type from) {
  rotating_sums s(b, counts, from, element_type::f32);
  std::size_t turn = 0;
  auto const t = b.gpu.wall(b.runs, [&] { s.issue(b, turn++, {}); });
  auto const issued = b.gpu.host(b.runs, [&] { s.issue(b, turn++, {}); });
  std::ofstream file(b.folder + "/" + name + ".sizes");
  file << text("%.9g\n", t.median);
  for (auto const n : counts) file << n << '\n';
  b.report.measure(text("issuing sums of %zu tensors", counts.size()), "20 us of the host or less",
                   text("%.1f us (%.1f to %.1f)", 1e6 * issued.median, 1e6 * issued.least, 1e6 * issued.most),
                   issued.median, issued.median <= 20e-6);
}

}  // namespace

int main(int count, char** arguments) try {
  if (count < 2) return std::fprintf(stderr, "usage: gpu_sums FOLDER [small]\n"), 2;
  bench_run b{.folder = arguments[1], .small = count > 2 && std::string_view(arguments[2]) == "small"};
  if (b.small) b.runs = 3;
  measure_copies(b);
  measure_accumulate(b);
  measure_reductions(b);
  measure_slices(b);
  measure_squares(b);
  measure_cub(b);
  measure_packs(b);
  measure_for_torch(b, "foreach", log_normal(1000, b.scaled(1024 * mib) / 8), element_type::f32);
  measure_for_torch(b, "loop", small_tensors(b), element_type::bf16);
} catch (std::exception const& e) {
  return std::fprintf(stderr, "gpu_sums: %s\n", e.what()), 1;
}
