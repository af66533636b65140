// SPDX-License-Identifier: MIT
// Counts. In a file of its own: where g++ 12 sees both ends of an allocation, it takes them for a mismatch.
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

std::atomic<std::size_t> allocations = 0;

void* operator new(std::size_t n) {
  ++allocations;
  if (void* const p = std::malloc(n == 0 ? 1 : n)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
