// SPDX-License-Identifier: MIT
#include "cleave/cuda/detail/kernels.hpp"

#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/run/host/host_device.hpp"
#include "cleave/run/sums/sum_in_order.hpp"
#include "cleave/run/sums/sum_of_squares.hpp"
#include "support/cuda/fake_cuda.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;

namespace {

constexpr std::uint32_t processors = 3;
constexpr std::array floating = {element_type::f32, element_type::f64, element_type::f16, element_type::bf16};

/// The same number of bytes on the device and on the host, initially equal and aligned to 256 bytes.
class twin_bytes {
 public:
  explicit twin_bytes(std::size_t size) : host_(host_memory::allocate(size)) {
    REQUIRE(cudaMalloc(&device_, size) == cudaSuccess);
  }
  ~twin_bytes() { cudaFree(device_); }
  twin_bytes(twin_bytes const&) = delete;

  region on_host(std::size_t at, std::size_t count, element_type t) const {
    return {static_cast<std::byte*>(host_.data()) + at, count, t};
  }
  region on_device(std::size_t at, std::size_t count, element_type t) const {
    return {static_cast<std::byte*>(device_) + at, count, t};
  }
  void to_device() const {
    REQUIRE(cudaMemcpy(device_, host_.data(), host_.size(), cudaMemcpyHostToDevice) == cudaSuccess);
  }
  bool are_same() const {
    std::vector<std::byte> there(host_.size());
    REQUIRE(cudaMemcpy(there.data(), device_, there.size(), cudaMemcpyDeviceToHost) == cudaSuccess);
    return std::memcmp(there.data(), host_.data(), there.size()) == 0;
  }

 private:
  host_memory::buffer host_;
  void* device_ = nullptr;
};

/// An array of objects in device memory.
template <class T>
class device_array {
 public:
  explicit device_array(std::vector<T> const& content) {
    REQUIRE(cudaMalloc(&data_, std::max<std::size_t>(1, content.size() * sizeof(T))) == cudaSuccess);
    REQUIRE(cudaMemcpy(data_, content.data(), content.size() * sizeof(T), cudaMemcpyHostToDevice) ==
            cudaSuccess);
  }
  ~device_array() { cudaFree(data_); }
  device_array(device_array const&) = delete;

  T* data() const { return static_cast<T*>(data_); }
  T first() const {
    T x;
    REQUIRE(cudaMemcpy(&x, data_, sizeof x, cudaMemcpyDeviceToHost) == cudaSuccess);
    return x;
  }

 private:
  void* data_ = nullptr;
};

struct stream {
  cudaStream_t handle = nullptr;
  stream() { REQUIRE(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking) == cudaSuccess); }
  ~stream() { cudaStreamDestroy(handle); }
  stream(stream const&) = delete;
  void finish() const {
    REQUIRE(cudaGetLastError() == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(handle) == cudaSuccess);
  }
};

void put_random(region const& to, rng& random) {
  dispatch_element_type(to.type, [&](auto zero) {
    using T = decltype(zero);
    for (std::size_t i = 0; i < to.count; ++i) {
      T x;
      if constexpr (std::is_integral_v<T>)
        x = static_cast<T>(random.below(std::size_t{1} << 40));
      else
        x = narrowed<T>(
            static_cast<float>(std::ldexp(random.unit() - 0.5, static_cast<int>(random.below(14)))));
      std::memcpy(static_cast<std::byte*>(to.data) + i * sizeof x, &x, sizeof x);
    }
  });
}

/// Places tensors one after another, with gaps, aligned to their element size.
struct layout {
  std::size_t end = 0;
  std::size_t place(std::size_t count, element_type t, rng& random) {
    std::size_t const size = size_of(t);
    end += random.one_in(2) ? 0 : random.below(20);
    std::size_t const unit = random.one_in(2) ? 16 : size, at = (end + unit - 1) / unit * unit;
    end = at + count * size;
    return at;
  }
};

/// Regions of equally many random elements, at random places of host and device.
struct twin_regions {
  twin_regions(std::size_t regions, element_type type, rng& random) {
    layout l;
    auto const count = random.one_in(3) ? random.below(20) : random.below(6000);
    std::vector<std::size_t> places;
    for (std::size_t r = 0; r < regions; ++r) places.push_back(l.place(count, type, random));
    memory.emplace(l.end + 64);
    for (auto const at : places) {
      on_host.push_back(memory->on_host(at, count, type));
      on_device.push_back(memory->on_device(at, count, type));
      put_random(on_host.back(), random);
    }
    memory->to_device();
  }

  std::optional<twin_bytes> memory;
  std::vector<region> on_host, on_device;
};

void issue(stream const& s, sum_table const& table, accumulate_options const& options) {
  device_array<sum_segment> const segments(table.segments);
  for (auto const& run : table.runs) launch_sums(s.handle, segments.data(), run, options, processors);
  s.finish();
}

