// SPDX-License-Identifier: MIT
#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "support/comes_true.hpp"
#include "support/cuda/fake_cuda.hpp"

using namespace cleave::testing;

namespace {

using lines = std::vector<std::string>;

void add_one(float*, std::size_t) {}  // stands for a kernel's stub
void no_body(float*) {}

struct wide_parameters {
  std::byte bytes[40000];
};
void wide_kernel(wide_parameters) {}

/// Two streams, an event, and numbers on a GPU.
struct one_gpu {
  cudaStream_t a = nullptr, b = nullptr;
  cudaEvent_t e = nullptr;
  float* numbers = nullptr;

  one_gpu() {
    bind_kernel(
        &add_one,
        [](dim3, dim3, float* p, std::size_t n) {
          for (std::size_t i = 0; i < n; ++i) p[i] += 1;
        },
        [](fake_accesses& told, dim3, dim3, float* p, std::size_t n) {
          told.reads(p, n * sizeof(float));
          told.writes(p, n * sizeof(float));
        });
    CHECK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking) == cudaSuccess);
    CHECK(cudaStreamCreateWithPriority(&b, cudaStreamNonBlocking, -1) == cudaSuccess);
    CHECK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming) == cudaSuccess);
    void* p = nullptr;
    CHECK(cudaMalloc(&p, 4 * sizeof(float)) == cudaSuccess);
    numbers = static_cast<float*>(p);
  }
  one_gpu(one_gpu const&) = delete;
  one_gpu& operator=(one_gpu const&) = delete;
  ~one_gpu() {
    cudaDeviceSynchronize();
    cudaFree(numbers);
    cudaEventDestroy(e);
    cudaStreamDestroy(a);
    cudaStreamDestroy(b);
  }

  static cudaError_t launch(float* p, std::size_t n, cudaStream_t on) {
    void* parameters[] = {&p, &n};
    return cudaLaunchKernel(reinterpret_cast<void const*>(&add_one), dim3(1), dim3(32), parameters, 0, on);
  }
  float first() const {
    float x = 0;
    CHECK(cudaMemcpy(&x, numbers, sizeof(x), cudaMemcpyDeviceToHost) == cudaSuccess);
    return x;
  }
};

}  // namespace

TEST_CASE("fake_cuda streams: work runs in order of issue, and an event wait orders two streams") {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    fake_cuda fake({.seed = seed, .longest_delay = std::chrono::microseconds(300)});
    {
      one_gpu g;
      CHECK(cudaMemsetAsync(g.numbers, 0, 16, g.a) == cudaSuccess);
      for (int i = 0; i < 20; ++i) {
        CHECK(g.launch(g.numbers, 4, i % 2 ? g.b : g.a) == cudaSuccess);
        CHECK(cudaEventRecord(g.e, i % 2 ? g.b : g.a) == cudaSuccess);
        CHECK(cudaStreamWaitEvent(i % 2 ? g.a : g.b, g.e, 0) == cudaSuccess);
      }
      CHECK(cudaStreamSynchronize(g.a) == cudaSuccess);
      CHECK(g.first() == 20);
    }
    CHECK(fake.reports() == lines{});
    CHECK(fake.leaks() == lines{});
  }
}

TEST_CASE("fake_cuda streams: reports a missing wait, even if the work happens to run in order") {
  fake_cuda fake;
  one_gpu g;
  CHECK(cudaMemsetAsync(g.numbers, 0, 16, g.a) == cudaSuccess);
  CHECK(cudaStreamQuery(g.b) == cudaSuccess);
  CHECK(fake.reports() == lines{});  // waits until it has been set, which orders nothing
  CHECK(g.launch(g.numbers, 1, g.b) == cudaSuccess);
  auto const all = fake.reports();
  REQUIRE(all.size() == 2);
  CHECK(all[0] ==
        "a kernel that is not registered on stream 1 reads what a fill of 16 bytes on stream 0 writes, "
        "and nothing orders them");
}

