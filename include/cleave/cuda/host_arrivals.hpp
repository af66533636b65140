// SPDX-License-Identifier: MIT
#pragma once
#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/cuda/check.hpp"
#include "cleave/cuda/memory.hpp"
#include "cleave/cuda/resources.hpp"

namespace cleave::detail {

/// Few bytes of a GPU that go to ordinary memory of the host, in the order of a stream and without a wait:
/// shapes, and numbers. CUDA's own copy there would wait on the host for all that the stream does before.
/// Used by one thread.
class host_arrivals {
 public:
  static constexpr std::size_t most_bytes = 4096;

  explicit host_arrivals(std::shared_ptr<cuda_resources> of) : of_(std::move(of)) {}
  host_arrivals(host_arrivals&&) = default;
  host_arrivals& operator=(host_arrivals&&) = default;
  /// What has not arrived never will.
  ~host_arrivals() {
    for (auto const& l : landings_) l->close();
  }

  /// Precondition: `most_bytes` at most. \throws cuda_error
  void copy(cudaStream_t s, void* to, void const* from, std::size_t bytes) {
    expects(bytes <= most_bytes, "host_arrivals: few bytes");
    auto const& l = free_landing();
    check_cuda(cudaMemcpyAsync(l->room.data(), from, bytes, cudaMemcpyDefault, s), "cudaMemcpyAsync");
    l->begin(to, bytes, l);
    auto const e = cudaLaunchHostFunc(s, &landing::arrive, l.get());
    if (e != cudaSuccess) l->close(), l->self.reset();
    check_cuda(e, "cudaLaunchHostFunc");
  }

 private:
  struct landing {
    explicit landing(std::shared_ptr<cuda_resources> const& of) : room(of, most_bytes) {}

    void begin(void* where, std::size_t n, std::shared_ptr<landing> here) {
      std::lock_guard lock(mutex);
      to = where;
      bytes = n;
      self = std::move(here);
      busy.store(true, std::memory_order_relaxed);
    }
    void close() {
      std::lock_guard lock(mutex);
      to = nullptr;
    }
    static void arrive(void* which) {
      auto& l = *static_cast<landing*>(which);
      std::shared_ptr<landing> until_unlocked;
      std::lock_guard lock(l.mutex);
      until_unlocked = std::move(l.self);
      if (l.to) std::memcpy(l.to, l.room.data(), l.bytes);
      l.busy.store(false, std::memory_order_release);
    }

    pinned_buffer room;
    std::mutex mutex;
    void* to = nullptr;
    std::size_t bytes = 0;
    std::atomic<bool> busy = false;
    std::shared_ptr<landing> self;  // while a stream may use it
  };

  std::shared_ptr<landing> const& free_landing() {
    for (std::size_t turn = 0; turn < landings_.size(); ++turn) {
      next_ = (next_ + 1) % landings_.size();
      if (!landings_[next_]->busy.load(std::memory_order_acquire)) return landings_[next_];
    }
    return landings_.emplace_back(std::make_shared<landing>(of_));
  }

  std::shared_ptr<cuda_resources> of_;
  std::vector<std::shared_ptr<landing>> landings_;
  std::size_t next_ = 0;
};

}  // namespace cleave::detail
