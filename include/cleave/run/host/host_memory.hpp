// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>
#include <string>
#include <utility>

#include "cleave/run/model/failure.hpp"
#include "cleave/run/sums/sum_of_squares.hpp"
#include "cleave/run/sums/sum_table.hpp"
#include "cleave/run/sums/with_element.hpp"

namespace cleave {

/// Memory of the processor, and the work on it that all devices of the host do alike.
class host_memory {
 public:
  class buffer {
   public:
    buffer() = default;
    buffer(buffer&& other) noexcept
        : bytes_(std::exchange(other.bytes_, nullptr)), size_(std::exchange(other.size_, 0)) {}
    buffer& operator=(buffer&& other) noexcept {
      std::swap(bytes_, other.bytes_);
      std::swap(size_, other.size_);
      return *this;
    }
    ~buffer() { ::operator delete(bytes_, std::align_val_t{alignment}); }

    void* data() const { return bytes_; }
    std::size_t size() const { return size_; }

   private:
    friend class host_memory;
    void* bytes_ = nullptr;
    std::size_t size_ = 0;
  };
  using sums = detail::sum_table;

  static constexpr std::size_t alignment = 256;

  /// `n` bytes of 0xff, so that a floating-point number that nobody has written is a NaN.
  /// \throws run_error where there is no such memory
  static buffer allocate(std::size_t n) {
    buffer b;
    void* const p =
        n > most_bytes ? nullptr : ::operator new(n == 0 ? 1 : n, std::align_val_t{alignment}, std::nothrow);
    if (!p)
      throw run_error({.code = failure_code::device,
                       .detail = "there is no room for " + std::to_string(n) + " bytes of memory"});
    std::memset(p, 0xff, n);
    b.bytes_ = p;
    b.size_ = n;
    return b;
  }

  /// \throws sums_error
  static sums make_sums(std::span<region_pair const> pairs) { return detail::make_sum_table(pairs); }

  /// Precondition: they do not overlap.
  static void copy_bytes(void* to, void const* from, std::size_t n) {
    if (n > 0) std::memcpy(to, from, n);
  }

  /// Pair after pair. Product and sum are rounded, each; what goes into 16 bits, once more.
  static void run_sums(sums const& table, accumulate_options const& o) {
    for (auto const& run : table.runs)
      detail::with_floating(run.from, [&](auto from) {
        detail::with_floating(run.to, [&](auto to) {
          using From = decltype(from);
          using To = decltype(to);
          if (o.target == accumulate_options::target::added_to)
            run_tiles<From, To, detail::adding>(table, run, o);
          else
            run_tiles<From, To, detail::overwriting>(table, run, o);
        });
      });
  }

  static double sum_of_squares(std::span<region const> regions) { return cleave::detail::sum_of_squares(regions); }

 private:
  static constexpr std::size_t most_bytes = static_cast<std::size_t>(-1) / 4;

  template <class From, class To, class Operation>
  static void run_tiles(detail::sum_table const& table, detail::sum_run const& run, accumulate_options const& o) {
    using sum = detail::common_sum_t<From, To>;
    auto factor = static_cast<sum>(o.factor);
    if (o.device_factor) factor *= static_cast<sum>(*o.device_factor);
    auto const segments = std::span(table.segments).subspan(run.first_segment, run.segments);
    if (!o.nonfinite)
      run_tiles<From, To, Operation>(segments, factor);
    else if (run_tiles<From, To, detail::watched<Operation>>(segments, factor))
      std::atomic_ref(*o.nonfinite).store(1, std::memory_order_relaxed);  // by several streams, maybe
  }

  /// Whether a result is not finite.
  template <class From, class To, class Operation>
  static bool run_tiles(std::span<detail::sum_segment const> segments, detail::common_sum_t<From, To> factor) {
    bool bad = false;
    for (auto const& s : segments)
      for (std::uint32_t t = 0; t < detail::tiles_of(s.count); ++t)
        bad = detail::accumulate_lane<From, To, Operation>(s, s.first_tile + t, factor) || bad;
    return bad;
  }
};
}  // namespace cleave
