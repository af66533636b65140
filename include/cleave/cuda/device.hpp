// SPDX-License-Identifier: MIT
#pragma once
#include <cuda_runtime_api.h>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/cuda/check.hpp"
#include "cleave/cuda/detail/event.hpp"
#include "cleave/cuda/detail/kernels.hpp"
#include "cleave/cuda/detail/stream.hpp"
#include "cleave/cuda/memory.hpp"
#include "cleave/cuda/resources.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/recording.hpp"
#include "cleave/run/model/update.hpp"
#include "cleave/run/sums/sum_in_order.hpp"
#include "cleave/run/sums/sum_of_squares.hpp"

namespace cleave::inline v0_2::detail {

/// Elements that are not aligned to their size, as a GPU requires: the address is `beyond` bytes past a
/// multiple.
struct misplaced_elements {
  static constexpr char subject[] = "sums: ";
  element_type type;
  std::uint64_t count;
  std::size_t beyond;

  bool operator==(misplaced_elements const&) const = default;
};

/// Returns the first misaligned region of a table, or nothing. O(segments).
inline std::optional<misplaced_elements> find_misplaced_elements(sum_table const& table) {
  auto const beyond = [](void const* p, element_type t) {
    return static_cast<std::size_t>(reinterpret_cast<std::uintptr_t>(p) % size_of(t));
  };
  for (auto const& run : table.runs)
    for (auto const& s : std::span(table.segments).subspan(run.first_segment, run.segments)) {
      if (auto const b = beyond(s.from, run.from)) return misplaced_elements{run.from, s.count, b};
      if (auto const b = beyond(s.to, run.to)) return misplaced_elements{run.to, s.count, b};
    }
  return std::nullopt;
}

inline std::string describe(misplaced_elements const& m) {
  return "a region of " + std::to_string(m.count) + " elements of " + std::string(name_of(m.type)) +
         " begins " + std::to_string(m.beyond) +
         " bytes after a multiple of the element size, but GPU accesses must be aligned; align the region";
}

using misplaced_elements_error = fault_error<misplaced_elements>;

/// A list of additions whose table is in GPU memory.
class cuda_sums {
 public:
  /// Uploads the table and waits for the copy.
  /// \throws misplaced_elements_error if a region is misaligned; cuda_error
  cuda_sums(std::shared_ptr<cuda::resources> const& of, sum_table const& table, cuda_stream const& uploading)
      : runs_(table.runs) {
    if (auto const m = find_misplaced_elements(table)) throw misplaced_elements_error(*m);
    auto const all = std::as_bytes(std::span(table.segments));
    segments_ = cuda::buffer(of, all.size());
    if (all.empty()) return;
    cuda::check(
        cudaMemcpyAsync(segments_.data(), all.data(), all.size(), cudaMemcpyHostToDevice, uploading.handle()),
        "cudaMemcpyAsync");
    cuda::check(cudaStreamSynchronize(uploading.handle()), "cudaStreamSynchronize");
  }

  sum_segment const* segments() const { return static_cast<sum_segment const*>(segments_.data()); }
  std::span<sum_run const> runs() const { return runs_; }
  std::uint64_t tiles() const {
    std::uint64_t all = 0;
    for (auto const& r : runs_) all += r.tiles;
    return all;
  }

  /// Launches one kernel per run.
  /// \throws cuda_error
  void issue(cuda_stream const& s, accumulate_options const& o, std::uint32_t processors) const {
    for (auto const& r : runs_) launch_sums(s.handle(), segments(), r, o, processors);
    check_launch("launch of sums");
  }

 private:
  cuda::buffer segments_;
  std::vector<sum_run> runs_;
};

/// The sum of squares of some regions, for gradient norms. The order of additions is that of the host.
class cuda_squares {
 public:
  /// Uploads the table, as in `cuda_sums`.
  cuda_squares(std::shared_ptr<cuda::resources> const& of, std::span<region const> regions,
               cuda_stream const& uploading)
      : regions_(regions.begin(), regions.end()),
        terms_(of, make_squares_table(regions), uploading),
        partials_(of, (terms_.tiles() + 1) * sizeof(double)),
        sum_(of, sizeof(double)) {}

  bool is_of(std::span<region const> regions) const { return std::ranges::equal(regions, regions_); }

