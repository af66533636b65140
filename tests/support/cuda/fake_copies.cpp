// SPDX-License-Identifier: MIT
#include <cstring>
#include <utility>
#include <vector>

#include "support/cuda/fake_runtime.hpp"

using namespace cleave::testing;
using namespace cleave::testing::fake;

namespace {

std::vector<footprint> known_memory(runtime const& r, std::vector<footprint> all) {
  std::erase_if(all, [&](footprint const& f) { return f.bytes == 0 || r.memory.is_pageable(f.data); });
  return all;
}

/// Returns true if a copy of that kind may use these addresses. Device addresses must be known to CUDA.
bool fits(runtime& r, cudaMemcpyKind kind, void const* to, void const* from) {
  bool const wants_device_to = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  bool const wants_device_from = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  auto const is_device = [&](void const* p) {
    auto const* const a = r.memory.find(p);
    return a && a->is == allocation::kind::device;
  };
  if ((!wants_device_to || is_device(to)) && (!wants_device_from || is_device(from))) return true;
  r.report("a copy of a kind that its memory is not of");
  return false;
}

work copy_work(runtime& r, void* to, void const* from, std::size_t bytes) {
  work w;
  w.is = work::kind::copy;
  w.name = "a copy of " + plural_bytes(bytes);
  w.memory = known_memory(r, {{from, bytes, false}, {to, bytes, true}});
  w.run = [&r, to, from, bytes](stream&, runtime_lock& held) {
    held.unlock();
    {
      std::lock_guard one_at_a_time(r.data);
      std::memmove(to, from, bytes);
    }
    held.lock();
  };
  return w;
}

/// Enqueues the work and waits for it, so that all threads know that it has ended.
cudaError_t do_now(runtime& r, host_thread& t, stream& s, work w, runtime_lock& lock) {
  if (auto const error = issue(r, t, s, std::move(w), lock); error != cudaSuccess) return error;
  auto const end = push_mark(r, t, s);
  wait_for(r, *end, lock);
  r.learn(t, end->clock);
  r.learn_all(end->clock);
  return cudaSuccess;
}

cudaError_t copy_async(char const* function, void* to, void const* from, std::size_t bytes,
                       cudaMemcpyKind kind, cudaStream_t on) {
  return call(function, [&](runtime& r, host_thread& t, runtime_lock& lock) {
    auto const s = find_stream(r, t, on, function);
    if (!s) return cudaErrorInvalidResourceHandle;
    if (bytes == 0) return cudaSuccess;
    if (!fits(r, kind, to, from)) return cudaErrorInvalidValue;
    auto w = copy_work(r, to, from, bytes);
    bool const is_pageable_from = r.memory.is_pageable(from), is_pageable_to = r.memory.is_pageable(to);
    if (is_pageable_from && !s->capture) {  // reads the source now
      auto const* const first = static_cast<std::byte const*>(from);
      w.run = [&r, to, staged = std::vector(first, first + bytes)](stream&, runtime_lock& held) {
        held.unlock();
        {
          std::lock_guard one_at_a_time(r.data);
          std::memcpy(to, staged.data(), staged.size());
        }
        held.lock();
      };
    }
    if (is_pageable_to && !s->capture) return do_now(r, t, *s, std::move(w), lock);
    return issue(r, t, *s, std::move(w), lock);
  });
}

cudaError_t copy_now(char const* function, void* to, void const* from, std::size_t bytes,
                     cudaMemcpyKind kind) {
  return call(function, [&](runtime& r, host_thread& t, runtime_lock& lock) {
    if (auto const error = forbid_capture(r, t); error != cudaSuccess) return error;
    if (bytes == 0) return cudaSuccess;
    if (!fits(r, kind, to, from)) return cudaErrorInvalidValue;
    return do_now(r, t, *find_stream(r, t, nullptr, function), copy_work(r, to, from, bytes), lock);
  });
}

work fill_work(runtime& r, void* to, int value, std::size_t bytes) {
  work w;
  w.is = work::kind::fill;
  w.name = "a fill of " + plural_bytes(bytes);
  w.memory = {{to, bytes, true}};
  w.run = [&r, to, value, bytes](stream&, runtime_lock& held) {
    held.unlock();
    {
      std::lock_guard one_at_a_time(r.data);
      std::memset(to, value, bytes);
    }
    held.lock();
  };
  return w;
}

}  // namespace

extern "C" {

cudaError_t cudaMemcpyAsync(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t on) {
  return copy_async("cudaMemcpyAsync", to, from, bytes, kind, on);
}

cudaError_t cudaMemcpyPeerAsync(void* to, int, void const* from, int, std::size_t bytes, cudaStream_t on) {
  return copy_async("cudaMemcpyPeerAsync", to, from, bytes, cudaMemcpyDeviceToDevice, on);
}

cudaError_t cudaMemcpy(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind) {
  return copy_now("cudaMemcpy", to, from, bytes, kind);
}

cudaError_t cudaMemcpyPeer(void* to, int, void const* from, int, std::size_t bytes) {
  return copy_now("cudaMemcpyPeer", to, from, bytes, cudaMemcpyDeviceToDevice);
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t on) {
  return call("cudaMemsetAsync", [&](runtime& r, host_thread& t, runtime_lock& lock) {
    auto const s = find_stream(r, t, on, "cudaMemsetAsync");
    if (!s) return cudaErrorInvalidResourceHandle;
    return bytes == 0 ? cudaSuccess : issue(r, t, *s, fill_work(r, to, value, bytes), lock);
  });
}

/// Does not wait for device memory, like the real function.
cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  return cudaMemsetAsync(to, value, bytes, nullptr);
}

}  // extern "C"
