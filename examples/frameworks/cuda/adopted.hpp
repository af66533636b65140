// SPDX-License-Identifier: MIT
#pragma once
#include <nccl.h>

#include <cleave/cuda.hpp>

namespace example {

/// A communicator of all ranks and a stream on the same GPU. The program made both before its pipeline.
struct callers_own {
  ncclComm_t communicator = nullptr;
  cudaStream_t stream = nullptr;
  int gpu = 0;
};

inline cleave::cuda::pipeline_options options_with(callers_own const& own) {
  // [adopt]
  cleave::cuda::pipeline_options options;
  options.gpu = own.gpu;
  options.communicator = {.handle = own.communicator};
  options.device.passes = own.stream;
  // [adopt]
  return options;
}

}  // namespace example
