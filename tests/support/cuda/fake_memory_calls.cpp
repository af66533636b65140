// SPDX-License-Identifier: MIT
#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "support/cuda/fake_runtime.hpp"

using namespace cleave::testing;
using namespace cleave::testing::fake;

namespace {

bool overlaps(allocation const& a, void const* data, std::size_t bytes) {
  auto const begin = reinterpret_cast<std::uintptr_t>(data);
  return begin < a.begin + a.bytes && a.begin < begin + bytes;
}

bool uses(allocation const& a, std::vector<footprint> const& memory,
          std::vector<void const*> const& pointers) {
  for (auto const& f : memory)
    if (overlaps(a, f.data, f.bytes)) return true;
  for (auto const* const p : pointers)
    if (overlaps(a, p, 1)) return true;
  return false;
}

/// Reports work that still uses `a`: enqueued work, and finished work that the calling thread has not
/// synchronized with.
void report_uses(runtime& r, host_thread& t, allocation const& a, std::string const& function) {
  auto const say = [&](std::string const& name) {
    r.report(function + " of " + a.text() + ", which " + name +
             " uses, and the thread that frees does not know that this has ended");
  };
  for (auto const& [handle, s] : r.streams) {
    if (!s->doing.empty() && uses(a, s->touching, s->holding)) say(s->doing);
    for (auto const& w : s->queue)
      if (uses(a, w.memory, w.pointers)) say(w.name);
  }
  for (auto const& name : r.log->unknown_to(*r.known(t), a.all())) say(name);
}

/// Waits for the device before freeing, as the real calls do.
void wait_for_device(runtime& r, host_thread& t, int device, std::string const& function,
                     runtime_lock& lock) {
  std::vector<std::shared_ptr<mark>> places;
  std::string in_the_way;
  for (auto const& [handle, s] : r.streams) {
    if ((device != host_device && s->device != device) || s->capture || s->is_idle()) continue;
    places.push_back(push_mark(r, t, *s));
    in_the_way = s->doing.empty() ? s->queue.front().name : s->doing;
  }
  auto const until = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  for (auto const& m : places)
    if (!r.changed.wait_until(lock, until, [&] { return m->is_reached; }))
      return r.report(function + " waits for ever for " + in_the_way);
}

bool is_idle(runtime const& r) {
  for (auto const& [handle, s] : r.streams)
    if (!s->is_idle()) return false;
  return true;
}

cudaError_t allocate(runtime& r, int device, allocation::kind kind, void** to, std::size_t bytes) {
  *to = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (kind == allocation::kind::device) {
    auto& g = r.gpus[static_cast<std::size_t>(device)];
    if (bytes > g.limit || g.used > g.limit - bytes) return cudaErrorMemoryAllocation;
    g.used += bytes;
  }
  auto const* const a = r.memory.allocate(device, kind, bytes);
  if (!a) return cudaErrorMemoryAllocation;
  *to = reinterpret_cast<void*>(a->begin);
  return cudaSuccess;
}

allocation* find_to_free(runtime& r, void* p, bool is_pinned, std::string const& function) {
  auto* const a = r.memory.find(p);
  auto const kind = is_pinned ? allocation::kind::pinned : allocation::kind::device;
  if (a && a->is == kind && a->freed_by.empty() && !a->is_to_be_freed &&
      a->begin == reinterpret_cast<std::uintptr_t>(p))
    return a;
  r.report(
      function + " of what is no allocation of its kind" +
      (a ? ": " + a->text() + (a->freed_by.empty() ? "" : ", which " + a->freed_by + " has freed") : ""));
  return nullptr;
}

void give_back(runtime& r, allocation& a, std::string const& function) {
  for (auto const& sentence : r.memory.overruns()) r.report(sentence);
  a.freed_by = function;
  if (a.is == allocation::kind::device) r.gpus[static_cast<std::size_t>(a.device)].used -= a.bytes;
  r.log->forget(a.all());
  if (is_idle(r)) r.memory.withdraw(a);
}

cudaError_t free_now(void* p, bool is_pinned, char const* function) {
  return call(function, [&](runtime& r, host_thread& t, runtime_lock& lock) {
    if (!p) return cudaSuccess;
    if (auto const error = forbid_capture(r, t); error != cudaSuccess) return error;
    auto* const a = find_to_free(r, p, is_pinned, function);
    if (!a) return cudaErrorInvalidValue;
    if (r.of_nccl.contains(p)) r.report(std::string(function) + " of memory that ncclMemFree must free");
    report_uses(r, t, *a, function);
    wait_for_device(r, t, a->device, function, lock);
    give_back(r, *a, function);
    return cudaSuccess;
  });
}

std::shared_ptr<memory_pool> find_pool(runtime& r, cudaMemPool_t handle, char const* function) {
  auto const i = r.pools.find(handle);
  if (i != r.pools.end() && !i->second->is_destroyed) return i->second;
  r.report(std::string(function) + " of a pool that there is not");
  return nullptr;
}

std::shared_ptr<memory_pool> make_pool(runtime& r, int device, bool is_default) {
  auto p = std::make_shared<memory_pool>();
  p->device = device;
  p->number = r.pools.size();
  p->is_default = is_default;
  r.pools[p.get()] = p;
  return p;
}

std::shared_ptr<memory_pool> default_pool(runtime& r, int device) {
  for (auto const& [handle, p] : r.pools)
    if (p->is_default && p->device == device) return p;
  return make_pool(r, device, true);
}

/// Allocates by a graph node that fills the memory with NaN at each launch.
cudaError_t take_in_graph(stream& s, runtime& r, int device, void** to, std::size_t bytes, std::string name) {
  auto const error = allocate(r, device, allocation::kind::device, to, bytes);
  if (error != cudaSuccess || bytes == 0) return error;
  auto* const a = r.memory.find(*to);
  a->is_of_graph = true;
  s.capture->into->memory->taken.push_back(a);
  work w;
  w.is = work::kind::memory;
  w.name = std::move(name);
  w.memory = {{*to, bytes, true}};
  w.run = [&r, a](stream&, runtime_lock&) {
    std::lock_guard one_at_a_time(r.data);
    std::memset(a->all().data, 0xff, a->bytes);
  };
  return record(s, std::move(w));
}
cudaError_t give_back_in_graph(stream& s, allocation const& a) {
  s.capture->into->memory->given_back.push_back(&a);
  work w;
  w.is = work::kind::memory;
  w.name = "cudaFreeAsync";
  w.memory = {{a.all().data, a.bytes, true}};
  w.run = [](stream&, runtime_lock&) {};
  return record(s, std::move(w));
}

/// Allocates in stream order: work that is not ordered after the allocation races with it.
cudaError_t allocate_on(runtime& r, host_thread& t, memory_pool const& pool, cudaStream_t handle, void** to,
                        std::size_t bytes, char const* function, runtime_lock& lock) {
  auto const s = find_stream(r, t, handle, function);
  if (!s) return cudaErrorInvalidResourceHandle;
  if (s->capture) return take_in_graph(*s, r, pool.device, to, bytes, function);
  auto const error = allocate(r, pool.device, allocation::kind::device, to, bytes);
  if (error != cudaSuccess || bytes == 0) return error;
  work w;
  w.is = work::kind::memory;
  w.name = function;
  w.memory = {{*to, bytes, true}};
  w.run = [](stream&, runtime_lock&) {};
  return issue(r, t, *s, std::move(w), lock);
}

}  // namespace