  /// Issues the computation.
  /// \throws cuda_error
  void issue(cuda_stream const& s, std::uint32_t processors) const {
    auto* at = static_cast<double*>(partials_.data());
    for (auto const& r : terms_.runs()) {
      launch_squares(s.handle(), terms_.segments(), r, at, processors);
      at += r.tiles;
    }
    launch_sum_of_partials(s.handle(), static_cast<double*>(partials_.data()), terms_.tiles(),
                           sum_on_device());
    check_launch("launch of a sum of squares");
  }
  /// Issues a copy of the result to the host.
  /// \throws cuda_error
  void issue_copy(cuda_stream const& s) const {
    cuda::check(
        cudaMemcpyAsync(sum_.data(), sum_on_device(), sizeof(double), cudaMemcpyDeviceToHost, s.handle()),
        "cudaMemcpyAsync");
  }
  double* sum_on_device() const { return static_cast<double*>(partials_.data()) + terms_.tiles(); }
  /// Returns the sum of squares. Precondition: the last issued copy has ended.
  double sum() const { return *static_cast<double const*>(sum_.data()); }

 private:
  std::vector<region> regions_;
  cuda_sums terms_;
  cuda::buffer partials_;
  pinned_buffer sum_;
};

/// The norm of some gradients and the optimiser step for it, in GPU memory.
class cuda_norm {
 public:
  /// Uploads the tables, as in `cuda_sums`.
  cuda_norm(std::shared_ptr<cuda::resources> const& of, std::span<region const> regions,
            cuda_stream const& uploading)
      : squares_(of, regions, uploading),
        options_(of, sizeof(update_options)),
        made_(of, sizeof(device_update)),
        told_(of, sizeof(update_options)),
        report_(of, sizeof(device_update)) {}

  region squares() const { return {squares_.sum_on_device(), 1, element_type::f64}; }
  device_update const* update() const { return static_cast<device_update const*>(made_.data()); }
  /// Returns the step. Precondition: the last issued work has ended.
  update_report report() const {
    auto const& made = *static_cast<device_update const*>(report_.data());
    return {made.norm, made.applied != 0};
  }

  /// Issues a copy of options to the GPU. Precondition: the last copy has ended.
  /// \throws cuda_error
  void set_options(cuda_stream const& s, update_options const& o) {
    std::memcpy(told_.data(), &o, sizeof o);
    cuda::check(cudaMemcpyAsync(options_.data(), told_.data(), sizeof o, cudaMemcpyHostToDevice, s.handle()),
                "cudaMemcpyAsync");
  }
  void issue_squares(cuda_stream const& s, std::uint32_t processors) const { squares_.issue(s, processors); }
  /// Issues the step and a copy of it to the host.
  /// \throws cuda_error
  void issue_update(cuda_stream const& s) const {
    launch_update(s.handle(), squares_.sum_on_device(), static_cast<update_options const*>(options_.data()),
                  static_cast<device_update*>(made_.data()));
    check_launch("launch of an update");
    cuda::check(cudaMemcpyAsync(report_.data(), made_.data(), sizeof(device_update), cudaMemcpyDeviceToHost,
                                s.handle()),
                "cudaMemcpyAsync");
  }

 private:
  cuda_squares squares_;
  cuda::buffer options_, made_;
  pinned_buffer told_, report_;
};

/// Copies small data (shapes and numbers) from a GPU to pageable host memory, in stream order and without
/// blocking. CUDA's own copy to pageable memory would block the host until all earlier work of the stream has
/// ended. Used by one thread.
class host_arrivals {
 public:
  static constexpr std::size_t most_bytes = 4096;

  explicit host_arrivals(std::shared_ptr<cuda::resources> of) : of_(std::move(of)) {
    left_ones().free_ended();
  }
  host_arrivals(host_arrivals&&) = default;
  host_arrivals& operator=(host_arrivals&& other) noexcept {
    std::swap(of_, other.of_);
    std::swap(landings_, other.landings_);
    std::swap(next_, other.next_);
    return *this;
  }
  /// Copies that have not arrived are dropped.
  ~host_arrivals() { left_ones().take(landings_); }

  /// Issues the copy of `bytes` bytes. Precondition: `bytes` is at most `most_bytes`.
  /// \throws cuda_error
  void copy(cudaStream_t s, void* to, void const* from, std::size_t bytes) {
    expects(bytes <= most_bytes, "host_arrivals: at most most_bytes");
    auto* const l = free_landing();
    cuda::check(cudaMemcpyAsync(l->room.data(), from, bytes, cudaMemcpyDefault, s), "cudaMemcpyAsync");
    l->begin(to, bytes);
    auto const e = cudaLaunchHostFunc(s, &landing::arrive, l);
    if (e != cudaSuccess) l->busy.store(false);
    cuda::check(e, "cudaLaunchHostFunc");
  }

