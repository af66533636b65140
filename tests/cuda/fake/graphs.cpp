// SPDX-License-Identifier: MIT
#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <vector>

#include "support/cuda/fake_cuda.hpp"

using namespace cleave::testing;

namespace {

using lines = std::vector<std::string>;

void double_it(int*) {}

/// Two streams, an event, and a number on a GPU that kernels double.
struct captured_gpu {
  cudaStream_t a = nullptr, b = nullptr;
  cudaEvent_t e = nullptr;
  int* number = nullptr;

  captured_gpu() {
    bind_kernel(
        &double_it, [](dim3, dim3, int* p) { *p *= 2; },
        [](fake_accesses& told, dim3, dim3, int* p) {
          told.reads(p, sizeof(int));
          told.writes(p, sizeof(int));
        });
    CHECK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking) == cudaSuccess);
    CHECK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking) == cudaSuccess);
    CHECK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming) == cudaSuccess);
    void* p = nullptr;
    CHECK(cudaMalloc(&p, 2 * sizeof(int)) == cudaSuccess);
    number = static_cast<int*>(p);
    set(1);
  }

  cudaError_t launch(cudaStream_t on, int* p) {
    void* parameters[] = {&p};
    return cudaLaunchKernel(reinterpret_cast<void const*>(&double_it), dim3(1), dim3(1), parameters, 0, on);
  }
  void fork() {
    CHECK(cudaEventRecord(e, a) == cudaSuccess);
    CHECK(cudaStreamWaitEvent(b, e, 0) == cudaSuccess);
  }
  void join() {
    CHECK(cudaEventRecord(e, b) == cudaSuccess);
    CHECK(cudaStreamWaitEvent(a, e, 0) == cudaSuccess);
  }
  void set(int x) {
    int const two[] = {x, x};
    CHECK(cudaMemcpy(number, two, sizeof(two), cudaMemcpyHostToDevice) == cudaSuccess);
  }
  int read() {
    int x = 0;
    CHECK(cudaMemcpy(&x, number, sizeof(x), cudaMemcpyDeviceToHost) == cudaSuccess);
    return x;
  }
};

}  // namespace

