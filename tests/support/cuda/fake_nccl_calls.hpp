// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>

#include "support/cuda/fake_nccl.hpp"
#include "support/cuda/fake_runtime.hpp"

namespace cleave::testing::fake {

/// Marks that a thread is inside a call of a communicator; a second thread that enters is reported.
class nccl_caller {
 public:
  nccl_caller(void const* handle, std::string_view function);
  ~nccl_caller();
  nccl_caller(nccl_caller const&) = delete;
  nccl_caller& operator=(nccl_caller const&) = delete;

 private:
  void const* handle_;
  bool entered_ = false;
};

/// The states of a communicator in which a call is allowed.
enum class nccl_when { always, settled };

std::shared_ptr<communicator> find_communicator(runtime& r, host_thread& t, ncclComm_t handle,
                                                std::string const& function, nccl_when when);

/// Runs a call of one communicator: `f(runtime, thread, communicator, lock)`.
template <class F>
ncclResult_t nccl_call(std::string const& function, ncclComm_t handle, nccl_when when, F f) {
  nccl_caller const inside(handle, function);
  auto& r = runtime::here();
  runtime_lock lock(r.mutex);
  if (auto const code = r.injected(function)) return static_cast<ncclResult_t>(*code);
  auto& t = r.thread();
  auto const c = find_communicator(r, t, handle, function, when);
  return c ? f(r, t, *c, lock) : ncclInvalidArgument;
}

/// Returns the calling thread's last error for calls without a communicator.
std::string& last_nccl_error();

}  // namespace cleave::testing::fake
