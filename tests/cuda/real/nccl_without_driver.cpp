// SPDX-License-Identifier: MIT
#include <cuda_runtime_api.h>
#include <doctest/doctest.h>
#include <nccl.h>

#include <cstdlib>
#include <string>

#include "cleave/cuda/pipeline.hpp"

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("own_nccl_version: the loaded library is at least as new as the header") {
  auto const own = own_nccl_version(rank_id{0});
  CHECK(own.header == NCCL_VERSION_CODE);
  CHECK(own.library >= own.header);
}

TEST_CASE("nccl_failure: without a driver, the error says so and tells what to install") {
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) == cudaSuccess) {
    MESSAGE("left out: there is a GPU");
    return;
  }
  ::setenv("NCCL_RAS_ENABLE", "0", 1);  // it would listen on a port
  ncclUniqueId id = {};
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  ncclComm_t made = nullptr;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  auto const r = ncclCommInitRankConfig(&made, 1, id, 0, &config);
  REQUIRE(r == ncclUnhandledCudaError);
  auto const f = nccl_failure("ncclCommInitRankConfig", r, made, rank_id{3});
  CHECK(f.code == failure_code::device);
  CHECK(describe(f) ==
        "rank 3: device error: ncclCommInitRankConfig: unhandled cuda error (run with NCCL_DEBUG=INFO for "
        "details): Cuda failure 'CUDA driver version is insufficient for CUDA runtime version'; install a "
        "driver, or a newer one; nvidia-smi shows the installed version");
}