TEST_CASE("fake_cuda streams: leaving out a needed wait is reported as a race and listed in missed()") {
  for (bool const leave_out : {false, true}) {
    fake_cuda fake;
    one_gpu g;
    if (leave_out) fake.ignore_waits([](fake_wait const& w) { return w.in_stream == 1 && w.stream == 1; });
    cudaStreamWaitEvent(g.b, g.e, 0);  // not recorded
    cudaMemsetAsync(g.numbers, 0, 16, g.a);
    cudaEventRecord(g.e, g.a);
    cudaStreamWaitEvent(g.b, g.e, 0);
    g.launch(g.numbers, 4, g.b);
    CHECK(fake.waits() == 2);
    CHECK(fake.reports().empty() == !leave_out);
    CHECK(fake.missed() == (leave_out ? lines{"wait 1 of stream 1"} : lines{}));
  }
}

TEST_CASE("fake_cuda streams: work that the host has seen end precedes what the host issues afterwards") {
  fake_cuda fake;
  one_gpu g;
  cudaMemsetAsync(g.numbers, 0, 16, g.a);
  cudaEventRecord(g.e, g.a);
  CHECK(comes_true([&] { return cudaEventQuery(g.e) == cudaSuccess; }));
  CHECK(g.launch(g.numbers, 4, g.b) == cudaSuccess);
  CHECK(cudaStreamSynchronize(g.b) == cudaSuccess);
  std::thread([&] { CHECK(g.launch(g.numbers, 4, g.a) == cudaSuccess); }).join();
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(g.first() == 2);
  CHECK(fake.reports() == lines{});
}

TEST_CASE("fake_cuda streams: a launch copies its parameters and checks grid, block and parameter size") {
  fake_cuda fake;
  one_gpu g;
  cudaMemsetAsync(g.numbers, 0, 16, g.a);
  CHECK(g.launch(g.numbers, 4, g.a) == cudaSuccess);
  CHECK(cudaStreamSynchronize(g.a) == cudaSuccess);
  CHECK(g.first() == 1);
  float* p = g.numbers;
  void* parameters[] = {&p};
  auto const stub = reinterpret_cast<void const*>(&no_body);
  CHECK(cudaLaunchKernel(stub, dim3(1), dim3(1), parameters, 0, g.a) == cudaErrorInvalidDeviceFunction);
  bind_kernel(&no_body, [](dim3, dim3, float*) {});
  CHECK(cudaLaunchKernel(stub, dim3(0), dim3(1), parameters, 0, g.a) == cudaErrorInvalidConfiguration);
  CHECK(cudaLaunchKernel(stub, dim3(1), dim3(1025), parameters, 0, g.a) == cudaErrorInvalidConfiguration);
  CHECK(cudaGetLastError() == cudaErrorInvalidConfiguration);
  CHECK(cudaGetLastError() == cudaSuccess);
  bind_kernel(&wide_kernel, [](dim3, dim3, wide_parameters const&) {});
  static wide_parameters const many = {};
  void* wide[] = {const_cast<wide_parameters*>(&many)};
  CHECK(cudaLaunchKernel(reinterpret_cast<void const*>(&wide_kernel), dim3(1), dim3(1), wide, 0, g.a) ==
        cudaErrorInvalidValue);
  CHECK(fake.reports().size() == 4);
}

