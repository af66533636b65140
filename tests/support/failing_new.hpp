// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdlib>
#include <new>

#include "support/allocation_faults.hpp"

/// The program's operator new, which counts and fails as `allocation_faults` says. Exactly one source of a
/// program includes this header. Nothing is inlined: where g++ 12 sees both ends of an allocation, it takes
/// them for a mismatch.
namespace cleave::testing {

[[gnu::noinline]] inline void* failing_allocation(std::size_t size, std::size_t alignment) noexcept {
  if (allocation_faults::fails()) return nullptr;
  auto const rounded = (size + alignment - 1) / alignment * alignment;
  auto* const p = alignment <= alignof(std::max_align_t) ? std::malloc(size == 0 ? 1 : size)
                                                         : std::aligned_alloc(alignment, rounded);
  if (p) ++allocation_faults::live;
  return p;
}
inline void* allocated(std::size_t size, std::size_t alignment) {
  if (auto* const p = failing_allocation(size, alignment)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] inline void freed(void* p) noexcept {
  if (p) --allocation_faults::live;
  std::free(p);
}

}  // namespace cleave::testing

// clang-format off
void* operator new(std::size_t n) { return cleave::testing::allocated(n, 1); }
void* operator new[](std::size_t n) { return cleave::testing::allocated(n, 1); }
void* operator new(std::size_t n, std::align_val_t a) { return cleave::testing::allocated(n, std::size_t(a)); }
void* operator new[](std::size_t n, std::align_val_t a) { return cleave::testing::allocated(n, std::size_t(a)); }
void* operator new(std::size_t n, std::nothrow_t const&) noexcept { return cleave::testing::failing_allocation(n, 1); }
void* operator new[](std::size_t n, std::nothrow_t const&) noexcept { return cleave::testing::failing_allocation(n, 1); }
void* operator new(std::size_t n, std::align_val_t a, std::nothrow_t const&) noexcept { return cleave::testing::failing_allocation(n, std::size_t(a)); }
void* operator new[](std::size_t n, std::align_val_t a, std::nothrow_t const&) noexcept { return cleave::testing::failing_allocation(n, std::size_t(a)); }
void operator delete(void* p) noexcept { cleave::testing::freed(p); }
void operator delete[](void* p) noexcept { cleave::testing::freed(p); }
void operator delete(void* p, std::size_t) noexcept { cleave::testing::freed(p); }
void operator delete[](void* p, std::size_t) noexcept { cleave::testing::freed(p); }
void operator delete(void* p, std::align_val_t) noexcept { cleave::testing::freed(p); }
void operator delete[](void* p, std::align_val_t) noexcept { cleave::testing::freed(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { cleave::testing::freed(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { cleave::testing::freed(p); }
void operator delete(void* p, std::nothrow_t const&) noexcept { cleave::testing::freed(p); }
void operator delete[](void* p, std::nothrow_t const&) noexcept { cleave::testing::freed(p); }
void operator delete(void* p, std::align_val_t, std::nothrow_t const&) noexcept { cleave::testing::freed(p); }
void operator delete[](void* p, std::align_val_t, std::nothrow_t const&) noexcept { cleave::testing::freed(p); }
// clang-format on
