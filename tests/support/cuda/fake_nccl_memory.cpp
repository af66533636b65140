// SPDX-License-Identifier: MIT
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "support/cuda/fake_nccl_calls.hpp"

namespace cleave::testing::fake {

void require_no_registration(runtime& r, communicator const& c, std::string const& function) {
  for (auto const& [handle, m] : r.registrations)
    if (m->with == &c)
      r.report(function + " of " + c.text() + ", with which " + plural_bytes(m->bytes) + " are registered");
}

void count_unregistered(runtime& r, communicator const& c, message_call const& m) {
  auto const is_registered = [&](footprint const& f) {
    return std::ranges::any_of(r.registrations, [&](auto const& i) {
      auto const& have = *i.second;
      auto const begin = reinterpret_cast<std::uintptr_t>(have.data),
                 from = reinterpret_cast<std::uintptr_t>(f.data);
      return have.with == &c && from >= begin && from - begin + f.bytes <= have.bytes;
    });
  };
  auto const memory = m.memory(c.rank, c.in->size);
  if (c.in->size > 1 && !std::ranges::all_of(memory, is_registered)) ++r.unregistered_messages;
}

namespace {

/// Registers memory, which must be that of one allocation.
ncclResult_t add(runtime& r, communicator& c, void* data, std::size_t bytes, bool is_window, void** to) {
  if (auto const fault = r.memory.fault(data, bytes)) {
    r.report(c.text() + " registers " + *fault);
    return ncclInvalidArgument;
  }
  auto const made = std::make_shared<registered_memory>(registered_memory{&c, data, bytes, is_window});
  r.registrations[made.get()] = made;
  *to = made.get();
  return ncclSuccess;
}

ncclResult_t remove(runtime& r, communicator const& c, void const* handle, bool is_window,
                    std::string const& function) {
  auto const i = r.registrations.find(handle);
  if (i == r.registrations.end() || i->second->with != &c || i->second->is_window != is_window) {
    r.report(function + " of something that " + c.text() + " has not registered so");
    return ncclInvalidArgument;
  }
  if (r.memory.fault(i->second->data, i->second->bytes))
    r.report(function + " of memory that has been freed before");
  r.registrations.erase(i);
  return ncclSuccess;
}

/// Returns true if a window may begin there.
bool may_be_window(runtime& r, void const* data) {
  auto const* const a = r.memory.find(data);
  return a && r.of_nccl.contains(reinterpret_cast<void const*>(a->begin)) &&
         reinterpret_cast<std::uintptr_t>(data) % NCCL_WIN_REQUIRED_ALIGNMENT == 0;
}

ncclResult_t add_window(runtime& r, communicator& c, void* data, std::size_t bytes, ncclWindow_t* to,
                        runtime_lock& lock) {
  if (!may_be_window(r, data)) {
    r.report(c.text() + " makes a window of memory that ncclMemAlloc has not allocated, or within it");
    return ncclInvalidArgument;
  }
  void* made = nullptr;
  if (auto const e = add(r, c, data, bytes, true, &made); e != ncclSuccess) return e;
  *to = static_cast<ncclWindow_t>(made);
  auto const number = c.windows++;
  auto& all = c.in->windows;
  if (all.size() <= number) all.resize(number + 1);
  all[number][c.rank] = bytes;
  for (auto const& [rank, theirs] : all[number])
    if (theirs != bytes)
      r.report(c.text() + " makes a window of " + plural_bytes(bytes) + ", but rank " + std::to_string(rank) +
               " one of " + plural_bytes(theirs));
  return begin_progress(
      r, c, fake_nccl_hang::split,
      [w = c.in, number] { return w->windows[number].size() == static_cast<std::size_t>(w->size); }, nullptr,
      lock);
}

}  // namespace

}  // namespace cleave::testing::fake

using namespace cleave::testing;
using namespace cleave::testing::fake;

extern "C" {

ncclResult_t ncclMemAlloc(void** to, std::size_t bytes) {
  auto& r = runtime::here();
  {
    std::lock_guard lock(r.mutex);
    if (auto const code = r.injected("ncclMemAlloc")) return static_cast<ncclResult_t>(*code);
  }
  if (cudaMalloc(to, bytes) != cudaSuccess) return ncclUnhandledCudaError;
  std::lock_guard lock(r.mutex);
  r.of_nccl.insert(*to);
  return ncclSuccess;
}

ncclResult_t ncclMemFree(void* p) {
  auto& r = runtime::here();
  {
    std::lock_guard lock(r.mutex);
    if (auto const code = r.injected("ncclMemFree")) return static_cast<ncclResult_t>(*code);
    if (r.of_nccl.erase(p) == 0) r.report("ncclMemFree of memory that ncclMemAlloc has not allocated");
    for (auto const& [handle, m] : r.registrations)
      if (auto const* const a = r.memory.find(m->data); a && a->begin == reinterpret_cast<std::uintptr_t>(p))
        r.report("ncclMemFree of memory that is registered with " + m->with->text());
  }
  return cudaFree(p) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclCommRegister(ncclComm_t handle, void* data, std::size_t bytes, void** to) {
  return nccl_call("ncclCommRegister", handle, nccl_when::settled,
                   [&](runtime& r, host_thread&, communicator& c, runtime_lock&) {
                     return add(r, c, data, bytes, false, to);
                   });
}

ncclResult_t ncclCommDeregister(ncclComm_t handle, void* what) {
  return nccl_call("ncclCommDeregister", handle, nccl_when::settled,
                   [&](runtime& r, host_thread&, communicator& c, runtime_lock&) {
                     return remove(r, c, what, false, "ncclCommDeregister");
                   });
}

ncclResult_t ncclCommWindowRegister(ncclComm_t handle, void* data, std::size_t bytes, ncclWindow_t* to,
                                    int flags) {
  return nccl_call("ncclCommWindowRegister", handle, nccl_when::settled,
                   [&](runtime& r, host_thread&, communicator& c, runtime_lock& lock) {
                     if (flags != NCCL_WIN_COLL_SYMMETRIC) return ncclInvalidArgument;
                     return add_window(r, c, data, bytes, to, lock);
                   });
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t handle, ncclWindow_t what) {
  return nccl_call("ncclCommWindowDeregister", handle, nccl_when::settled,
                   [&](runtime& r, host_thread&, communicator& c, runtime_lock&) {
                     return remove(r, c, what, true, "ncclCommWindowDeregister");
                   });
}

}  // extern "C"
