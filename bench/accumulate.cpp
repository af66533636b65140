// SPDX-License-Identifier: MIT
// How fast gradients are added up on the host, in bytes that are read or written, beside copying and a plain
// loop.
//   bench_accumulate
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "cleave/run/host_memory.hpp"
#include "cleave/run/sum_in_order.hpp"
#include "measure.hpp"

namespace {

using namespace cleave;

/// Of ones, `n` elements.
template <class T>
std::vector<T> ones(std::size_t n) {
  return std::vector<T>(n, narrowed<T>(1.f));
}

/// Whoever reads `p` may see another value.
void touch(void* p) { asm volatile("" ::"r"(p) : "memory"); }

struct pace {
  double best, median;  // bytes in a second
};

/// Of `f`, which reads or writes `bytes`, once in memory or so often that the whole takes as long.
template <class F>
pace pace_of(double bytes, std::size_t times, F f) {
  auto const s = bench::repeat(9, [&] {
    return bench::seconds([&] {
             for (std::size_t i = 0; i < times; ++i) f();
           }) /
           static_cast<double>(times);
  });
  return {bytes / s.least, bytes / s.median};
}

pace pace_of_copy(std::size_t bytes, std::size_t times) {
  std::vector<std::byte> from(bytes), to(bytes);
  return pace_of(2.0 * static_cast<double>(bytes), times, [&] {
    std::memcpy(to.data(), from.data(), bytes);
    touch(to.data());
  });
}

template <class From, class To>
void row(element_type from_type, element_type to_type, std::size_t n, std::size_t times) {
  auto from = ones<From>(n);
  auto to = ones<To>(n);
  region_pair const pair{{from.data(), n, from_type}, {to.data(), n, to_type}};
  auto const sums = host_memory::make_sums(std::span(&pair, 1));
  double const bytes = static_cast<double>(n * (sizeof(From) + 2 * sizeof(To)));
  accumulate_options const options{.factor = 1.0 / 1024};
  auto const factor = static_cast<common_sum_t<From, To>>(options.factor);

  auto const copied = pace_of_copy(n * sizeof(To), times);
  auto const ours = pace_of(bytes, times, [&] { host_memory::run_sums(sums, options); });
  auto const plain = pace_of(bytes, times, [&] {
    for (std::size_t i = 0; i < n; ++i) to[i] = narrowed<To>(widened(to[i]) + factor * widened(from[i]));
    touch(to.data());
  });
  std::printf("| %s += %s | %zu | %.1f (%.1f) | %.1f | %.2f | %.1f | %.2f | %.2f |\n",
              std::string(name_of(to_type)).c_str(), std::string(name_of(from_type)).c_str(), n,
              ours.median * 1e-9, ours.best * 1e-9, copied.median * 1e-9, ours.median / copied.median,
              plain.median * 1e-9, ours.median / plain.median,
              ours.median / bytes * static_cast<double>(n) * 1e-9);
}

void rows(std::size_t n) {
  using enum element_type;
  std::size_t const times = std::max<std::size_t>(1, (std::size_t{1} << 24) / n);
  row<float, float>(f32, f32, n, times);
  row<bfloat16_bits, float>(bf16, f32, n, times);
  row<float16_bits, float>(f16, f32, n, times);
  row<double, double>(f64, f64, n, times);
  row<float, double>(f32, f64, n, times);
  row<float, bfloat16_bits>(f32, bf16, n, times);
  row<bfloat16_bits, bfloat16_bits>(bf16, bf16, n, times);
  row<float, float16_bits>(f32, f16, n, times);
  row<float16_bits, float16_bits>(f16, f16, n, times);
  row<double, bfloat16_bits>(f64, bf16, n, times);
}

void reduction(std::size_t ranks, std::size_t n) {
  std::vector<std::vector<float>> lists(ranks, ones<float>(n));
  std::vector<region> regions;
  for (auto& l : lists) regions.push_back({l.data(), n, element_type::f32});
  double const bytes = static_cast<double>(2 * ranks * n * sizeof(float));
  auto const copied = pace_of_copy(n * sizeof(float), 1);
  auto const ours = pace_of(bytes, 1, [&] { sum_in_order(regions, reduce_op::sum); });
  std::printf("| %zu regions | %zu | %.1f (%.1f) | %.1f | %.2f |\n", ranks, n, ours.median * 1e-9,
              ours.best * 1e-9, copied.median * 1e-9, ours.median / copied.median);
}

}  // namespace

int main() {
  std::puts(
      "| sum | elements | GB/s, median (best) | memcpy, GB/s | of it | plain loop, GB/s | of it | 10^9 "
      "elements/s |\n"
      "|---|---|---|---|---|---|---|---|");
  rows(std::size_t{1} << 24);
  rows(std::size_t{1} << 13);
  std::puts(
      "\n| sum in order, f32 | elements of each | GB/s, median (best) | memcpy, GB/s | of it "
      "|\n|---|---|---|---|---|");
  for (std::size_t const ranks : {2u, 4u, 8u}) reduction(ranks, std::size_t{1} << 22);
}