 private:
  struct landing {
    explicit landing(std::shared_ptr<cuda::resources> const& of) : room(of, most_bytes) {}

    void begin(void* where, std::size_t n) {
      std::lock_guard lock(mutex);
      to = where;
      bytes = n;
      busy.store(true, std::memory_order_relaxed);
    }
    void close() {
      std::lock_guard lock(mutex);
      to = nullptr;
    }
    /// Called by CUDA, so it makes no call of CUDA.
    static void arrive(void* which) {
      auto& l = *static_cast<landing*>(which);
      {
        std::lock_guard lock(l.mutex);
        if (l.to) std::memcpy(l.to, l.room.data(), l.bytes);
      }
      l.busy.store(false, std::memory_order_release);  // from now on it may be freed
    }

    pinned_buffer room;
    std::mutex mutex;
    void* to = nullptr;
    std::size_t bytes = 0;
    std::atomic<bool> busy = false;
  };
  using landings = std::vector<std::unique_ptr<landing>>;

  /// Landings whose owners are gone while a stream still uses them. CUDA must not be called to free them
  /// where it tells that they have ended, so that is done later.
  class left_landings {
   public:
    void take(landings& all) noexcept {
      std::lock_guard lock(mutex_);
      for (auto& l : all) {
        l->close();
        if (l->busy.load(std::memory_order_acquire)) left_.push_back(std::move(l));
      }
      all.clear();
      std::erase_if(left_, has_ended);
    }
    void free_ended() noexcept {
      std::lock_guard lock(mutex_);
      std::erase_if(left_, has_ended);
    }

   private:
    static bool has_ended(std::unique_ptr<landing> const& l) {
      return !l->busy.load(std::memory_order_acquire);
    }

    std::mutex mutex_;
    landings left_;
  };
  static left_landings& left_ones() {
    static auto* const all = new left_landings;  // streams may outlive all static objects
    return *all;
  }

  landing* free_landing() {
    for (std::size_t turn = 0; turn < landings_.size(); ++turn) {
      next_ = (next_ + 1) % landings_.size();
      if (!landings_[next_]->busy.load(std::memory_order_acquire)) return landings_[next_].get();
    }
    return landings_.emplace_back(std::make_unique<landing>(of_)).get();
  }

  std::shared_ptr<cuda::resources> of_;
  landings landings_;
  std::size_t next_ = 0;
};

/// A recording of issued work as a CUDA graph, which can be launched any number of times. Memory that the
/// graph allocates and does not free is freed at the next launch. Not destroyed once its device keeps
/// everything (`resources::keep`).
class cuda_recording {
 public:
  /// Instantiates a captured graph and destroys it. `number` is the number of the recording.
  /// \throws cuda_error
  cuda_recording(std::shared_ptr<cuda::resources> of, cudaGraph_t captured, std::uint64_t number)
      : of_(std::move(of)), number_(number) {
    auto const e = cudaGraphInstantiateWithFlags(
        &handle_, captured,
        cudaGraphInstantiateFlagUseNodePriority | cudaGraphInstantiateFlagAutoFreeOnLaunch);
    static_cast<void>(cudaGraphDestroy(captured));
    cuda::check(e, "cudaGraphInstantiateWithFlags");
  }
  cuda_recording(cuda_recording&& other) noexcept
      : of_(std::move(other.of_)), handle_(std::exchange(other.handle_, nullptr)), number_(other.number_) {}
  cuda_recording& operator=(cuda_recording&& other) noexcept {
    std::swap(of_, other.of_);
    std::swap(handle_, other.handle_);
    std::swap(number_, other.number_);
    return *this;
  }
  ~cuda_recording() {
    if (handle_ && !of_->is_kept()) static_cast<void>(cudaGraphExecDestroy(handle_));
  }

  /// Launches the graph after all work issued to `s`.
  /// \throws cuda_error
  void launch(cuda_stream const& s) const {
    cuda::check(cudaGraphLaunch(handle_, s.handle()), "cudaGraphLaunch");
    of_->note_launch(number_);
  }

