// SPDX-License-Identifier: MIT
// Measures the speed of adding gradients on the host, in bytes read or written, against memcpy and a plain
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

#include "cleave/run/host/host_device.hpp"
#include "cleave/run/sums/sum_in_order.hpp"
#include "cleave/run/sums/sum_of_squares.hpp"
#include "measure.hpp"

namespace {

using namespace cleave;

using namespace cleave::detail;

/// Returns `n` elements of value 1.
template <class T>
std::vector<T> ones(std::size_t n) {
  return std::vector<T>(n, narrowed<T>(1.f));
}

/// Makes the compiler assume that the memory at `p` is read and changed.
void touch(void* p) { asm volatile("" ::"r"(p) : "memory"); }

/// CPU seconds of each of `work`, repeated so that all take equally long: medians, and the best of the first.
/// They alternate, so that other load affects all equally.
template <class... F>
std::vector<double> turns(std::size_t times, double& least, F... work) {
  std::vector<std::vector<double>> samples(sizeof...(work));
  for (int round = 0; round < 11; ++round) {
    std::size_t i = 0;
    auto const take = [&](auto& f) {
      auto const s = bench::seconds([&] {
        for (std::size_t k = 0; k < times; ++k) f();
      });
      samples[i++].push_back(s / static_cast<double>(times));
    };
    (take(work), ...);
  }
  std::vector<double> medians;
  for (auto& s : samples) {
    std::ranges::sort(s);
    medians.push_back(s[s.size() / 2]);
  }
  least = samples[0][0];
  return medians;
}

/// Returns work that copies `bytes`.
auto copying(std::size_t bytes) {
  return [from = std::vector<std::byte>(bytes), to = std::vector<std::byte>(bytes)]() mutable {
    std::memcpy(to.data(), from.data(), to.size());
    touch(to.data());
  };
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

  double least = 0;
  auto const seconds = turns(
      times, least, [&] { host_memory::run_sums(sums, options); }, copying(n * sizeof(To)),
      [&] {
        for (std::size_t i = 0; i < n; ++i) to[i] = narrowed<To>(widened(to[i]) + factor * widened(from[i]));
        touch(to.data());
      });
  auto const ours = bytes / seconds[0], copied = 2.0 * static_cast<double>(n * sizeof(To)) / seconds[1],
             plain = bytes / seconds[2];
  std::printf("| %s += %s | %zu | %.1f (%.1f) | %.1f | %.2f | %.1f | %.2f | %.2f |\n",
              std::string(name_of(to_type)).c_str(), std::string(name_of(from_type)).c_str(), n, ours * 1e-9,
              bytes / least * 1e-9, copied * 1e-9, ours / copied, plain * 1e-9, ours / plain,
              static_cast<double>(n) / seconds[0] * 1e-9);
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
  double least = 0;
  auto const seconds =
      turns(1, least, [&] { sum_in_order(regions, reduce_op::sum); }, copying(n * sizeof(float)));
  double const ours = bytes / seconds[0], copied = 2.0 * static_cast<double>(n * sizeof(float)) / seconds[1];
  std::printf("| %zu regions | %zu | %.1f (%.1f) | %.1f | %.2f |\n", ranks, n, ours * 1e-9,
              bytes / least * 1e-9, copied * 1e-9, ours / copied);
}

template <class T>
void squares(element_type type, std::size_t n) {
  auto x = ones<T>(n);
  region const r{x.data(), n, type};
  double least = 0, sum = 0;
  auto const seconds =
      turns(1, least, [&] { sum += sum_of_squares(std::span(&r, 1)); }, copying(n * sizeof(T)));
  touch(&sum);
  double const bytes = static_cast<double>(n * sizeof(T));
  double const ours = bytes / seconds[0], copied = 2 * bytes / seconds[1];
  std::printf("| %s | %zu | %.1f (%.1f) | %.1f | %.2f |\n", std::string(name_of(type)).c_str(), n,
              ours * 1e-9, bytes / least * 1e-9, copied * 1e-9, ours / copied);
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
  std::puts(
      "\n| sum of squares | elements | GB/s, median (best) | memcpy, GB/s | of it "
      "|\n|---|---|---|---|---|");
  std::size_t const n = std::size_t{1} << 24;
  squares<float>(element_type::f32, n);
  squares<double>(element_type::f64, n);
  squares<bfloat16_bits>(element_type::bf16, n);
  squares<float16_bits>(element_type::f16, n);
}
