// SPDX-License-Identifier: MIT
#pragma once
#include <cuda_runtime_api.h>

#include <string>
#include <utility>

#include "cleave/run/model/failure.hpp"

namespace cleave::inline v0_2::detail {

/// Thrown if a call of the CUDA runtime failed.
class cuda_error : public run_error {
 public:
  cuda_error(std::string detail, cudaError_t cuda_status)
      : run_error({.code = failure_code::device, .detail = std::move(detail)}), status(cuda_status) {}
  cudaError_t status;  ///< the error code of CUDA
};

/// Returns advice for an error, or null if CUDA's own message is enough.
inline char const* cuda_remedy(cudaError_t e) {
  switch (e) {
    case cudaErrorInsufficientDriver:
      return "the driver is missing or older than the CUDA runtime of this program; check with nvidia-smi, "
             "then install a newer driver or build with an older toolkit";
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
      return "nvidia-smi -L lists the installed GPUs; CUDA_VISIBLE_DEVICES may hide some";
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorUnsupportedPtxVersion:
      return "the kernels of this program were built for other GPUs; rebuild with CMAKE_CUDA_ARCHITECTURES "
             "set to the architecture of this GPU, or to native";
    case cudaErrorMemoryAllocation:
      return "other programs may be using GPU memory; nvidia-smi lists them";
    case cudaErrorDevicesUnavailable:
      return "another program uses the GPU exclusively, or its compute mode prohibits this one";
    case cudaErrorSystemNotReady:
      return "on machines with NVSwitch the fabric manager must be running";
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureInvalidated:
    case cudaErrorStreamCaptureUnjoined:
    case cudaErrorStreamCaptureIsolation:
    case cudaErrorStreamCaptureImplicit:
      return "while a step is recorded, a stage must not wait for the GPU, and may use only streams that are "
             "forked from its own and joined to it; otherwise let records() return false, or use "
             "step_mode::issued";
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorAssert:
      return "an earlier kernel caused the error; run compute-sanitizer to find it";
    default:
      return nullptr;
  }
}

/// Formats an error: `cudaMalloc: cudaErrorNoDevice: no CUDA-capable device is detected`, followed by advice.
inline std::string cuda_text(char const* call, cudaError_t e) {
  auto text = std::string(call) + ": " + cudaGetErrorName(e) + ": " + cudaGetErrorString(e);
  if (auto const* const remedy = cuda_remedy(e)) text.append("; ").append(remedy);
  return text;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2::cuda {

/// Checks the result `e` of the CUDA function `call`, such as `cudaMemcpyAsync`. The error may stem from an
/// earlier kernel. Resets CUDA's last error.
/// \throws cuda_error if `e` is not success
inline void check(cudaError_t e, char const* call) {
  if (e == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  throw detail::cuda_error(detail::cuda_text(call, e), e);
}

}  // namespace cleave::cuda

namespace cleave::inline v0_2::detail {

/// Checks for launch errors of the kernels that `call` names. Ignores cudaErrorNotReady, which an event query
/// may have left as the last error.
/// \throws cuda_error if a kernel could not be launched
inline void check_launch(char const* call) {
  if (auto const e = cudaGetLastError(); e != cudaErrorNotReady) cuda::check(e, call);
}

}  // namespace cleave::detail