TEST_CASE(
    "fake_cuda streams: events measure time if made to, and tell whether their stream has reached them") {
  fake_cuda fake({.devices = {fake_gpu(), fake_gpu()}});
  one_gpu g;
  cudaEvent_t from = nullptr, to = nullptr;
  cudaEventCreate(&from);
  cudaEventCreate(&to);
  float milliseconds = -1;
  CHECK(cudaEventElapsedTime(&milliseconds, from, to) == cudaErrorInvalidResourceHandle);
  cudaEventRecord(from, g.a);
  fake.hang("not registered", 1);
  cudaMemsetAsync(g.numbers, 0, 16, g.a);
  g.launch(g.numbers, 1, g.a);
  cudaEventRecord(to, g.a);
  CHECK(cudaEventQuery(to) == cudaErrorNotReady);
  CHECK(cudaEventElapsedTime(&milliseconds, from, to) == cudaErrorNotReady);
  CHECK(cudaStreamQuery(g.a) == cudaErrorNotReady);
  fake.release();
  CHECK(cudaEventSynchronize(to) == cudaSuccess);
  CHECK(cudaEventElapsedTime(&milliseconds, from, to) == cudaSuccess);
  CHECK(milliseconds >= 0);
  CHECK(cudaEventElapsedTime(&milliseconds, from, g.e) == cudaErrorInvalidResourceHandle);
  CHECK(fake.reports() == lines{});
  cudaSetDevice(1);
  cudaEvent_t elsewhere = nullptr;
  cudaEventCreate(&elsewhere);
  CHECK(cudaEventRecord(elsewhere, g.a) == cudaErrorInvalidResourceHandle);
  CHECK(g.launch(g.numbers, 1, g.a) == cudaErrorInvalidResourceHandle);
  cudaSetDevice(0);
  cudaEventDestroy(from);
  CHECK(cudaEventQuery(from) == cudaErrorInvalidResourceHandle);
  CHECK(fake.reports().size() == 3);
  CHECK(fake.leaks().size() == 3);
}

TEST_CASE("fake_cuda streams: a full queue blocks the host until there is room") {
  fake_cuda fake({.queue_limit = 4});
  one_gpu g;
  cudaMemsetAsync(g.numbers, 0, 16, g.a);
  fake.hang("not registered", 1);
  std::atomic<int> issued = 0;
  std::thread host([&] {
    for (int i = 0; i < 10; ++i) {
      g.launch(g.numbers, 1, g.a);
      ++issued;
    }
    cudaStreamSynchronize(g.a);
  });
  CHECK(comes_true([&] { return issued >= 3; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(issued <= 4);
  fake.release();
  host.join();
  CHECK(issued == 10);
  CHECK(g.first() == 10);
  CHECK(fake.reports() == lines{});
}

TEST_CASE("fake_cuda streams: the default stream waits for blocking streams only") {
  for (bool const blocking : {true, false}) {
    fake_cuda fake;
    one_gpu g;
    cudaStream_t s = nullptr;
    cudaStreamCreateWithFlags(&s, blocking ? cudaStreamDefault : cudaStreamNonBlocking);
    cudaMemsetAsync(g.numbers, 0, 16, s);
    g.launch(g.numbers, 4, s);
    g.launch(g.numbers, 4, nullptr);
    g.launch(g.numbers, 4, s);
    CHECK(fake.reports().empty() == blocking);
  }
}

TEST_CASE("fake_cuda streams: calls fail on request, without a driver, and after a device failure") {
  {
    fake_cuda fake;
    fake.fail("cudaStreamCreateWithFlags", 2, cudaErrorMemoryAllocation);
    fake.fail("cudaStreamCreateWithPriority", 2, cudaErrorMemoryAllocation);
    cudaStream_t s = nullptr;
    CHECK(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, 0) == cudaSuccess);
    CHECK(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, 0) == cudaErrorMemoryAllocation);
    CHECK(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, 0) == cudaSuccess);
    CHECK(fake.calls("cudaStreamCreateWithPriority") == 3);
    fake.fail_device(0, cudaErrorIllegalAddress);
    CHECK(cudaStreamQuery(s) == cudaErrorIllegalAddress);
  }
  int n = 7;
  {
    fake_cuda fake({.driver = fake_driver::absent});
    CHECK(cudaGetDeviceCount(&n) == cudaErrorInsufficientDriver);
    CHECK(cudaSetDevice(0) == cudaErrorInsufficientDriver);
  }
  fake_cuda fake({.devices = {}});
  CHECK(cudaGetDeviceCount(&n) == cudaErrorNoDevice);
  CHECK(n == 0);
}