std::size_t some_count(rng& random) {
  constexpr std::size_t odd[] = {0, 1, 7, 8, 9, 255, 2047, 2049, 8191, 8192, 8193, 16'385};
  return random.one_in(2) ? odd[random.below(std::size(odd))] : random.below(20'000);
}

double random_factor(rng& random) { return random.one_in(3) ? 1 : random.unit() * 4 - 2; }

void check_sums(element_type from, element_type to, rng& random) {
  struct places {
    std::size_t from, to, count;
  };
  layout l;
  std::vector<places> pairs;
  for (std::size_t i = 0; i < 5; ++i) {
    std::size_t const count = some_count(random), at = l.place(count, from, random);
    bool const in_place = from == to && random.one_in(4);
    pairs.push_back({at, in_place ? at : l.place(count, to, random), count});
  }
  twin_bytes const memory(l.end + 64);
  std::vector<region_pair> on_host, on_device;
  for (auto const& p : pairs) {
    on_host.push_back({memory.on_host(p.from, p.count, from), memory.on_host(p.to, p.count, to)});
    on_device.push_back({memory.on_device(p.from, p.count, from), memory.on_device(p.to, p.count, to)});
    put_random(on_host.back().from, random), put_random(on_host.back().to, random);
  }
  memory.to_device();

  stream const s;
  for (auto const how : {accumulate_options::target::added_to, accumulate_options::target::overwritten}) {
    float const scale = static_cast<float>(random_factor(random));
    bool const scaled = random.one_in(2);
    std::uint32_t bad = 0;
    device_array<float> const device_scale({scale});
    device_array<std::uint32_t> const device_bad({0});
    accumulate_options options{.factor = random_factor(random), .target = how, .nonfinite = &bad};
    if (scaled) options.device_factor = &scale;
    host_memory::run_sums(host_memory::make_sums(on_host), options);
    options.nonfinite = device_bad.data();
    if (scaled) options.device_factor = device_scale.data();
    issue(s, make_sum_table(on_device), options);
    CHECK_MESSAGE(memory.are_same(), name_of(from), " to ", name_of(to));
    CHECK(device_bad.first() == bad);
  }
}

}  // namespace

TEST_CASE("launch_sums: matches the host for all types, sizes and addresses, and writes nothing else") {
  fake_cuda const fake;
  rng random(5);
  for (auto const from : floating)
    for (auto const to : floating) check_sums(from, to, random);
  CHECK(fake.reports().empty());
}

TEST_CASE("launch_sums: sets nonfinite for a non-finite result anywhere, and never clears it") {
  fake_cuda const fake;
  stream const s;
  twin_bytes const memory(100'000 * sizeof(float));
  auto const host = memory.on_host(0, 50'000, element_type::bf16),
             sum = memory.on_host(200'000, 50'000, element_type::f32);
  region_pair const pair{memory.on_device(0, 50'000, element_type::bf16),
                         memory.on_device(200'000, 50'000, element_type::f32)};
  auto const table = make_sum_table({&pair, 1});
  auto* const elements = static_cast<std::uint16_t*>(host.data);
  std::fill_n(elements, 50'000, std::uint16_t{0x3f80});
  std::fill_n(static_cast<float*>(sum.data), 50'000, 1.f);
  device_array<std::uint32_t> const bad({0}), told({1});
  auto const run = [&] {
    memory.to_device();
    issue(s, table, {.nonfinite = bad.data()});
    return bad.first();
  };
  CHECK(run() == 0);
  for (std::size_t const at : {0u, 8191u, 8192u, 49'999u}) {
    auto const before = std::exchange(elements[at], std::uint16_t{0xff80});
    device_array<std::uint32_t> const fresh({0});
    memory.to_device();
    issue(s, table, {.nonfinite = fresh.data()});
    CHECK(fresh.first() == 1);
    elements[at] = before;
  }
  memory.to_device();
  issue(s, table, {.nonfinite = told.data()});
  CHECK(told.first() == 1);
}

TEST_CASE("launch_sums: adds ten thousand tensors in one run, and dependent sums in their order") {
  fake_cuda const fake;
  rng random(6);
  stream const s;
  layout l;
  std::vector<std::pair<std::size_t, std::size_t>> tensors;
  for (std::size_t i = 0; i < 10'000; ++i) {
    std::size_t const count = 1 + random.below(i % 1000 == 0 ? 20'000 : 40);
    tensors.emplace_back(l.place(count, element_type::f32, random), count);
  }
  twin_bytes const memory(2 * l.end + 64);
  std::vector<region_pair> on_host, on_device;
  std::size_t const apart = (l.end + 15) / 16 * 16;
  for (auto const& [at, count] : tensors) {
    on_host.push_back(
        {memory.on_host(at, count, element_type::f32), memory.on_host(apart + at, count, element_type::f32)});
    on_device.push_back({memory.on_device(at, count, element_type::f32),
                         memory.on_device(apart + at, count, element_type::f32)});
    put_random(on_host.back().from, random), put_random(on_host.back().to, random);
  }
  memory.to_device();
  auto const table = make_sum_table(on_device);
  CHECK(table.runs.size() == 1);
  host_memory::run_sums(host_memory::make_sums(on_host), {.factor = 0.5});
  issue(s, table, {.factor = 0.5});
  CHECK(memory.are_same());

  on_host = {on_host[0], {on_host[0].to, on_host[0].from}};
  on_device = {on_device[0], {on_device[0].to, on_device[0].from}};
  host_memory::run_sums(host_memory::make_sums(on_host), {});
  issue(s, make_sum_table(on_device), {});
  CHECK(memory.are_same());
  issue(s, make_sum_table({}), {});
}

TEST_CASE("launch_sum_in_order: sums and maxima match the host for all types and numbers of regions") {
  fake_cuda const fake;
  rng random(7);
  stream const s;
  for (std::size_t t = 0; t < element_names.size(); ++t)
    for (std::size_t const regions : {1u, 2u, 3u, 4u, 5u, 8u, 9u, 23u})
      for (auto const op : {reduce_op::sum, reduce_op::max}) {
        auto const type = static_cast<element_type>(t);
        if (type == element_type::boolean && op == reduce_op::sum) continue;
        twin_regions const twins(regions, type, random);
        sum_in_order(twins.on_host, op);
        launch_sum_in_order(s.handle, twins.on_device, op, processors);
        s.finish();
        CHECK_MESSAGE(twins.memory->are_same(), name_of(type), " ", regions);
      }
  CHECK(fake.reports().empty());
  launch_sum_in_order(s.handle, {}, reduce_op::sum, processors);
  s.finish();
}

TEST_CASE("launch_sum_in_order: with `only`, one region gets the result and the others keep their bytes") {
  fake_cuda const fake;
  rng random(12);
  stream const s;
  for (std::uint32_t const regions : {1u, 2u, 3u, 4u, 5u, 9u})
    for (std::uint32_t only = 0; only < regions; ++only)
      for (auto const type : {element_type::f32, element_type::bf16, element_type::i8}) {
        twin_regions const twins(regions, type, random);
        std::vector<std::vector<std::byte>> kept;
        for (auto const& r : twins.on_host) {
          auto const* const from = static_cast<std::byte const*>(r.data);
          kept.emplace_back(from, from + r.bytes());
        }
        sum_in_order(twins.on_host, reduce_op::sum);
        for (std::uint32_t r = 0; r < regions; ++r)
          if (r != only) std::ranges::copy(kept[r], static_cast<std::byte*>(twins.on_host[r].data));
        launch_sum_in_order(s.handle, twins.on_device, reduce_op::sum, processors, only);
        s.finish();
        CHECK_MESSAGE(twins.memory->are_same(), name_of(type), " ", regions, " ", only);
      }
  CHECK(fake.reports().empty());
}

TEST_CASE("launch_sum_in_order: handles many regions whose addresses are multiples of 16 bytes") {
  fake_cuda const fake;
  rng random(8);
  stream const s;
  for (auto const type : floating)
    for (std::size_t const regions : {2u, 440u}) {
      std::size_t const count = regions == 2 ? 50'001 : 1003, apart = (count * size_of(type) + 15) / 16 * 16;
      twin_bytes const memory(apart * regions);
      std::vector<region> on_host, on_device;
      for (std::size_t r = 0; r < regions; ++r) {
        on_host.push_back(memory.on_host(r * apart, count, type));
        on_device.push_back(memory.on_device(r * apart, count, type));
        put_random(on_host.back(), random);
      }
      memory.to_device();
      sum_in_order(on_host, reduce_op::sum);
      launch_sum_in_order(s.handle, on_device, reduce_op::sum, processors);
      s.finish();
      CHECK(memory.are_same());
    }
}

TEST_CASE("launch_squares: the sum of squares matches the host bit for bit") {
  fake_cuda const fake;
  rng random(9);
  stream const s;
  for (int round = 0; round < 8; ++round) {
    layout l;
    struct place {
      std::size_t at, count;
      element_type type;
    };
    std::vector<place> places;
    for (std::size_t i = 0; i < random.below(7) + (round > 0 ? 1 : 0); ++i) {
      auto const type = floating[random.below(4)];
      std::size_t const count = some_count(random);
      places.push_back({l.place(count, type, random), count, type});
    }
    twin_bytes const memory(l.end + 64);
    std::vector<region> on_host, on_device;
    for (auto const& [at, count, type] : places) {
      on_host.push_back(memory.on_host(at, count, type));
      on_device.push_back(memory.on_device(at, count, type));
      put_random(on_host.back(), random);
    }
    memory.to_device();
    auto const table = make_squares_table(on_device);
    std::uint64_t tiles = 0;
    for (auto const& run : table.runs) tiles += run.tiles;
    device_array<sum_segment> const segments(table.segments);
    device_array<double> const partials{std::vector<double>(tiles)}, result{std::vector<double>{-1}};
    std::uint64_t first = 0;
    for (auto const& run : table.runs) {
      launch_squares(s.handle, segments.data(), run, partials.data() + first, processors);
      first += run.tiles;
    }
    launch_sum_of_partials(s.handle, partials.data(), tiles, result.data());
    s.finish();
    CHECK(result.first() == sum_of_squares(on_host));
    CHECK(memory.are_same());
  }
  CHECK(fake.reports().empty());
}
