// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "cleave/core/expects.hpp"

namespace cleave::testing {

using namespace detail;

/// A task that runs once, maybe on another thread. Small tasks need no heap memory.
class stream_task {
 public:
  stream_task() = default;
  template <std::invocable F>
    requires(!std::same_as<std::remove_cvref_t<F>, stream_task>)
  explicit stream_task(F&& f) {
    using held = std::remove_cvref_t<F>;
    if constexpr (sizeof(held) <= room && alignof(held) <= alignof(std::max_align_t) &&
                  std::is_nothrow_move_constructible_v<held>) {
      ::new (static_cast<void*>(bytes_)) held(std::forward<F>(f));
      with_ = &of<held>;
    } else {
      *this = stream_task([f = std::make_unique<held>(std::forward<F>(f))] { (*f)(); });
    }
  }
  stream_task(stream_task&& other) noexcept { take(other); }
  stream_task& operator=(stream_task&& other) noexcept {
    if (this == &other) return *this;
    clear();
    take(other);
    return *this;
  }
  ~stream_task() { clear(); }

  explicit operator bool() const { return with_ != nullptr; }
  /// Precondition: the task is not empty.
  void operator()() {
    expects(with_ != nullptr, "stream_task: something to do");
    with_->call(bytes_);
  }

 private:
  static constexpr std::size_t room = 112;

  struct operations {
    void (*call)(void*);
    void (*move)(void* to, void* from) noexcept;  // also destroys the source
    void (*end)(void*) noexcept;
  };
  template <class F>
  static constexpr operations of = {
      [](void* f) { (*static_cast<F*>(f))(); },
      [](void* to, void* from) noexcept {
        ::new (to) F(std::move(*static_cast<F*>(from)));
        static_cast<F*>(from)->~F();
      },
      [](void* f) noexcept { static_cast<F*>(f)->~F(); },
  };

  void take(stream_task& other) noexcept {
    if (other.with_) other.with_->move(bytes_, other.bytes_);
    with_ = std::exchange(other.with_, nullptr);
  }
  void clear() noexcept {
    if (with_) std::exchange(with_, nullptr)->end(bytes_);
  }

  alignas(std::max_align_t) std::byte bytes_[room];
  operations const* with_ = nullptr;
};

}  // namespace cleave::testing
