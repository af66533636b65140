// SPDX-License-Identifier: MIT
#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "support/cuda/fake_cuda.hpp"

using namespace cleave::testing;

namespace {

using lines = std::vector<std::string>;

cudaStream_t new_stream() {
  cudaStream_t s = nullptr;
  CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking) == cudaSuccess);
  return s;
}

float* new_numbers(std::size_t n) {
  void* p = nullptr;
  CHECK(cudaMalloc(&p, n * sizeof(float)) == cudaSuccess);
  return static_cast<float*>(p);
}

void touches_too_much(float*) {}

}  // namespace

TEST_CASE("fake_cuda memory: is aligned, filled with NaN, counted, and limited to the device's size") {
  fake_cuda fake({.devices = {{.memory = 1 << 20}}});
  auto* const p = new_numbers(4);
  CHECK(reinterpret_cast<std::uintptr_t>(p) % 256 == 0);
  float x = 0;
  CHECK(cudaMemcpy(&x, p + 3, sizeof(x), cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(std::isnan(x));
  std::size_t free = 0, total = 0;
  CHECK(cudaMemGetInfo(&free, &total) == cudaSuccess);
  CHECK(total == 1 << 20);
  CHECK(free == total - 16);
  void* more = nullptr;
  CHECK(cudaMalloc(&more, 1 << 20) == cudaErrorMemoryAllocation);
  CHECK(more == nullptr);
  fake.limit_memory(0, 100);
  CHECK(cudaMalloc(&more, 85) == cudaErrorMemoryAllocation);
  CHECK(cudaMalloc(&more, 84) == cudaSuccess);
  CHECK(fake.leaks() == lines{"allocation 0 (16 bytes of device 0)", "allocation 1 (84 bytes of device 0)"});
  CHECK(cudaFree(p) == cudaSuccess);
  CHECK(cudaFree(more) == cudaSuccess);
  CHECK(fake.leaks() == lines{});
  CHECK(fake.reports() == lines{});
}

TEST_CASE(
    "fake_cuda memory: reports fills outside allocations or in freed memory, and copies of the wrong kind") {
  fake_cuda fake;
  auto* const p = new_numbers(4);
  auto const s = new_stream();
  CHECK(cudaMemsetAsync(p + 2, 0, 12, s) == cudaErrorInvalidValue);
  CHECK(cudaFree(p) == cudaSuccess);
  CHECK(cudaMemsetAsync(p, 0, 4, s) == cudaErrorInvalidValue);
  CHECK(cudaFree(p) == cudaErrorInvalidValue);
  float here = 0;
  CHECK(cudaMemcpyAsync(&here, &here, 4, cudaMemcpyHostToDevice, s) == cudaErrorInvalidValue);
  auto const what =
      std::string("a fill of 12 bytes on stream 0 writes 12 bytes at 8 in allocation 0 (16 bytes of ");
  CHECK(
      fake.reports() ==
      lines{what + "device 0), which ends before",
            "a fill of 4 bytes on stream 0 writes 4 bytes at 0 in allocation 0 (16 bytes of device 0), which "
            "cudaFree has freed",
            "cudaFree of what is no allocation of its kind: allocation 0 (16 bytes of device 0), which "
            "cudaFree "
            "has freed",
            "a copy of a kind that its memory is not of"});
}

TEST_CASE("fake_cuda memory: reports a kernel that declares or makes an access outside its allocation") {
  fake_cuda fake;
  auto* p = new_numbers(4);
  auto const s = new_stream();
  void* parameters[] = {&p};
  auto const stub = reinterpret_cast<void const*>(&touches_too_much);
  bind_kernel(
      &touches_too_much, [](dim3, dim3, float*) { FAIL("it has run"); },
      [](fake_accesses& a, dim3, dim3, float* q) { a.reads(q, 17); });
  CHECK(cudaLaunchKernel(stub, dim3(1), dim3(1), parameters, 0, s) == cudaSuccess);
  cudaStreamSynchronize(s);
  bind_kernel(&touches_too_much, [](dim3, dim3, float* q) { q[4] = 0; });
  CHECK(cudaLaunchKernel(stub, dim3(1), dim3(1), parameters, 0, s) == cudaSuccess);
  cudaStreamSynchronize(s);
  CHECK(fake.reports() ==
        lines{"a kernel that is not registered on stream 0 reads 17 bytes at 0 in allocation 0 "
              "(16 bytes of device 0), which ends before",
              "something wrote behind allocation 0 (16 bytes of device 0)"});
}

TEST_CASE("fake_cuda memory: reports freeing memory that work may still use, even if that work has ended") {
  for (bool const has_ended : {false, true}) {
    fake_cuda fake;
    auto* const p = new_numbers(4);
    auto const s = new_stream();
    cudaMemsetAsync(p, 0, 16, s);
    if (has_ended) CHECK(fake.reports() == lines{});  // waits for it, which this thread does not know
    CHECK(cudaFree(p) == cudaSuccess);
    CHECK(fake.reports() ==
          lines{"cudaFree of allocation 0 (16 bytes of device 0), which a fill of 16 bytes on "
                "stream 0 uses, and the thread that frees does not know that this has ended"});
  }
}

TEST_CASE("fake_cuda memory: freeing waits for the device, and a wait without end is reported") {
  fake_cuda fake;
  auto *p = new_numbers(4), *q = new_numbers(4);
  auto const s = new_stream();
  bind_kernel(&touches_too_much, [](dim3, dim3, float*) {});
  fake.hang("not registered", 1);
  void* parameters[] = {&p};
  cudaLaunchKernel(reinterpret_cast<void const*>(&touches_too_much), dim3(1), dim3(1), parameters, 0, s);
  cudaFree(q);
  CHECK(fake.reports() == lines{"cudaFree waits for ever for a kernel that is not registered on stream 0"});
}

TEST_CASE("fake_cuda memory: copies read pageable memory at once and pinned memory when they run") {
  fake_cuda fake;
  auto* const p = new_numbers(1);
  auto const s = new_stream();
  void* pinned = nullptr;
  CHECK(cudaMallocHost(&pinned, 4) == cudaSuccess);
  auto& in_pinned = *static_cast<float*>(pinned);
  float here = 1;
  cudaMemcpyAsync(p, &here, 4, cudaMemcpyDefault, s);
  here = 2;
  cudaMemcpyAsync(&here, p, 4, cudaMemcpyDefault, s);
  CHECK(here == 1);
  in_pinned = 3;
  fake.host_writes(pinned, 4, "the test");
  cudaMemcpyAsync(p, pinned, 4, cudaMemcpyDefault, s);
  fake.host_writes(pinned, 4, "the test, early");
  CHECK(cudaStreamSynchronize(s) == cudaSuccess);
  fake.host_reads(pinned, 4, "the test, late");
  CHECK(fake.reports().size() == 1);
  CHECK(cudaFreeHost(pinned) == cudaSuccess);
}

TEST_CASE("fake_cuda memory: pool memory is allocated and freed in stream order") {
  fake_cuda fake;
  auto const s = new_stream(), other = new_stream();
  cudaMemPool_t pool = nullptr;
  cudaMemPoolProps props = {};
  props.location.type = cudaMemLocationTypeDevice;
  CHECK(cudaMemPoolCreate(&pool, &props) == cudaSuccess);
  void *p = nullptr, *q = nullptr;
  CHECK(cudaMallocFromPoolAsync(&p, 16, pool, s) == cudaSuccess);
  CHECK(cudaMemsetAsync(p, 0, 16, s) == cudaSuccess);
  CHECK(cudaFreeAsync(p, s) == cudaSuccess);
  CHECK(fake.reports() == lines{});
  CHECK(cudaMemsetAsync(p, 0, 16, s) == cudaErrorInvalidValue);
  CHECK(cudaMallocAsync(&q, 16, s) == cudaSuccess);
  CHECK(cudaMemsetAsync(q, 0, 16, other) == cudaSuccess);
  auto const all = fake.reports();
  REQUIRE(all.size() == 2);
  CHECK(all[1].find("and nothing orders them") != std::string::npos);
  CHECK(fake.leaks().size() == 3);
}

TEST_CASE("fake_cuda memory: a kernel may access a peer's memory only after peer access is enabled") {
  for (bool const enabled : {false, true}) {
    fake_cuda fake({.devices = {fake_gpu(), fake_gpu()}});
    auto* p = new_numbers(4);
    cudaSetDevice(1);
    int can = 0;
    CHECK(cudaDeviceCanAccessPeer(&can, 1, 0) == cudaSuccess);
    CHECK(can == 1);
    if (enabled) CHECK(cudaDeviceEnablePeerAccess(0, 0) == cudaSuccess);
    auto const s = new_stream();
    bind_kernel(
        &touches_too_much, [](dim3, dim3, float*) {},
        [](fake_accesses& a, dim3, dim3, float* q) { a.reads(q, 16); });
    void* parameters[] = {&p};
    cudaLaunchKernel(reinterpret_cast<void const*>(&touches_too_much), dim3(1), dim3(1), parameters, 0, s);
    CHECK(fake.reports().empty() == enabled);
    cudaPointerAttributes is = {};
    CHECK(cudaPointerGetAttributes(&is, p) == cudaSuccess);
    CHECK(is.device == 0);
    CHECK(is.type == cudaMemoryTypeDevice);
  }
}
