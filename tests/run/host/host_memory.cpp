// SPDX-License-Identifier: MIT
#include "cleave/run/host/host_device.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/rng.hpp"

using namespace cleave;

static_assert(std::movable<host_memory::buffer> && !std::copyable<host_memory::buffer>);

TEST_CASE("host_memory: buffers are aligned to 256 bytes, movable, and filled with NaN") {
  for (std::size_t const n : {0u, 1u, 255u, 257u, 100'000u}) {
    auto b = host_memory::allocate(n);
    CHECK(b.size() == n);
    CHECK(b.data() != nullptr);
    CHECK(reinterpret_cast<std::uintptr_t>(b.data()) % 256 == 0);
    void* const data = b.data();
    auto const moved = std::move(b);
    CHECK(moved.data() == data);
    if (n < sizeof(double)) continue;
    double x;
    std::memcpy(&x, moved.data(), sizeof x);
    CHECK(std::isnan(x));
  }
}

TEST_CASE("host_memory: an impossible allocation is refused with its size") {
  try {
    host_memory::allocate(static_cast<std::size_t>(-1));
    FAIL("nothing was thrown");
  } catch (run_error const& e) {
    CHECK(e.info.code == failure_code::device);
    CHECK(std::string(e.what()) == "device error: cannot allocate 18446744073709551615 bytes of memory");
  }
}

TEST_CASE("host_memory: run_sums() adds pairs in order, also if one reads another's result") {
  testing::rng random(8);
  for (int round = 0; round < 100; ++round) {
    std::vector<std::vector<float>> tensors(4, std::vector<float>(1 + random.below(20'000)));
    for (auto& t : tensors) t.resize(tensors[0].size());
    for (auto& t : tensors)
      for (auto& x : t) x = static_cast<float>(random.unit());
    auto twin = tensors;
    accumulate_options const options{.factor = random.one_in(2) ? 1.0 : -0.5,
                                     .target = random.one_in(2) ? accumulate_options::target::added_to
                                                                : accumulate_options::target::overwritten};
    std::vector<region_pair> pairs;
    for (std::size_t i = 0; i < random.below(8); ++i) {
      std::size_t const a = random.below(4), b = random.below(4);
      auto const whole = [&](std::size_t t) {
        return region{tensors[t].data(), tensors[t].size(), element_type::f32};
      };
      pairs.push_back({whole(a), whole(b)});
      for (std::size_t k = 0; k < twin[b].size(); ++k) {
        float const before = options.target == accumulate_options::target::added_to ? twin[b][k] : 0;
        twin[b][k] = before + static_cast<float>(options.factor) * twin[a][k];
      }
    }
    auto const sums = host_memory::make_sums(pairs);
    host_memory::run_sums(sums, options);
    CHECK(tensors == twin);
  }
}

TEST_CASE("host_memory: run_sums() handles pairs of mixed types") {
  std::vector<float> f32 = {1, 2, 3};
  std::vector<double> f64 = {10, 20, 30};
  std::vector<std::uint16_t> f16 = {0x3c00, 0x4000, 0x4200}, bf16 = {0x3f80, 0x4000, 0x4040};  // 1, 2, 3 each
  std::vector<region_pair> const pairs = {
      {{f32.data(), 3, element_type::f32}, {f64.data(), 3, element_type::f64}},
      {{f16.data(), 3, element_type::f16}, {f32.data(), 3, element_type::f32}},
      {{bf16.data(), 3, element_type::bf16}, {f16.data(), 3, element_type::f16}},
      {{f64.data(), 3, element_type::f64}, {bf16.data(), 3, element_type::bf16}}};
  host_memory::run_sums(host_memory::make_sums(pairs), {.factor = 2});
  CHECK(f64 == std::vector<double>{12, 24, 36});
  CHECK(f32 == std::vector<float>{3, 6, 9});
  CHECK(f16 == std::vector<std::uint16_t>{0x4200, 0x4600, 0x4880});   // 3, 6, 9
  CHECK(bf16 == std::vector<std::uint16_t>{0x41c8, 0x4248, 0x4296});  // 25, 50, 75
  host_memory::run_sums(host_memory::make_sums({}), {});
}

TEST_CASE("host_memory: run_sums() multiplies by the device_factor in memory when it runs") {
  std::vector<float> from = {1, 2, 3}, to = {1, 1, 1};
  std::vector<double> wide = {0};
  std::vector<float> const tiny = {0x1p-40f};
  float scale = 100;
  accumulate_options const options{.factor = 0.5, .device_factor = &scale};
  region_pair const pair{{from.data(), 3, element_type::f32}, {to.data(), 3, element_type::f32}};
  auto const sums = host_memory::make_sums({&pair, 1});
  scale = 4;
  host_memory::run_sums(sums, options);
  CHECK(to == std::vector<float>{3, 5, 7});

  region_pair const into_wide{{from.data(), 1, element_type::f32}, {wide.data(), 1, element_type::f64}};
  scale = tiny[0];
  host_memory::run_sums(host_memory::make_sums({&into_wide, 1}),
                        {.factor = 1 + 0x1p-40, .device_factor = &scale});
  CHECK(wide[0] == 0x1p-40 * (1 + 0x1p-40));  // in f64
}

TEST_CASE("host_memory: run_sums() sets nonfinite for a non-finite result and never clears it") {
  std::vector<float> from(20'000, 1), to(20'000, 1);
  std::vector<std::uint16_t> half(3, 0x7bff);  // the largest f16
  region_pair const pair{{from.data(), from.size(), element_type::f32},
                         {to.data(), to.size(), element_type::f32}};
  region_pair const into_half{{from.data(), 3, element_type::f32}, {half.data(), 3, element_type::f16}};
  auto const sums = host_memory::make_sums({&pair, 1}), half_sums = host_memory::make_sums({&into_half, 1});
  std::uint32_t bad = 0;
  host_memory::run_sums(sums, {.nonfinite = &bad});
  host_memory::run_sums(half_sums, {.nonfinite = &bad});  // 65504 + 1 is rounded down
  CHECK(bad == 0);
  for (std::size_t const at : {0u, 8191u, 8192u, 19'999u})
    for (float const x : {INFINITY, -NAN}) {
      auto const before = std::exchange(from[at], x);
      std::ranges::fill(to, 1.f);
      bad = 0;
      host_memory::run_sums(sums, {.nonfinite = &bad});
      CHECK(bad == 1);
      from[at] = before;
    }
  std::ranges::fill(to, 1.f);
  host_memory::run_sums(sums, {.nonfinite = &bad});
  CHECK(bad == 1);
  bad = 0;
  host_memory::run_sums(half_sums, {.factor = 16, .nonfinite = &bad});  // 65520 is beyond f16
  CHECK(bad == 1);
}

TEST_CASE("host_memory: copy_bytes() copies bytes and accepts null with no bytes") {
  char const from[] = "abcdef";
  char to[] = "......";
  host_memory::copy_bytes(to + 1, from, 3);
  host_memory::copy_bytes(nullptr, nullptr, 0);
  CHECK(std::string(to) == ".abc..");
}