TEST_CASE(
    "fake_cuda graphs: captured work does not run, and each launch runs it once in its captured order") {
  fake_cuda fake({.seed = 2, .longest_delay = std::chrono::microseconds(200)});
  captured_gpu g;
  CHECK(cudaStreamBeginCapture(g.a, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  CHECK(g.launch(g.a, g.number) == cudaSuccess);
  g.fork();
  CHECK(g.launch(g.b, g.number) == cudaSuccess);
  CHECK(g.launch(g.a, g.number + 1) == cudaSuccess);
  g.join();
  CHECK(cudaEventQuery(g.e) == cudaErrorCapturedEvent);
  CHECK(g.launch(g.a, g.number) == cudaSuccess);
  cudaStreamCaptureStatus is = cudaStreamCaptureStatusNone;
  CHECK(cudaStreamIsCapturing(g.b, &is) == cudaSuccess);
  CHECK(is == cudaStreamCaptureStatusActive);
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(g.a, &graph) == cudaSuccess);
  std::size_t nodes = 0;
  CHECK(cudaGraphGetNodes(graph, nullptr, &nodes) == cudaSuccess);
  CHECK(nodes == 4);
  CHECK(g.read() == 1);
  cudaGraphExec_t exec = nullptr;
  CHECK(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
  for (int i = 0; i < 3; ++i) CHECK(cudaGraphLaunch(exec, g.a) == cudaSuccess);
  CHECK(cudaStreamSynchronize(g.a) == cudaSuccess);
  CHECK(g.read() == 8 * 8 * 8);
  CHECK(cudaGraphExecDestroy(exec) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  CHECK(fake.reports() == lines{});
}

TEST_CASE(
    "fake_cuda graphs: launching a graph with a missing edge reports a race, but only inside the graph") {
  fake_cuda fake;
  captured_gpu g;
  CHECK(cudaStreamBeginCapture(g.a, cudaStreamCaptureModeGlobal) == cudaSuccess);
  g.fork();
  g.launch(g.a, g.number);
  g.launch(g.b, g.number);  // at once
  g.join();
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(g.a, &graph) == cudaSuccess);
  cudaGraphExec_t exec = nullptr;
  CHECK(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
  CHECK(fake.reports() == lines{});
  cudaMemsetAsync(g.number, 0, 4, g.a);
  cudaGraphLaunch(exec, g.a);
  cudaMemsetAsync(g.number, 0, 4, g.a);
  auto const all = fake.reports();
  CHECK(!all.empty());
  for (auto const& sentence : all) CHECK(sentence.find("fill") == std::string::npos);
}

TEST_CASE("fake_cuda graphs: an update accepts new parameters but rejects another shape") {
  fake_cuda fake;
  captured_gpu g;
  auto const capture = [&](int launches, int* p) {
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamBeginCapture(g.a, cudaStreamCaptureModeRelaxed) == cudaSuccess);
    for (int i = 0; i < launches; ++i) g.launch(g.a, p);
    CHECK(cudaStreamEndCapture(g.a, &graph) == cudaSuccess);
    return graph;
  };
  cudaGraphExec_t exec = nullptr;
  CHECK(cudaGraphInstantiate(&exec, capture(1, g.number), 0) == cudaSuccess);
  cudaGraphExecUpdateResultInfo info = {};
  CHECK(cudaGraphExecUpdate(exec, capture(1, g.number + 1), &info) == cudaSuccess);
  CHECK(cudaGraphLaunch(exec, g.a) == cudaSuccess);
  CHECK(g.read() == 1);
  CHECK(cudaGraphExecUpdate(exec, capture(2, g.number), &info) == cudaErrorGraphExecUpdateFailure);
  CHECK(info.result == cudaGraphExecUpdateErrorTopologyChanged);
  CHECK(cudaStreamSynchronize(g.a) == cudaSuccess);
  CHECK(cudaFree(g.number) == cudaSuccess);
  CHECK(cudaGraphLaunch(exec, g.a) == cudaSuccess);  // a kernel declares its accesses only when it runs
  CHECK(fake.reports().size() == 2);
}

TEST_CASE("fake_cuda graphs: a call that cannot be captured ends the capture with the matching error code") {
  fake_cuda fake;
  captured_gpu g;
  cudaGraph_t graph = nullptr;
  auto const ends_with = [&](cudaError_t code) {
    CHECK(cudaStreamEndCapture(g.a, &graph) == code);
    CHECK(graph == nullptr);
  };
  auto const begin = [&] { CHECK(cudaStreamBeginCapture(g.a, cudaStreamCaptureModeGlobal) == cudaSuccess); };
  begin();
  CHECK(cudaStreamSynchronize(g.a) == cudaErrorStreamCaptureUnsupported);
  CHECK(g.launch(g.a, g.number) == cudaErrorStreamCaptureInvalidated);
  ends_with(cudaErrorStreamCaptureInvalidated);
  begin();
  void* p = nullptr;
  CHECK(cudaMalloc(&p, 4) == cudaErrorStreamCaptureUnsupported);
  ends_with(cudaErrorStreamCaptureInvalidated);
  begin();
  g.fork();
  g.launch(g.b, g.number);
  ends_with(cudaErrorStreamCaptureUnjoined);
  CHECK(cudaStreamWaitEvent(g.b, g.e, 0) == cudaErrorCapturedEvent);  // recorded in an ended capture
  CHECK(cudaEventRecord(g.e, g.b) == cudaSuccess);
  begin();
  CHECK(cudaStreamWaitEvent(g.a, g.e, 0) == cudaErrorStreamCaptureIsolation);
  ends_with(cudaErrorStreamCaptureInvalidated);
  cudaStream_t blocking = nullptr;
  CHECK(cudaStreamCreate(&blocking) == cudaSuccess);
  CHECK(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  CHECK(g.launch(nullptr, g.number) == cudaErrorStreamCaptureImplicit);
  CHECK(cudaStreamEndCapture(blocking, &graph) == cudaErrorStreamCaptureInvalidated);
  CHECK(cudaStreamEndCapture(blocking, &graph) == cudaErrorIllegalState);
  CHECK(fake.reports() == lines{});
}
