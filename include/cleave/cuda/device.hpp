// SPDX-License-Identifier: MIT
#pragma once
#include <cuda_runtime_api.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "cleave/cuda/check.hpp"
#include "cleave/cuda/event.hpp"
#include "cleave/cuda/host_arrivals.hpp"
#include "cleave/cuda/memory.hpp"
#include "cleave/cuda/recording.hpp"
#include "cleave/cuda/resources.hpp"
#include "cleave/cuda/stream.hpp"
#include "cleave/cuda/sums.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/recording.hpp"
#include "cleave/run/sums/sum_table.hpp"

namespace cleave {

struct cuda_options {
  int device = 0;  ///< of those that CUDA lists
  /// Whether events know when they happened; without, they cost less, and there are no times.
  enum class timing : std::uint8_t { on, off } timing = timing::on;
  /// How long a stream that is destroyed may take to end what was issued, and the device what it waits for.
  std::chrono::milliseconds drain_within{5000};
  cuda_checks checks = cuda_checks::none;
};

/// Why the GPU that is asked for cannot be used, with what to do about it; or nothing.
inline std::optional<detail::cuda_error> find_cuda_device_fault(int device) {
  int count = 0;
  if (auto const e = cudaGetDeviceCount(&count); e != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return detail::cuda_error(detail::cuda_text("cudaGetDeviceCount", e), e);
  }
  if (device >= 0 && device < count) return std::nullopt;
  return detail::cuda_error("there is no GPU " + std::to_string(device) + ", only " + std::to_string(count) +
                        ", counted from 0; CUDA_VISIBLE_DEVICES may hide some",
                    cudaErrorInvalidDevice);
}

/// A GPU, as the thread of one rank uses it: work runs beside that thread, in streams. Several ranks may have
/// the same GPU, each by a device of its own.
///
/// Whoever uses it has its GPU as the current one, by `use` or `scope`; making it leaves the current GPU of
/// the thread as it is.
class cuda_device {
 public:
  using stream = detail::cuda_stream;
  using event = detail::cuda_event;
  using buffer = cuda_buffer;
  using sums = detail::cuda_sums;
  using recording = detail::cuda_recording;

  /// \throws cuda_error that says what is missing, and what to do
  explicit cuda_device(cuda_options const& options = {}) : options_(options) {
    if (auto const f = find_cuda_device_fault(options.device)) throw *f;
    detail::cuda_scope const here(options.device);
    int processors = 0;
    check_cuda(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, options.device),
               "cudaDeviceGetAttribute");
    processors_ = static_cast<std::uint32_t>(processors);
    unsigned const flags =
        options.timing == cuda_options::timing::on ? cudaEventDefault : cudaEventDisableTiming;
    resources_ =
        std::make_shared<cuda_resources>(options.device, flags, options.drain_within, options.checks);
    own_.emplace(resources_, 0);
    arrivals_.emplace(resources_);
  }

  int number() const { return options_.device; }
  std::uint32_t processors() const { return processors_; }
  /// What memory and streams share that are made beside it.
  std::shared_ptr<cuda_resources> const& resources() const { return resources_; }

  /// The calling thread uses this GPU from now on. \throws cuda_error, as all that follow
  void use() const { check_cuda(cudaSetDevice(options_.device), "cudaSetDevice"); }
  /// The same while what it returns lives.
  [[nodiscard]] detail::cuda_scope scope() const { return detail::cuda_scope(options_.device); }

  stream make_stream(int priority) { return {resources_, priority}; }
  event make_event() { return event(resources_); }
  void record(event& e, stream& s) { e.record(s); }
  /// Waits, if at all, for another rank of this process that has not issued a transfer yet.
  void wait(stream& s, event const& e) { e.hold_back(s); }
  bool query(event const& e) const { return e.happened(); }
  /// Nothing where events have no times.
  std::chrono::nanoseconds elapsed(event const& from, event const& to) const {
    return resources_->has_timing() ? to.since(from) : std::chrono::nanoseconds(0);
  }