 private:
  std::shared_ptr<cuda::resources> of_;
  cudaGraphExec_t handle_ = nullptr;
  std::uint64_t number_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2::cuda {

/// Options of a `cuda::device`.
struct options {
  int device = 0;  ///< number in CUDA's list of devices
  /// Determines whether events record times. Without them events are cheaper, and all measured times are 0.
  enum class timing : std::uint8_t { on, off } timing = timing::on;
  /// Time limit for a destroyed stream to finish its work, and for waits of the device itself.
  std::chrono::milliseconds drain_within{5000};
  cuda::checks checks = cuda::checks::none;
  /// A stream of the caller on this GPU, for all passes and updates, in the order of the calls. It stays the
  /// caller's: it is not destroyed, and must outlive the device. Null: the device makes its own. Not a
  /// default stream of CUDA.
  cudaStream_t passes = nullptr;
};

/// Returns why GPU `device` cannot be used, with advice, or nothing.
inline std::optional<detail::cuda_error> find_device_fault(int device) {
  int count = 0;
  if (auto const e = cudaGetDeviceCount(&count); e != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return detail::cuda_error(detail::cuda_text("cudaGetDeviceCount", e), e);
  }
  if (device >= 0 && device < count) return std::nullopt;
  return detail::cuda_error("there is no GPU " + std::to_string(device) + ", only " + std::to_string(count) +
                                " GPUs, counted from 0; CUDA_VISIBLE_DEVICES may hide some",
                            cudaErrorInvalidDevice);
}

/// A GPU as used by the thread of one rank. Work runs asynchronously in streams. Several ranks may use the
/// same GPU, each with a device object of its own.
///
/// The calling thread must have this GPU as its current one, by `use` or `scope`. The constructor leaves the
/// current GPU of the thread unchanged.
class device {
 public:
  using stream = detail::cuda_stream;
  using event = detail::cuda_event;
  using buffer = cuda::buffer;
  using sums = detail::cuda_sums;
  using recording = detail::cuda_recording;
  using norm = detail::cuda_norm;

  /// \throws cuda_error that says what is missing, and how to fix it
  explicit device(cuda::options const& options = {}) : options_(options) {
    if (auto const f = find_device_fault(options.device)) throw *f;
    if (options.passes == cudaStreamLegacy || options.passes == cudaStreamPerThread)
      throw error(
          "cuda::options::passes is a default stream of CUDA; make one with cudaStreamCreateWithFlags "
          "and cudaStreamNonBlocking");
    detail::cuda_scope const here(options.device);
    int processors = 0;
    check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, options.device),
          "cudaDeviceGetAttribute");
    processors_ = static_cast<std::uint32_t>(processors);
    unsigned const flags =
        options.timing == cuda::options::timing::on ? cudaEventDefault : cudaEventDisableTiming;
    resources_ = std::make_shared<cuda::resources>(options.device, flags, options.drain_within,
                                                   options.checks, options.passes);
    own_.emplace(resources_, own_priority);
    arrivals_.emplace(resources_);
  }

  int number() const { return options_.device; }
  std::uint32_t processors() const { return processors_; }
  /// Returns the state that streams, events and memory of this device share.
  std::shared_ptr<cuda::resources> const& resources() const { return resources_; }

  /// Makes this GPU the current one of the calling thread. This and the following functions throw cuda_error,
  /// unless they are noexcept.
  void use() const { check(cudaSetDevice(options_.device), "cudaSetDevice"); }
  /// Makes this GPU the current one of the calling thread while the result lives.
  [[nodiscard]] detail::cuda_scope scope() const { return detail::cuda_scope(options_.device); }

  stream make_stream(int priority) { return {resources_, priority}; }
  event make_event() { return event(resources_); }
  void record(event& e, stream& s) { e.record(s); }
  /// Blocks only if another rank of this process has not issued its side of a transfer yet.
  void wait(stream& s, event const& e) { e.hold_back(s); }
  bool query(event const& e) const { return e.happened(); }
  /// Returns 0 if events do not record times.
  std::chrono::nanoseconds elapsed(event const& from, event const& to) const {
    return resources_->has_timing() ? to.since(from) : std::chrono::nanoseconds(0);
  }

  /// Returns `n` bytes set to 0xff, so that uninitialised floating-point numbers are NaN.
  buffer allocate(std::size_t n) {
    detail::cuda_scope const here(number());
    buffer b(resources_, n);
    if (n > 0) check(cudaMemsetAsync(b.data(), 0xff, n, own_->handle()), "cudaMemsetAsync");
    check(cudaStreamSynchronize(own_->handle()), "cudaStreamSynchronize");
    return b;
  }
  /// Returns `n` bytes of pinned host memory, from and to which copies are asynchronous.
  detail::pinned_buffer allocate_pinned(std::size_t n) { return {resources_, n}; }

