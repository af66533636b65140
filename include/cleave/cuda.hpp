// SPDX-License-Identifier: MIT
#pragma once

/// Stages on GPUs; ranks are threads of one process, or processes. Needs the CUDA toolkit; processes also
/// need NCCL and libsodium. Component `cuda`.

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
