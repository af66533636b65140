// SPDX-License-Identifier: MIT
#pragma once

/// Stages on GPUs, by threads of one process or by processes. Needs the CUDA toolkit, processes also NCCL
/// and libsodium: component `cuda`.

/// A GPU as a device.
#include "cleave/cuda/device.hpp"
/// Memory on it.
#include "cleave/cuda/memory.hpp"
/// Stages from functions.
#include "cleave/cuda/callable_stage.hpp"
/// Activations kept in the host's memory.
#include "cleave/cuda/offload.hpp"
/// Ranks as threads, a GPU each.
#include "cleave/cuda/threads.hpp"
#if __has_include(<nccl.h>) && __has_include(<sodium.h>)
/// Ranks as processes, over NCCL.
#include "cleave/cuda/pipeline.hpp"
#endif
