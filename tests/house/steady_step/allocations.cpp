// SPDX-License-Identifier: MIT
// Counts allocations and the bytes in use. In a file of its own: where g++ 12 sees both ends of an
// allocation, it takes them for a mismatch. Aligned allocations, such as the arenas of ranks, do not count.
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

std::atomic<std::size_t> allocations = 0, most_bytes = 0;

namespace {

std::atomic<std::size_t> bytes = 0;
constexpr std::size_t header = alignof(std::max_align_t);  // before each block: its size

void release(void* p) {
  if (!p) return;
  void* const block = static_cast<std::byte*>(p) - header;
  bytes -= *static_cast<std::size_t const*>(block);
  std::free(block);
}

}  // namespace

void* operator new(std::size_t n) {
  ++allocations;
  void* const block = std::malloc(n + header);
  if (!block) throw std::bad_alloc();
  *static_cast<std::size_t*>(block) = n;
  auto const now = bytes += n;
  for (auto most = most_bytes.load(); most < now && !most_bytes.compare_exchange_weak(most, now);) {
  }
  return static_cast<std::byte*>(block) + header;
}
void operator delete(void* p) noexcept { release(p); }
void operator delete(void* p, std::size_t) noexcept { release(p); }
