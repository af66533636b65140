// SPDX-License-Identifier: MIT
#pragma once
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>
#include <memory>
#include <utility>

#include "cleave/core/error.hpp"
#include "cleave/cuda/nccl_rank.hpp"
#include "cleave/cuda/resources.hpp"
#include "cleave/run/model/tensor_view.hpp"

namespace cleave::inline v0_2::detail {

/// The ways to register memory that this version of NCCL has.
inline constexpr bool nccl_has_buffers = NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 1);
inline constexpr bool nccl_has_windows = NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 3);

/// Checks that NCCL has what the options ask for.
/// \throws error
inline void require_registration(cuda::nccl_registrations wanted) {
  using enum cuda::nccl_registrations;
  if (wanted == buffers && !nccl_has_buffers)
    throw error("cuda::nccl_registrations::buffers needs NCCL 2.19.1 or newer when the program is compiled");
  if (wanted == windows && !nccl_has_windows)
    throw error("cuda::nccl_registrations::windows needs NCCL 2.27.3 or newer when the program is compiled");
}

/// Makes a device take its memory from NCCL, which can then share it with other GPUs. Memory that is
/// allocated already stays as it is.
inline void take_memory_from_nccl([[maybe_unused]] cuda::resources& of) {
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 1)
  of.allocate_with({.name = "ncclMemAlloc",
                    .allocate =
                        [](void** to, std::size_t bytes) {
                          if (ncclMemAlloc(to, bytes) == ncclSuccess) return cudaSuccess;
                          auto const e = cudaGetLastError();
                          return e == cudaSuccess ? cudaErrorMemoryAllocation : e;
                        },
                    .free = [](void* p) { static_cast<void>(ncclMemFree(p)); }});
#endif
}

/// Memory that is registered with a communicator. The destructor ends the registration, unless the
/// communicator has ended, which ends it too. The memory and the rank must outlive it.
class nccl_registration {
 public:
  nccl_registration() = default;
  nccl_registration(nccl_registration&& other) noexcept
      : of_(std::exchange(other.of_, nullptr)), buffer_(other.buffer_), window_(other.window_) {}
  nccl_registration& operator=(nccl_registration&& other) noexcept {
    std::swap(of_, other.of_);
    std::swap(buffer_, other.buffer_);
    std::swap(window_, other.window_);
    return *this;
  }
  ~nccl_registration() {
    if (!of_ || !of_->handle) return;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 1)
    if (buffer_) static_cast<void>(ncclCommDeregister(of_->handle, buffer_));
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 3)
    if (window_) static_cast<void>(ncclCommWindowDeregister(of_->handle, static_cast<ncclWindow_t>(window_)));
#endif
  }

  /// Registers memory of this rank alone.
  /// \throws run_error
  static nccl_registration of_buffer([[maybe_unused]] nccl_rank& rank, nccl_slot const& of,
                                     [[maybe_unused]] region const& r) {
    nccl_registration made(of);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 1)
    rank.check("ncclCommRegister", ncclCommRegister(of.handle, r.data, r.bytes(), &made.buffer_), of.handle);
#endif
    return made;
  }
  /// Registers memory that has the same size on all ranks, and that NCCL has allocated. Collective.
  /// \throws run_error
  static nccl_registration of_window([[maybe_unused]] nccl_rank& rank, nccl_slot const& of,
                                     [[maybe_unused]] region const& r) {
    nccl_registration made(of);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 3)
    auto const window = std::make_shared<ncclWindow_t>(nullptr);  // NCCL may still write it after a failure
    rank.connecting_group(of, [&rank, &of, r, window] {
      rank.check("ncclCommWindowRegister",
                 ncclCommWindowRegister(of.handle, r.data, r.bytes(), window.get(), NCCL_WIN_COLL_SYMMETRIC),
                 of.handle);
    });
    made.window_ = *window;  // null where the GPUs cannot reach each other's memory
#endif
    return made;
  }

 private:
  explicit nccl_registration(nccl_slot const& of) : of_(&of) {}

  nccl_slot const* of_ = nullptr;
  void *buffer_ = nullptr, *window_ = nullptr;
};

}  // namespace cleave::detail
