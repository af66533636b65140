// SPDX-License-Identifier: MIT
#pragma once
#include <pthread.h>

#include <cstddef>
#include <stdexcept>

namespace cleave::testing {

/// Runs `f` on a thread with a stack of 256 KiB, or 1 MiB under a sanitizer, whose frames are larger.
/// Recursion along a chain of a million nodes overflows either.
template <class F>
void on_small_stack(F f) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr std::size_t bytes = 1 << 20;
#else
  constexpr std::size_t bytes = 256 << 10;
#endif
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  bool const small = pthread_attr_setstacksize(&attributes, bytes) == 0;
  pthread_t thread;
  auto const run = [](void* work) -> void* {
    (*static_cast<F*>(work))();
    return nullptr;
  };
  if (!small || pthread_create(&thread, &attributes, run, &f) != 0)
    throw std::runtime_error("no thread with a small stack");
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

}  // namespace cleave::testing