  /// Copies between any addresses. Does not block if one end is GPU memory and the other is GPU memory,
  /// pinned memory, or at most `host_arrivals::most_bytes` long.
  void copy(stream& s, void* to, void const* from, std::size_t n) {
    if (n == 0) return;
    if (n <= detail::host_arrivals::most_bytes && is_pageable(to))
      return arrivals_->copy(s.handle(), to, from, n);
    check(cudaMemcpyAsync(to, from, n, cudaMemcpyDefault, s.handle()), "cudaMemcpyAsync");
  }

  /// Prepares a list of additions on the device. \throws sums_error, cuda_error
  sums make_sums(std::span<region_pair const> pairs) {
    return {resources_, detail::make_sum_table(pairs), *own_};
  }
  void accumulate(stream& s, sums const& list, accumulate_options const& o) { list.issue(s, o, processors_); }

  /// Caches the prepared tables while the regions stay the same.
  /// \throws run_error if it takes longer than `drain_within`
  double sum_of_squares(std::span<region const> regions) {
    detail::cuda_scope const here(number());
    if (!squares_ || !squares_->is_of(regions)) squares_.emplace(resources_, regions, *own_);
    squares_->issue(*own_, processors_);
    squares_->issue_copy(*own_);
    event ended(resources_);
    ended.record(*own_);
    wait_on_host(ended);
    return squares_->sum();
  }

  /// Prepares an optimiser step that the GPU computes. \throws sums_error, cuda_error
  norm make_norm(std::span<region const> regions) {
    detail::cuda_scope const here(number());
    return {resources_, regions, *own_};
  }
  void set_options(stream& s, norm& n, detail::update_options const& o) { n.set_options(s, o); }
  void issue_squares(stream& s, norm& n) { n.issue_squares(s, processors_); }
  void issue_update(stream& s, norm& n) { n.issue_update(s); }

  /// Records as a CUDA graph. Work that NCCL launches meanwhile from its own threads is part of it.
  void begin_recording(stream& s) {
    check(cudaStreamBeginCapture(s.handle(), cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
    resources_->begin_recording();
  }
  recording end_recording(stream& s) {
    auto const number = resources_->recording();
    resources_->end_recording();
    cudaGraph_t captured = nullptr;
    check(cudaStreamEndCapture(s.handle(), &captured), "cudaStreamEndCapture");
    return {resources_, captured, number};
  }
  void drop_recording(stream& s) noexcept {
    resources_->end_recording();
    cudaGraph_t captured = nullptr;
    if (cudaStreamEndCapture(s.handle(), &captured) == cudaSuccess)
      static_cast<void>(cudaGraphDestroy(captured));
    else
      static_cast<void>(cudaGetLastError());  // clear the error, or the next launch would report it
  }
  void replay(recording const& r, stream& s) { r.launch(s); }

  /// Waits until all streams have finished, at most `drain_within`. Returns true if they have. Otherwise
  /// memory and streams are never freed from then on, because a stream may still use them. After a failure,
  /// all ranks must call it before any rank frees memory that other ranks may copy from or to.
  bool drain() noexcept { return resources_->drain(); }
  /// Frees no memory or streams from now on, like `drain` after a timeout, but without waiting.
  void keep() noexcept { resources_->keep(); }

 private:
  static bool is_pageable(void const* p) {
    cudaPointerAttributes of = {};
    check(cudaPointerGetAttributes(&of, p), "cudaPointerGetAttributes");
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
                                 " did not finish a sum of squares within " +
                                 std::to_string(options_.drain_within.count()) + " ms"});
    }
  }

  /// Least urgent, and not 0: work that the device waits for is on a stream of its own, not of the caller.
  static constexpr int own_priority = 1;

  cuda::options options_;
  std::uint32_t processors_ = 0;
  std::shared_ptr<cuda::resources> resources_;
  std::optional<detail::host_arrivals> arrivals_;
  std::optional<detail::cuda_squares> squares_;
  std::optional<detail::cuda_stream> own_;  // last member, destroyed first: it may still use the others
};

static_assert(measuring_device<cuda::device> && detail::recording_device<cuda::device>);
static_assert(detail::updating_device<cuda::device>);
}  // namespace cleave::cuda
