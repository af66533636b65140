// SPDX-License-Identifier: MIT
#pragma once

/// Runs stages on GPUs, with ranks as threads of one process or as processes. Needs the CUDA toolkit;
/// processes also need NCCL and libsodium. Component `cuda`.

/// Refuses compilers without exceptions in one line.
#include "cleave/core/needs_exceptions.hpp"
/// A GPU as a device.
#include "cleave/cuda/device.hpp"
/// Device memory.
#include "cleave/cuda/memory.hpp"
/// Stages made from functions.
#include "cleave/cuda/callable_stage.hpp"
/// Views for frameworks that read DLPack, and of theirs.
#include "cleave/cuda/dlpack.hpp"
/// Messages of 8-bit floats with scales.
#include "cleave/cuda/fp8.hpp"
/// Offloads saved activations to host memory.
#include "cleave/cuda/offload.hpp"
/// Ranks as threads, each with its own GPU.
#include "cleave/cuda/threads.hpp"
#if __has_include(<nccl.h>) && __has_include(<sodium.h>)
/// Ranks as processes that communicate over NCCL.
#include "cleave/cuda/pipeline.hpp"
#endif
