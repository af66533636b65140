// SPDX-License-Identifier: MIT
#include <algorithm>
#include <chrono>
#include <utility>

#include "support/cuda/fake_runtime.hpp"

using namespace cleave::testing;
using namespace cleave::testing::fake;

namespace {

constexpr int least_priority = 0, greatest_priority = -5;

/// Waits for a point in each of these streams.
void synchronize(runtime& r, host_thread& t, std::vector<std::shared_ptr<stream>> const& all,
                 runtime_lock& lock) {
  std::vector<std::shared_ptr<mark>> places;
  for (auto const& s : all) {
    if (s->has_ended()) {
      r.learn_all(s->clock);
      continue;
    }
    places.push_back(push_mark(r, t, *s));
  }
  for (auto const& m : places) {
    wait_for(r, *m, lock);
    r.learn(t, m->clock);
    r.learn_all(m->clock);
  }
}

}  // namespace

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* handle, unsigned flags, int priority) {
  return call("cudaStreamCreateWithPriority", [&](runtime& r, host_thread& t, runtime_lock&) {
    auto const possible = std::clamp(priority, greatest_priority, least_priority);
    auto const s = make_stream(r, t.device, (flags & cudaStreamNonBlocking) == 0, possible);
    *handle = reinterpret_cast<cudaStream_t>(s.get());
    return cudaSuccess;
  });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* handle, unsigned flags) {
  return cudaStreamCreateWithPriority(handle, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t* handle) {
  return cudaStreamCreateWithPriority(handle, cudaStreamDefault, 0);
}

/// Destroys the handle; pending work continues without a wait.
cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return call("cudaStreamDestroy", [&](runtime& r, host_thread& t, runtime_lock&) {
    auto const s = find_stream(r, t, handle, "cudaStreamDestroy");
    if (!s || s->is_legacy || s->is_of_thread) return cudaErrorInvalidResourceHandle;
    s->is_destroyed = true;
    close(*s);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return call("cudaStreamQuery", [&](runtime& r, host_thread& t, runtime_lock&) {
    auto const s = find_stream(r, t, handle, "cudaStreamQuery");
    if (!s) return cudaErrorInvalidResourceHandle;
    if (s->capture) {
      s->capture->is_invalid = true;
      return cudaErrorStreamCaptureUnsupported;
    }
    if (!s->is_idle()) return cudaErrorNotReady;
    r.learn(t, s->clock);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return call("cudaStreamSynchronize", [&](runtime& r, host_thread& t, runtime_lock& lock) {
    auto const s = find_stream(r, t, handle, "cudaStreamSynchronize");
    if (!s) return cudaErrorInvalidResourceHandle;
    if (s->capture) {
      s->capture->is_invalid = true;
      return cudaErrorStreamCaptureUnsupported;
    }
    synchronize(r, t, {s}, lock);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return call("cudaDeviceSynchronize", [&](runtime& r, host_thread& t, runtime_lock& lock) {
    if (auto const error = forbid_capture(r, t); error != cudaSuccess) return error;
    std::vector<std::shared_ptr<stream>> all;
    bool is_captured = false;  // any capture, in any mode
    for (auto const& [address, s] : r.streams) {
      if (s->device != t.device) continue;
      if (s->capture) is_captured = s->capture->is_invalid = true;
      all.push_back(s);
    }
    if (is_captured) return cudaErrorStreamCaptureUnsupported;
    synchronize(r, t, all, lock);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) {
  return call("cudaStreamGetPriority", [&](runtime& r, host_thread& t, runtime_lock&) {
    auto const s = find_stream(r, t, handle, "cudaStreamGetPriority");
    if (s) *priority = s->priority;
    return s ? cudaSuccess : cudaErrorInvalidResourceHandle;
  });
}

cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned* flags) {
  return call("cudaStreamGetFlags", [&](runtime& r, host_thread& t, runtime_lock&) {
    auto const s = find_stream(r, t, handle, "cudaStreamGetFlags");
    if (s) *flags = s->is_blocking || s->is_legacy ? cudaStreamDefault : cudaStreamNonBlocking;
    return s ? cudaSuccess : cudaErrorInvalidResourceHandle;
  });
}

cudaError_t cudaStreamGetDevice(cudaStream_t handle, int* device) {
  return call("cudaStreamGetDevice", [&](runtime& r, host_thread& t, runtime_lock&) {
    auto const s = find_stream(r, t, handle, "cudaStreamGetDevice");
    if (s) *device = s->device;
    return s ? cudaSuccess : cudaErrorInvalidResourceHandle;
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return call("cudaDeviceGetStreamPriorityRange", [&](runtime&, host_thread&, runtime_lock&) {
    if (least) *least = least_priority;
    if (greatest) *greatest = greatest_priority;
    return cudaSuccess;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t f, void* data) {
  return call("cudaLaunchHostFunc", [&](runtime& r, host_thread& t, runtime_lock& lock) {
    auto const s = find_stream(r, t, handle, "cudaLaunchHostFunc");
    if (!s) return cudaErrorInvalidResourceHandle;
    work w;
    w.is = work::kind::host_function;
    w.name = "a function of the host";
    w.run = [f, data](stream&, runtime_lock& held) {
      held.unlock();
      is_in_host_function() = true;
      f(data);
      is_in_host_function() = false;
      held.lock();
    };
    return issue(r, t, *s, std::move(w), lock);
  });
}

}  // extern "C"
