// SPDX-License-Identifier: MIT
#include "cleave/cuda/device.hpp"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cleave/run/sums/sum_of_squares.hpp"
#include "support/comes_true.hpp"
#include "support/cuda/fake_cuda.hpp"
#include "support/device_promises.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;

namespace {

using namespace std::chrono_literals;
using sentences = std::vector<std::string>;

std::string refusal_of(auto f) {
  try {
    f();
  } catch (run_error const& e) {
    CHECK(e.info.code == failure_code::device);
    return e.what();
  }
  return "nothing";
}

}  // namespace

TEST_CASE("cuda::device: keeps all device_promises") {
  for (std::uint64_t seed : {1u, 2u, 3u}) {
    fake_cuda fake({.seed = seed, .longest_delay = 100us});
    {
      cleave::cuda::device d;
      CHECK(device_promises(d).broken() == sentences());
    }
    CHECK(fake.reports() == sentences());
    CHECK(fake.leaks() == sentences());
  }
}

TEST_CASE("cuda::device: allocated memory reads as NaN before it is written") {
  fake_cuda fake;
  cleave::cuda::device d;
  auto const b = d.allocate(8);
  double x = 0;
  REQUIRE(cudaMemcpy(&x, b.data(), sizeof x, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(x != x);
}

TEST_CASE("cuda::device: sum_of_squares() matches the host exactly, and a second call allocates nothing") {
  fake_cuda fake;
  cleave::cuda::device d;
  std::vector<float> numbers(20'000);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = 1.0f / static_cast<float>(i + 1);
  auto const b = d.allocate(numbers.size() * sizeof(float));
  REQUIRE(cudaMemcpy(b.data(), numbers.data(), b.size(), cudaMemcpyHostToDevice) == cudaSuccess);
  auto const regions = [](void* p) {
    auto* const at = static_cast<float*>(p);
    return std::array{region{at, 9'000, element_type::f32}, region{nullptr, 0, element_type::f64},
                      region{at + 9'001, 10'999, element_type::f32}};
  };
  CHECK(d.sum_of_squares(regions(b.data())) == cleave::detail::sum_of_squares(regions(numbers.data())));
  auto const allocated = fake.calls("cudaMalloc");
  CHECK(d.sum_of_squares(regions(b.data())) == cleave::detail::sum_of_squares(regions(numbers.data())));
  CHECK(fake.calls("cudaMalloc") == allocated);
  CHECK(d.sum_of_squares({}) == 0);
}

TEST_CASE("cuda::device: copies small values to pageable host memory") {
  fake_cuda fake;
  cleave::cuda::device d;
  auto const b = d.allocate(16);
  double read = 0;
  {
    auto s = d.make_stream(0);
    auto held = d.make_event();
    std::array<double, 2> const given{4, 5};
    d.copy(s, b.data(), given.data(), sizeof given);
    for (int i = 0; i < 20; ++i) d.copy(s, &read, static_cast<double*>(b.data()) + i % 2, sizeof read);
    d.record(held, s);
    REQUIRE(comes_true([&] { return d.query(held); }));
  }
  CHECK(read == 5);
  CHECK(fake.reports() == sentences());
}

TEST_CASE("cuda::device: a copy that outlives its device is dropped, and CUDA is not called where it ends") {
  fake_cuda fake;
  std::int64_t read = 5;
  {
    cleave::cuda::device other;
    auto stream = other.make_stream(0);
    auto const memory = other.allocate(8);
    region const one{memory.data(), 1, element_type::f64};
    fake.hang("reduce_kernel", 1);
    launch_sum_in_order(stream.handle(), std::span(&one, 1), reduce_op::sum, 1);
    {
      cleave::cuda::device gone;
      gone.copy(stream, &read, memory.data(), sizeof read);
    }
    fake.release();
    auto ended = other.make_event();
    other.record(ended, stream);
    CHECK(comes_true([&] { return other.query(ended); }));
    cleave::cuda::device next;  // frees what is left
  }
  CHECK(read == 5);
  CHECK(fake.reports() == sentences());
  CHECK(fake.leaks() == sentences());
}

TEST_CASE("cuda::device: events measure time only with options::timing on; otherwise elapsed() is 0") {
  fake_cuda fake({.longest_delay = 100us});
  cleave::cuda::device with, without({.timing = cleave::cuda::options::timing::off});
  auto s = with.make_stream(0);
  auto t = without.make_stream(0);
  auto const time = [](cleave::cuda::device& d, cuda_stream& on) {
    auto begin = d.make_event(), end = d.make_event();
    d.record(begin, on);
    auto const b = d.allocate(1 << 20);
    for (int i = 0; i < 50; ++i)
      cleave::cuda::check(cudaMemsetAsync(b.data(), 0, b.size(), on.handle()), "cudaMemsetAsync");
    d.record(end, on);
    CHECK(comes_true([&] { return d.query(end); }));
    auto const never = d.make_event();
    CHECK(d.elapsed(begin, never) == 0ns);
    CHECK(d.elapsed(never, end) == 0ns);
    return d.elapsed(begin, end);
  };
  CHECK(time(with, s) > 0ns);
  CHECK(time(without, t) == 0ns);
}

TEST_CASE("cuda::device: says why no GPU can be used and how to fix it") {
  {
    fake_cuda fake({.driver = fake_driver::absent});
    auto const said = refusal_of([] { cleave::cuda::device d; });
    CHECK(said.starts_with("device error: cudaGetDeviceCount: cudaErrorInsufficientDriver: "));
    CHECK(said.find("the driver is missing or older than the CUDA runtime") != said.npos);
    REQUIRE(cleave::cuda::find_device_fault(0));
    CHECK(cleave::cuda::find_device_fault(0)->status == cudaErrorInsufficientDriver);
  }
  {
    fake_cuda fake({.devices = {}});
    auto const said = refusal_of([] { cleave::cuda::device d; });
    CHECK(said.starts_with("device error: cudaGetDeviceCount: cudaErrorNoDevice: "));
    CHECK(said.find("CUDA_VISIBLE_DEVICES may hide some") != said.npos);
  }
  fake_cuda fake({.devices = {2, fake_gpu()}});
  CHECK(refusal_of([] { cleave::cuda::device d({.device = 2}); }) ==
        "device error: there is no GPU 2, only 2 GPUs, counted from 0; CUDA_VISIBLE_DEVICES may hide some");
  CHECK(refusal_of([] { cleave::cuda::device d({.device = -1}); }) != "nothing");
  CHECK_FALSE(cleave::cuda::find_device_fault(1));
}

TEST_CASE("cuda::device: an out-of-memory error tells the size, the free memory and who may hold the rest") {
  fake_cuda fake({.devices = {{.memory = 1 << 20}}});
  cleave::cuda::device d;
  auto const most = d.allocate(1 << 19);
  auto const said = refusal_of([&] { d.allocate(600'000); });
  CHECK(
      said.starts_with("device error: cannot allocate 600000 bytes in the memory of GPU 0 (524288 "
                       "of 1048576 bytes are free); cudaMalloc: cudaErrorMemoryAllocation: "));
  CHECK(said.find("other programs may be using GPU memory") != said.npos);
  CHECK_NOTHROW(d.allocate(1000));
  cleave::cuda::step_memory steps(d.resources());
  auto s = d.make_stream(0);
  CHECK(refusal_of([&] {
          steps.take(s.handle(), 700'000);
        }).starts_with("device error: cannot allocate 700000 bytes"));
  auto* const taken = steps.take(s.handle(), 1000);
  steps.give_back(s.handle(), taken);
  fake.fail("cudaHostAlloc", 1, cudaErrorMemoryAllocation);
  CHECK(refusal_of([&] {
          d.allocate_pinned(100);
        }).starts_with("device error: cannot allocate 100 bytes in pinned host memory"));
}

TEST_CASE("cuda::device: rejects elements that are not aligned to their size") {
  fake_cuda fake;
  cleave::cuda::device d;
  auto const b = d.allocate(64);
  auto* const odd = static_cast<std::byte*>(b.data()) + 2;
  std::array const pairs{region_pair{{odd, 3, element_type::bf16}, {odd + 30, 3, element_type::f32}}};
  CHECK_THROWS_WITH_AS(d.make_sums(std::array{region_pair{pairs[0].from, {odd + 28, 3, element_type::f32}}}),
                       "sums: a region of 3 elements of f32 begins 2 bytes after a multiple of the element "
                       "size, but GPU accesses must be aligned; align the region",
                       misplaced_elements_error);
  CHECK_NOTHROW(d.make_sums(pairs));
  CHECK_THROWS_AS(d.sum_of_squares(std::array{region{odd, 3, element_type::f32}}), error);
}

TEST_CASE("cuda::device: the error of a missing kernel image names CMAKE_CUDA_ARCHITECTURES") {
  fake_cuda fake;
  cleave::cuda::device d;
  auto const from = d.allocate(8), to = d.allocate(8);
  std::array const pairs{region_pair{{from.data(), 1, element_type::f64}, {to.data(), 1, element_type::f64}}};
  auto const list = d.make_sums(pairs);
  auto s = d.make_stream(0);
  fake.fail("cudaLaunchKernel", 1, cudaErrorNoKernelImageForDevice);
  auto const said = refusal_of([&] { d.accumulate(s, list, {}); });
  CHECK(said.starts_with("device error: launch of sums: cudaErrorNoKernelImageForDevice: "));
  CHECK(said.find("CMAKE_CUDA_ARCHITECTURES") != said.npos);
}

TEST_CASE("cuda::device: when drain() times out, memory and streams in use are leaked, not freed") {
  fake_cuda fake;
  {
    cleave::cuda::device d({.drain_within = 50ms});
    auto const b = d.allocate(1000);
    auto const pinned = d.allocate_pinned(1000);
    auto s = d.make_stream(0);
    auto e = d.make_event();
    struct {
      std::atomic<bool> go = false;
    } gate;
    cleave::cuda::check(
        cudaLaunchHostFunc(
            s.handle(), [](void* g) { static_cast<decltype(gate)*>(g)->go.wait(false); }, &gate),
        "cudaLaunchHostFunc");
    d.record(e, s);
    CHECK_FALSE(d.query(e));
    auto const begin = std::chrono::steady_clock::now();
    CHECK_FALSE(d.drain());
    CHECK(std::chrono::steady_clock::now() - begin < 5s);
    gate.go.store(true);
    gate.go.notify_all();
    CHECK(comes_true([&] { return d.query(e); }));
  }
  CHECK(fake.leaks().size() >= 3);  // memory of both kinds, and a stream
  CHECK(fake.reports() == sentences());
}
