// SPDX-License-Identifier: MIT
#pragma once
#include <nccl.h>

#include <cleave/cuda.hpp>

namespace example {

/// What a program has before it makes a pipeline: a communicator of all ranks, and a stream on the same GPU.
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
