// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <utility>

#include "support/cuda/fake_runtime.hpp"

using namespace cleave::testing;
using namespace cleave::testing::fake;

namespace {

struct error_text {
  cudaError_t code;
  char const *name, *sentence;
};

constexpr std::array error_texts = {
    error_text{cudaSuccess, "cudaSuccess", "no error"},
    error_text{cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    error_text{cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    error_text{cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error"},
    error_text{cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
               "invalid configuration argument"},
    error_text{cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
               "CUDA driver version is insufficient for CUDA runtime version"},
    error_text{cudaErrorMissingConfiguration, "cudaErrorMissingConfiguration",
               "__global__ function call is not configured"},
    error_text{cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    error_text{cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    error_text{cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    error_text{cudaErrorECCUncorrectable, "cudaErrorECCUncorrectable", "uncorrectable ECC error encountered"},
    error_text{cudaErrorNoKernelImageForDevice, "cudaErrorNoKernelImageForDevice",
               "no kernel image is available for execution on the device"},
    error_text{cudaErrorUnsupportedPtxVersion, "cudaErrorUnsupportedPtxVersion",
               "the provided PTX was compiled with an unsupported toolchain."},
    error_text{cudaErrorDevicesUnavailable, "cudaErrorDevicesUnavailable",
               "CUDA-capable device(s) is/are busy or unavailable"},
    error_text{cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    error_text{cudaErrorIllegalState, "cudaErrorIllegalState",
               "the operation cannot be performed in the present state"},
    error_text{cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    error_text{cudaErrorIllegalAddress, "cudaErrorIllegalAddress",
               "an illegal memory access was encountered"},
    error_text{cudaErrorLaunchOutOfResources, "cudaErrorLaunchOutOfResources",
               "too many resources requested for launch"},
    error_text{cudaErrorLaunchTimeout, "cudaErrorLaunchTimeout", "the launch timed out and was terminated"},
    error_text{cudaErrorPeerAccessUnsupported, "cudaErrorPeerAccessUnsupported",
               "peer access is not supported between these two devices"},
    error_text{cudaErrorPeerAccessAlreadyEnabled, "cudaErrorPeerAccessAlreadyEnabled",
               "peer access is already enabled"},
    error_text{cudaErrorPeerAccessNotEnabled, "cudaErrorPeerAccessNotEnabled",
               "peer access has not been enabled"},
    error_text{cudaErrorHostMemoryAlreadyRegistered, "cudaErrorHostMemoryAlreadyRegistered",
               "part or all of the requested memory range is already mapped"},
    error_text{cudaErrorHostMemoryNotRegistered, "cudaErrorHostMemoryNotRegistered",
               "pointer does not correspond to a registered memory region"},
    error_text{cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    error_text{cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    error_text{cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
               "operation not permitted when stream is capturing"},
    error_text{cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
               "operation failed due to a previous error during capture"},
    error_text{cudaErrorStreamCaptureMerge, "cudaErrorStreamCaptureMerge",
               "operation would result in a merge of separate capture sequences"},
    error_text{cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched",
               "capture was not ended in the same stream as it began"},
    error_text{cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined",
               "capturing stream has unjoined work"},
    error_text{cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
               "dependency created on uncaptured work in another stream"},
    error_text{cudaErrorStreamCaptureImplicit, "cudaErrorStreamCaptureImplicit",
               "operation would make the legacy stream depend on a capturing blocking stream"},
    error_text{cudaErrorCapturedEvent, "cudaErrorCapturedEvent",
               "operation not permitted on an event last recorded in a capturing stream"},
    error_text{cudaErrorStreamCaptureWrongThread, "cudaErrorStreamCaptureWrongThread",
               "attempt to terminate a thread-local capture sequence from another thread"},
    error_text{cudaErrorGraphExecUpdateFailure, "cudaErrorGraphExecUpdateFailure",
               "the graph update was not performed because it included changes which violated constraints "
               "specific to instantiated graph update"},
    error_text{cudaErrorUnknown, "cudaErrorUnknown", "unknown error"},
};

error_text const& text_of(cudaError_t code) {
  auto const i = std::ranges::find(error_texts, code, &error_text::code);
  static constexpr error_text other = {cudaErrorUnknown, "unrecognized error code",
                                       "unrecognized error code"};
  return i == error_texts.end() ? other : *i;
}

bool is_device(runtime const& r, int device) {
  return device >= 0 && device < static_cast<int>(r.gpus.size());
}

int attribute(fake_gpu const& g, int device, cudaDeviceAttr which) {
  switch (which) {
    case cudaDevAttrMultiProcessorCount:
      return g.processors;
    case cudaDevAttrComputeCapabilityMajor:
      return g.major;
    case cudaDevAttrComputeCapabilityMinor:
      return g.minor;
    case cudaDevAttrMaxThreadsPerBlock:
      return 1024;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      return 2048;
    case cudaDevAttrWarpSize:
      return 32;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      return 48 * 1024;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return 227 * 1024;
    case cudaDevAttrPciBusId:
      return 16 + device;
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrMemoryPoolsSupported:
    case cudaDevAttrCanMapHostMemory:
      return 1;
    default:
      return 0;
  }
}

}  // namespace

extern "C" {

char const* cudaGetErrorName(cudaError_t code) { return text_of(code).name; }
char const* cudaGetErrorString(cudaError_t code) { return text_of(code).sentence; }

cudaError_t cudaGetLastError() {
  auto& r = runtime::here();
  std::lock_guard lock(r.mutex);
  return std::exchange(r.thread().last, cudaSuccess);
}

cudaError_t cudaPeekAtLastError() {
  auto& r = runtime::here();
  std::lock_guard lock(r.mutex);
  return r.thread().last;
}

cudaError_t cudaRuntimeGetVersion(int* to) {
  *to = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* to) {
  auto& r = runtime::here();
  std::lock_guard lock(r.mutex);
  *to = r.options.driver == fake_driver::absent ? 0 : CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* to) {
  *to = 0;
  return call("cudaGetDeviceCount", [&](runtime& r, host_thread&, runtime_lock&) {
    *to = static_cast<int>(r.gpus.size());
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return call("cudaSetDevice", [&](runtime& r, host_thread& t, runtime_lock&) {
    if (!is_device(r, device)) return cudaErrorInvalidDevice;
    t.device = device;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* to) {
  return call("cudaGetDevice", [&](runtime&, host_thread& t, runtime_lock&) {
    *to = t.device;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* to, cudaDeviceAttr which, int device) {
  return call("cudaDeviceGetAttribute", [&](runtime& r, host_thread&, runtime_lock&) {
    if (!is_device(r, device)) return cudaErrorInvalidDevice;
    *to = attribute(r.gpus[static_cast<std::size_t>(device)].is, device, which);
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* to, int device) {
  return call("cudaGetDeviceProperties", [&](runtime& r, host_thread&, runtime_lock&) {
    if (!is_device(r, device)) return cudaErrorInvalidDevice;
    auto const& g = r.gpus[static_cast<std::size_t>(device)].is;
    *to = {};
    std::snprintf(to->name, sizeof(to->name), "%s", g.name.c_str());
    to->totalGlobalMem = g.memory;
    to->major = g.major;
    to->minor = g.minor;
    to->multiProcessorCount = g.processors;
    to->warpSize = 32;
    to->maxThreadsPerBlock = 1024;
    to->maxThreadsPerMultiProcessor = 2048;
    to->sharedMemPerBlock = 48 * 1024;
    to->pciBusID = 16 + device;
    to->asyncEngineCount = 2;
    to->concurrentKernels = to->unifiedAddressing = to->memoryPoolsSupported = to->canMapHostMemory = 1;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* to, int length, int device) {
  return call("cudaDeviceGetPCIBusId", [&](runtime& r, host_thread&, runtime_lock&) {
    if (!is_device(r, device)) return cudaErrorInvalidDevice;
    std::snprintf(to, static_cast<std::size_t>(length), "0000:%02x:00.0", static_cast<unsigned>(16 + device));
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceCanAccessPeer(int* to, int device, int peer) {
  return call("cudaDeviceCanAccessPeer", [&](runtime& r, host_thread&, runtime_lock&) {
    if (!is_device(r, device) || !is_device(r, peer)) return cudaErrorInvalidDevice;
    *to = device != peer && r.options.peers == fake_peers::reachable ? 1 : 0;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  return call("cudaDeviceEnablePeerAccess", [&](runtime& r, host_thread& t, runtime_lock&) {
    if (!is_device(r, peer) || peer == t.device) return cudaErrorInvalidDevice;
    if (r.options.peers == fake_peers::apart) return cudaErrorPeerAccessUnsupported;
    auto& peers = r.gpus[static_cast<std::size_t>(t.device)].peers;
    if (std::ranges::find(peers, peer) != peers.end()) return cudaErrorPeerAccessAlreadyEnabled;
    peers.push_back(peer);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  return call("cudaDeviceDisablePeerAccess", [&](runtime& r, host_thread& t, runtime_lock&) {
    auto& peers = r.gpus[static_cast<std::size_t>(t.device)].peers;
    return std::erase(peers, peer) > 0 ? cudaSuccess : cudaErrorPeerAccessNotEnabled;
  });
}

}  // extern "C"
