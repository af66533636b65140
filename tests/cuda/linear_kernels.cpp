// SPDX-License-Identifier: MIT
#include "support/cuda/linear_kernels.hpp"

#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/cuda/fake_cuda.hpp"

using namespace cleave::testing;

TEST_CASE("launch_linear_*: forward, backward, weights and update compute the expected numbers") {
  fake_cuda fake;
  double* memory = nullptr;
  REQUIRE(cudaMalloc(reinterpret_cast<void**>(&memory), 32 * sizeof(double)) == cudaSuccess);
  std::vector<double> const given = {3, -1, /*gradients*/ 0, 0, /*in*/ 1, 2, 3, 4};
  REQUIRE(cudaMemcpy(memory, given.data(), given.size() * sizeof(double), cudaMemcpyHostToDevice) ==
          cudaSuccess);
  double *const parameters = memory, *const gradients = memory + 2, *const in = memory + 4;
  double *const x = memory + 8, *const out = memory + 10, *const g = memory + 14, *const back = memory + 16;
  cudaStream_t s = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking) == cudaSuccess);
  launch_linear_forward(s, {{{in, in + 2}, 2}, {{out, out + 2}, 2}, parameters, x, 2, 0});
  launch_linear_backward(s, {{{in, nullptr}, 2}, {{back, nullptr}, 2}, parameters, g, 2, 1});
  launch_linear_weights(s, x, g, 2, gradients);
  REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
  std::vector<double> made(18);
  auto const read = [&] {
    return cudaMemcpy(made.data(), memory, made.size() * sizeof(double), cudaMemcpyDeviceToHost);
  };
  REQUIRE(read() == cudaSuccess);
  std::vector<double> const wanted = {3,     -1,          /*gradients*/ 7 * 4 + 10 * 5,
                                      9,     1,           2,
                                      3,     4,           /*x*/ 7,
                                      10,    20,          29,
                                      40,    58,          /*g*/ 1 + 3,
                                      2 + 3, /*back*/ 12, 15};
  CHECK(made == wanted);
  launch_linear_update(s, parameters, gradients, 0.5);
  REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
  REQUIRE(read() == cudaSuccess);
  CHECK(std::vector<double>(made.begin(), made.begin() + 4) == std::vector<double>{3 - 39, -1 - 4.5, 0, 0});
  cudaStreamDestroy(s);
  cudaFree(memory);
  CHECK(fake.reports() == std::vector<std::string>());
  CHECK(fake.leaks() == std::vector<std::string>());
}
