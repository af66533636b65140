// SPDX-License-Identifier: MIT
// Sums of products round twice on a processor that has one instruction for `a * b + c`, in a program that is
// compiled for it.
#include <cstddef>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "cleave/core/random.hpp"
#include "cleave/core/real.hpp"
#include "cleave/run/batch/loss_weights.hpp"
#include "cleave/run/host/host_device.hpp"

namespace {

using namespace cleave;

using namespace cleave::detail;

constexpr std::size_t count = 10'007, some = 1000;
std::size_t wrong = 0;

/// Returns `to + a * b` with two roundings: a volatile product cannot be fused with the sum.
template <class T>
T rounded_twice(T a, T b, T to) {
  T const volatile product = a * b;
  return to + product;
}

/// Returns a random number in (-1, 1).
double any(splitmix& random) { return static_cast<double>(random.next() >> 11) * 0x1p-52 - 1; }

template <class T>
std::vector<T> numbers(splitmix& random) {
  std::vector<T> made(count);
  for (auto& x : made) x = narrowed<T>(any(random));
  return made;
}

void say(std::string const& what, std::size_t differ, std::size_t of) {
  std::printf("%zu of %zu differ: %s\n", differ, of, what.c_str());
  wrong += differ;
}

template <class From, class To>
void check_sums(element_type from_type, element_type to_type) {
  splitmix random(1);
  using sum = common_sum_t<From, To>;
  auto from = numbers<From>(random);
  auto to = numbers<To>(random);
  auto const before = to;
  region_pair const pair{{from.data(), count, from_type}, {to.data(), count, to_type}};
  host_memory::run_sums(host_memory::make_sums(std::span(&pair, 1)), {.factor = 0.333});
  std::size_t differ = 0;
  for (std::size_t i = 0; i < count; ++i) {
    auto const by_hand =
        narrowed<To>(rounded_twice(static_cast<sum>(0.333), sum{widened(from[i])}, sum{widened(before[i])}));
    differ += widened(to[i]) != widened(by_hand);
  }
  say(std::string(name_of(to_type)) + " += " + std::string(name_of(from_type)), differ, count);
}

/// Squares that are added to one sum, of three numbers among zeros.
template <class T>
void check_squares(element_type type) {
  splitmix random(2);
  std::size_t differ = 0;
  std::vector<T> x(2 * sums_by_turns + 1);
  for (std::size_t i = 0; i < some; ++i) {
    double by_hand = 0;
    for (std::size_t k = 0; k < x.size(); k += sums_by_turns) {
      x[k] = narrowed<T>(any(random));
      by_hand = rounded_twice<double>(widened(x[k]), widened(x[k]), by_hand);
    }
    region const r{x.data(), x.size(), type};
    differ += host_memory::sum_of_squares({&r, 1}) != by_hand;
  }
  say("sum of squares of " + std::string(name_of(type)), differ, some);
}

void check_losses() {
  splitmix random(3);
  std::size_t differ = 0;
  for (std::size_t i = 0; i < some; ++i) {
    std::vector<double> losses(3);
    loss_weights weights;
    double by_hand = 0;
    for (auto& loss : losses) {
      loss = any(random);
      weights.losses.push_back(any(random));
      by_hand = rounded_twice(loss, weights.losses.back(), by_hand);
    }
    differ += batch_loss(losses, weights) != by_hand * weights.gradients;
  }
  say("loss of a batch", differ, some);
}

bool can_run() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return true;
#endif
}

}  // namespace

int main() {
  if (!can_run()) {
    std::puts("skipped: this processor has no such instruction");
    return 0;
  }
  using enum element_type;
  check_sums<float, float>(f32, f32);
  check_sums<double, double>(f64, f64);
  check_sums<float, double>(f32, f64);
  check_sums<bfloat16_bits, float>(bf16, f32);
  check_sums<float16_bits, float>(f16, f32);
  check_sums<bfloat16_bits, bfloat16_bits>(bf16, bf16);
  check_sums<double, float16_bits>(f64, f16);
  check_squares<double>(f64);
  check_squares<float>(f32);
  check_losses();
  return wrong == 0 ? 0 : 1;
}