  /// `n` bytes of 0xff, so that a floating-point number that nobody has written is a NaN.
  buffer allocate(std::size_t n) {
    detail::cuda_scope const here(number());
    buffer b(resources_, n);
    if (n > 0) check_cuda(cudaMemsetAsync(b.data(), 0xff, n, own_->handle()), "cudaMemsetAsync");
    check_cuda(cudaStreamSynchronize(own_->handle()), "cudaStreamSynchronize");
    return b;
  }
  /// Memory of the host that copies beside the processor are made from and to.
  detail::pinned_buffer allocate_pinned(std::size_t n) { return {resources_, n}; }

  /// From anywhere to anywhere; it never waits where one end is memory of a GPU and the other is that, or
  /// pinned, or few bytes.
  void copy(stream& s, void* to, void const* from, std::size_t n) {
    if (n == 0) return;
    if (n <= detail::host_arrivals::most_bytes && is_pageable(to)) return arrivals_->copy(s.handle(), to, from, n);
    check_cuda(cudaMemcpyAsync(to, from, n, cudaMemcpyDefault, s.handle()), "cudaMemcpyAsync");
  }

  /// \throws sums_error too
  sums make_sums(std::span<region_pair const> pairs) { return {resources_, detail::make_sum_table(pairs), *own_}; }
  void accumulate(stream& s, sums const& list, accumulate_options const& o) { list.issue(s, o, processors_); }

  /// What it needs is made once for the same regions. \throws run_error too, where that takes longer than
  /// streams may take to end
  double sum_of_squares(std::span<region const> regions) {
    detail::cuda_scope const here(number());
    if (!squares_ || !squares_->is_of(regions)) squares_.emplace(resources_, regions, *own_);
    squares_->issue(*own_, processors_);
    event ended(resources_);
    ended.record(*own_);
    wait_on_host(ended);
    return squares_->sum();
  }

  /// As graphs: what NCCL launches meanwhile, from threads of its own, is part of it.
  void begin_recording(stream& s) {
    check_cuda(cudaStreamBeginCapture(s.handle(), cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
    resources_->begin_recording();
  }
  recording end_recording(stream& s) {
    auto const number = resources_->recording();
    resources_->end_recording();
    cudaGraph_t captured = nullptr;
    check_cuda(cudaStreamEndCapture(s.handle(), &captured), "cudaStreamEndCapture");
    return {resources_, captured, number};
  }
  void drop_recording(stream& s) noexcept {
    resources_->end_recording();
    cudaGraph_t captured = nullptr;
    if (cudaStreamEndCapture(s.handle(), &captured) == cudaSuccess)
      static_cast<void>(cudaGraphDestroy(captured));
    else
      static_cast<void>(cudaGetLastError());  // or the next launch would be blamed for it
  }
  void replay(recording const& r, stream& s) { r.launch(s); }

  /// Waits until all its streams have ended what was issued, `drain_within` at most; whether they have. If
  /// not, nothing of it is freed any more: neither memory nor streams, for a stream may still use it. After a
  /// failure every rank does so before any gives memory back that others may copy from or to.
  bool drain() noexcept { return resources_->drain(); }
  /// The same without waiting: nothing of it is freed from now on.
  void keep() noexcept { resources_->keep(); }

 private:
  static bool is_pageable(void const* p) {
    cudaPointerAttributes of = {};
    check_cuda(cudaPointerGetAttributes(&of, p), "cudaPointerGetAttributes");
    return of.type == cudaMemoryTypeUnregistered;
  }

  void wait_on_host(event const& e) {
    auto const until = std::chrono::steady_clock::now() + options_.drain_within;
    for (int turn = 0; !e.happened(); ++turn) {
      if (turn > 1000) std::this_thread::sleep_for(std::chrono::microseconds(50));
      if (std::chrono::steady_clock::now() < until) continue;
      resources_->keep();
      throw run_error({.code = failure_code::timeout,
                       .detail = "GPU " + std::to_string(number()) +
                                 " has not ended a sum of squares within " +
                                 std::to_string(options_.drain_within.count()) + " ms"});
    }
  }

  cuda_options options_;
  std::uint32_t processors_ = 0;
  std::shared_ptr<cuda_resources> resources_;
  std::optional<detail::host_arrivals> arrivals_;
  std::optional<detail::cuda_squares> squares_;
  std::optional<detail::cuda_stream> own_;  // last: it ends before what it uses
};

static_assert(measuring_device<cuda_device> && detail::recording_device<cuda_device>);
}  // namespace cleave