void cleave::testing::fake::let_go_of_memory(runtime& r, graph& g) {
  if (g.memory.use_count() == 1)
    for (auto* const a : g.memory->taken) {
      bool const goes =
          !g.memory->is_there || std::ranges::find(g.memory->given_back, a) != g.memory->given_back.end();
      if (goes && a->freed_by.empty()) give_back(r, *a, "the end of a graph");
    }
  g.memory = std::make_shared<graph_memory>();
}

extern "C" {

cudaError_t cudaMalloc(void** to, std::size_t bytes) {
  return call("cudaMalloc", [&](runtime& r, host_thread& t, runtime_lock&) {
    if (auto const error = forbid_capture(r, t); error != cudaSuccess) return error;
    return allocate(r, t.device, allocation::kind::device, to, bytes);
  });
}

cudaError_t cudaFree(void* p) { return free_now(p, false, "cudaFree"); }

cudaError_t cudaHostAlloc(void** to, std::size_t bytes, unsigned) {
  return call("cudaHostAlloc", [&](runtime& r, host_thread& t, runtime_lock&) {
    if (auto const error = forbid_capture(r, t); error != cudaSuccess) return error;
    return allocate(r, host_device, allocation::kind::pinned, to, bytes);
  });
}

cudaError_t cudaMallocHost(void** to, std::size_t bytes) { return cudaHostAlloc(to, bytes, 0); }

cudaError_t cudaFreeHost(void* p) { return free_now(p, true, "cudaFreeHost"); }

cudaError_t cudaHostRegister(void* p, std::size_t bytes, unsigned) {
  return call("cudaHostRegister", [&](runtime& r, host_thread&, runtime_lock&) {
    if (r.memory.find(p)) return cudaErrorHostMemoryAlreadyRegistered;
    r.memory.add_registered(p, bytes);
    return cudaSuccess;
  });
}

cudaError_t cudaHostUnregister(void* p) {
  return call("cudaHostUnregister", [&](runtime& r, host_thread& t, runtime_lock& lock) {
    auto* const a = r.memory.find(p);
    if (!a || a->is != allocation::kind::registered) return cudaErrorHostMemoryNotRegistered;
    report_uses(r, t, *a, "cudaHostUnregister");
    wait_for_device(r, t, host_device, "cudaHostUnregister", lock);
    r.log->forget(a->all());
    a->freed_by = "cudaHostUnregister";
    return cudaSuccess;
  });
}

cudaError_t cudaHostGetDevicePointer(void** to, void* p, unsigned) {
  return call("cudaHostGetDevicePointer", [&](runtime&, host_thread&, runtime_lock&) {
    *to = p;
    return cudaSuccess;
  });
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return call("cudaMemGetInfo", [&](runtime& r, host_thread& t, runtime_lock&) {
    auto const& g = r.gpus[static_cast<std::size_t>(t.device)];
    *total = g.is.memory;
    *free = g.limit > g.used ? g.limit - g.used : 0;
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* to, void const* p) {
  return call("cudaPointerGetAttributes", [&](runtime& r, host_thread&, runtime_lock&) {
    auto const* const a = r.memory.find(p);
    *to = {};
    to->device = a ? a->device : cudaInvalidDeviceId;
    to->type = !a                                  ? cudaMemoryTypeUnregistered
               : a->is == allocation::kind::device ? cudaMemoryTypeDevice
                                                   : cudaMemoryTypeHost;
    if (a && a->is != allocation::kind::device) to->device = 0;
    if (a) to->devicePointer = const_cast<void*>(p);
    if (!a || a->is != allocation::kind::device) to->hostPointer = const_cast<void*>(p);
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* handle, cudaMemPoolProps const* props) {
  return call("cudaMemPoolCreate", [&](runtime& r, host_thread&, runtime_lock&) {
    if (props->location.type != cudaMemLocationTypeDevice || props->location.id < 0 ||
        props->location.id >= static_cast<int>(r.gpus.size()))
      return cudaErrorInvalidValue;
    *handle = reinterpret_cast<cudaMemPool_t>(make_pool(r, props->location.id, false).get());
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* handle, int device) {
  return call("cudaDeviceGetDefaultMemPool", [&](runtime& r, host_thread&, runtime_lock&) {
    if (device < 0 || device >= static_cast<int>(r.gpus.size())) return cudaErrorInvalidDevice;
    *handle = reinterpret_cast<cudaMemPool_t>(default_pool(r, device).get());
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t handle, cudaMemPoolAttr which, void* value) {
  return call("cudaMemPoolSetAttribute", [&](runtime& r, host_thread&, runtime_lock&) {
    auto const p = find_pool(r, handle, "cudaMemPoolSetAttribute");
    if (!p) return cudaErrorInvalidValue;
    if (which == cudaMemPoolAttrReleaseThreshold) p->threshold = *static_cast<std::uint64_t const*>(value);
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t handle, std::size_t) {
  return call("cudaMemPoolTrimTo", [&](runtime& r, host_thread&, runtime_lock&) {
    return find_pool(r, handle, "cudaMemPoolTrimTo") ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t handle) {
  return call("cudaMemPoolDestroy", [&](runtime& r, host_thread&, runtime_lock&) {
    auto const p = find_pool(r, handle, "cudaMemPoolDestroy");
    if (!p || p->is_default) return cudaErrorInvalidValue;
    p->is_destroyed = true;
    return cudaSuccess;
  });
}

cudaError_t cudaMallocFromPoolAsync(void** to, std::size_t bytes, cudaMemPool_t pool, cudaStream_t on) {
  return call("cudaMallocFromPoolAsync", [&](runtime& r, host_thread& t, runtime_lock& lock) {
    auto const p = find_pool(r, pool, "cudaMallocFromPoolAsync");
    return p ? allocate_on(r, t, *p, on, to, bytes, "cudaMallocFromPoolAsync", lock) : cudaErrorInvalidValue;
  });
}

cudaError_t cudaMallocAsync(void** to, std::size_t bytes, cudaStream_t on) {
  return call("cudaMallocAsync", [&](runtime& r, host_thread& t, runtime_lock& lock) {
    auto const s = find_stream(r, t, on, "cudaMallocAsync");
    if (!s) return cudaErrorInvalidResourceHandle;
    return allocate_on(r, t, *default_pool(r, s->device), on, to, bytes, "cudaMallocAsync", lock);
  });
}

cudaError_t cudaFreeAsync(void* p, cudaStream_t on) {
  return call("cudaFreeAsync", [&](runtime& r, host_thread& t, runtime_lock& lock) {
    auto const s = find_stream(r, t, on, "cudaFreeAsync");
    if (!s) return cudaErrorInvalidResourceHandle;
    if (!p) return cudaSuccess;
    auto* const a = find_to_free(r, p, false, "cudaFreeAsync");
    if (!a) return cudaErrorInvalidValue;
    if (a->is_of_graph != (s->capture != nullptr)) {
      r.report("cudaFreeAsync of " + a->text() + ", which is taken " +
               (s->capture ? "before the capture" : "by a graph"));
      return cudaErrorInvalidValue;
    }
    if (s->capture) return give_back_in_graph(*s, *a);
    work w;
    w.is = work::kind::memory;
    w.name = "cudaFreeAsync";
    w.memory = {{p, a->bytes, true}};
    w.run = [&r, a](stream&, runtime_lock&) { give_back(r, *a, "cudaFreeAsync"); };
    auto const error = issue(r, t, *s, std::move(w), lock);
    if (error == cudaSuccess) a->is_to_be_freed = true;
    return error;
  });
}

}  // extern "C"
