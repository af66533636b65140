// SPDX-License-Identifier: MIT
#pragma once
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/cuda/resources.hpp"

namespace cleave::inline v0_2::detail {

/// Returns a text for messages: `the memory of GPU 0 (1048576 of 84986691584 bytes are free)`.
inline std::string cuda_room_text(int device) {
  std::size_t free = 0, all = 0;
  auto text = "the memory of GPU " + std::to_string(device);
  if (cudaMemGetInfo(&free, &all) == cudaSuccess)
    text += " (" + std::to_string(free) + " of " + std::to_string(all) + " bytes are free)";
  return text;
}

/// Checks the result `e` of the allocation function `call`.
/// \throws cuda_error if it is not success, with the requested size and the available memory
inline void check_room(cudaError_t e, char const* call, std::size_t bytes, std::string const& where) {
  if (e != cudaErrorMemoryAllocation) return cuda::check(e, call);
  static_cast<void>(cudaGetLastError());
  throw cuda_error(
      "cannot allocate " + std::to_string(bytes) + " bytes in " + where + "; " + cuda_text(call, e), e);
}

}  // namespace cleave::detail

namespace cleave::inline v0_2::cuda {

/// A buffer of GPU memory or pinned host memory. Not freed once its device keeps everything
/// (`resources::keep`).
template <class Kind>
class basic_buffer {
 public:
  basic_buffer() = default;
  /// \throws cuda_error that says how much memory is free
  basic_buffer(std::shared_ptr<cuda::resources> of, std::size_t bytes) : of_(std::move(of)), size_(bytes) {
    detail::cuda_scope const here(of_->device());
    free_ = Kind::allocate(&bytes_, std::max<std::size_t>(bytes, 1), *of_);
  }
  basic_buffer(basic_buffer&& other) noexcept
      : of_(std::move(other.of_)),
        bytes_(std::exchange(other.bytes_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        free_(other.free_) {}
  basic_buffer& operator=(basic_buffer&& other) noexcept {
    std::swap(of_, other.of_);
    std::swap(bytes_, other.bytes_);
    std::swap(size_, other.size_);
    std::swap(free_, other.free_);
    return *this;
  }
  ~basic_buffer() {
    if (bytes_ && !of_->is_kept()) free_(bytes_);
  }

  void* data() const { return bytes_; }
  std::size_t size() const { return size_; }

 private:
  std::shared_ptr<cuda::resources> of_;
  void* bytes_ = nullptr;
  std::size_t size_ = 0;
  void (*free_)(void*) = nullptr;
};

/// The kinds return the function that frees their memory.
struct memory_kind {
  static auto allocate(void** to, std::size_t bytes, cuda::resources const& of) {
    auto const with = of.allocator();
    auto const e = with.allocate(to, bytes);
    detail::check_room(e, with.name, bytes,
                       e == cudaErrorMemoryAllocation ? detail::cuda_room_text(of.device()) : "");
    return with.free;
  }
};

}  // namespace cleave::cuda

namespace cleave::inline v0_2::detail {

struct cuda_pinned_kind {
  static auto allocate(void** to, std::size_t bytes, cuda::resources const& /*of*/) {
    check_room(cudaHostAlloc(to, bytes, cudaHostAllocPortable), "cudaHostAlloc", bytes, "pinned host memory");
    return [](void* p) { static_cast<void>(cudaFreeHost(p)); };
  }
};

}  // namespace cleave::detail

namespace cleave::inline v0_2::cuda {

using buffer = basic_buffer<cuda::memory_kind>;

}  // namespace cleave::cuda

namespace cleave::inline v0_2::detail {

using pinned_buffer = cuda::basic_buffer<cuda_pinned_kind>;

}  // namespace cleave::detail

namespace cleave::inline v0_2::cuda {

/// A stream-ordered allocator of GPU memory for stages. Taking and giving back memory does not wait for the
/// GPU, and freed memory is reused without a driver call. Meant for few pieces at a time. Pieces that are
/// still taken are freed by the destructor. Pieces that a recorded step takes and does not give back are
/// allocated again, at the same address, in each replay.
class step_memory {
 public:
  /// Makes a memory pool on the GPU.
  /// \throws cuda_error
  explicit step_memory(std::shared_ptr<cuda::resources> of) : of_(std::move(of)) {
    cudaMemPoolProps wanted = {};
    wanted.allocType = cudaMemAllocationTypePinned;
    wanted.location.type = cudaMemLocationTypeDevice;
    wanted.location.id = of_->device();
    check(cudaMemPoolCreate(&pool_, &wanted), "cudaMemPoolCreate");
    auto all = (std::numeric_limits<std::uint64_t>::max)();
    auto const e = cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &all);
    if (e != cudaSuccess) end();
    check(e, "cudaMemPoolSetAttribute");
  }
  step_memory(cuda::step_memory&& other) noexcept
      : of_(std::move(other.of_)),
        pool_(std::exchange(other.pool_, nullptr)),
        taken_(std::move(other.taken_)) {}
  cuda::step_memory& operator=(cuda::step_memory&& other) noexcept {
    std::swap(of_, other.of_);
    std::swap(pool_, other.pool_);
    std::swap(taken_, other.taken_);
    return *this;
  }
  ~step_memory() { end(); }

  /// Allocates `bytes` bytes, usable by all work issued to `s` from now on.
  /// \throws cuda_error that says how much memory is free
  void* take(cudaStream_t s, std::size_t bytes) {
    taken_.reserve(taken_.size() + 1);
    void* p = nullptr;
    auto const n = std::max<std::size_t>(bytes, 1);
    auto const e = cudaMallocFromPoolAsync(&p, n, pool_, s);
    detail::check_room(e, "cudaMallocFromPoolAsync", n,
                       e == cudaErrorMemoryAllocation ? detail::cuda_room_text(of_->device()) : "");
    taken_.push_back({p, of_->recording()});
    return p;
  }
  /// Frees memory after all work issued to `s` so far. Precondition: `p` was returned by `take` and not given
  /// back.
  /// \throws cuda_error
  void give_back(cudaStream_t s, void* p) {
    expects(std::erase_if(taken_, [p](piece const& t) { return t.at == p; }) == 1,
            "cuda::step_memory: memory that was taken here");
    check(cudaFreeAsync(p, s), "cudaFreeAsync");
  }

 private:
  struct piece {
    void* at;
    std::uint64_t recording;  // in which it was taken; 0: none
  };

  void end() noexcept {
    if (!pool_ || of_->is_kept()) return;
    for (auto const& t : taken_)
      if (t.recording == 0 || of_->was_launched(t.recording)) static_cast<void>(cudaFree(t.at));
    static_cast<void>(cudaMemPoolDestroy(pool_));
  }

  std::shared_ptr<cuda::resources> of_;
  cudaMemPool_t pool_ = nullptr;
  std::vector<piece> taken_;
};

}  // namespace cleave::cuda
