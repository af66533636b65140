// SPDX-License-Identifier: MIT
#include "support/cuda/fake_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

namespace cleave::testing::fake {

namespace {

constexpr std::size_t page = 4096, room = std::size_t{1} << 36, most_poisoned = std::size_t{1} << 28;
constexpr std::size_t behind = 64;  // bytes after an allocation that are checked for overruns
constexpr unsigned char canary = 0xc5;

void* at(std::uintptr_t address) { return reinterpret_cast<void*>(address); }

}  // namespace

std::string allocation::text() const {
  auto const whose = device == host_device ? std::string("the host") : "device " + std::to_string(device);
  return "allocation " + std::to_string(number) + " (" + std::to_string(bytes) + " bytes of " + whose + ")";
}

void memory_map::clear() {
  for (auto const& [device, a] : arenas_) munmap(at(a.begin), room);
  arenas_.clear();
  allocations_.clear();
  told_.clear();
  count_ = 0;
}

allocation* memory_map::allocate(int device, allocation::kind kind, std::size_t bytes) {
  auto i = arenas_.find(device);
  if (i == arenas_.end()) {
    auto* const p = mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return nullptr;
    auto const begin = reinterpret_cast<std::uintptr_t>(p);
    i = arenas_.emplace(device, arena{begin, begin, begin + room}).first;
  }
  auto& a = i->second;
  auto const whole = (bytes + behind + page - 1) / page * page;
  if (whole < bytes || a.end - a.next < whole) return nullptr;
  auto const begin = a.next;
  if (mprotect(at(begin), whole, PROT_READ | PROT_WRITE) != 0) return nullptr;
  a.next += whole;
  std::memset(at(begin), 0xff, std::min(bytes, most_poisoned));
  std::memset(at(begin + bytes), canary, behind);
  auto& made = allocations_[begin];
  made = {begin, bytes, count_++, device, kind, {}, false, whole};
  return &made;
}

allocation* memory_map::add_registered(void* begin, std::size_t bytes) {
  auto const address = reinterpret_cast<std::uintptr_t>(begin);
  auto& made = allocations_[address];
  made = {address, bytes, count_++, host_device, allocation::kind::registered, {}, false, bytes};
  return &made;
}

allocation const* memory_map::find(void const* address) const {
  auto const where = reinterpret_cast<std::uintptr_t>(address);
  auto i = allocations_.upper_bound(where);
  if (i == allocations_.begin()) return nullptr;
  --i;
  if (where >= i->first + std::max<std::size_t>(i->second.committed, 1)) return nullptr;
  bool const is_ordinary_again = i->second.is == allocation::kind::registered && !i->second.freed_by.empty();
  return is_ordinary_again ? nullptr : &i->second;
}

allocation* memory_map::find(void const* address) {
  return const_cast<allocation*>(static_cast<memory_map const*>(this)->find(address));
}

std::optional<std::string> memory_map::fault(void const* data, std::size_t bytes) const {
  if (bytes == 0) return std::nullopt;
  auto const* const a = find(data);
  if (!a) return plural_bytes(bytes) + (data ? " that CUDA does not know" : " at a null pointer");
  auto const offset = reinterpret_cast<std::uintptr_t>(data) - a->begin;
  auto const where = plural_bytes(bytes) + " at " + std::to_string(offset) + " in " + a->text();
  if (!a->freed_by.empty()) return where + ", which " + a->freed_by + " has freed";
  if (offset > a->bytes || bytes > a->bytes - offset) return where + ", which ends before";
  return std::nullopt;
}

std::optional<std::string> memory_map::fault_later(void const* data, std::size_t bytes) const {
  auto const* const a = bytes == 0 ? nullptr : find(data);
  if (a && a->is_to_be_freed && a->freed_by.empty())
    return plural_bytes(bytes) + " in " + a->text() + ", which is freed before";
  return fault(data, bytes);
}

void memory_map::withdraw(allocation& a) {
  if (a.is == allocation::kind::registered) return;
  madvise(at(a.begin), a.committed, MADV_DONTNEED);
  mprotect(at(a.begin), a.committed, PROT_NONE);
}

bool memory_map::overrun(allocation const& a) const {
  if (a.is == allocation::kind::registered) return false;
  auto const* const p = static_cast<unsigned char const*>(at(a.begin + a.bytes));
  return std::any_of(p, p + behind, [](unsigned char c) { return c != canary; });
}

std::vector<std::string> memory_map::overruns() {
  std::vector<std::string> found;
  for (auto const& [begin, a] : allocations_) {
    if (!a.freed_by.empty() || !overrun(a) || std::ranges::find(told_, a.number) != told_.end()) continue;
    told_.push_back(a.number);
    found.push_back("something wrote behind " + a.text());
  }
  return found;
}

std::string plural_bytes(std::size_t n) { return std::to_string(n) + (n == 1 ? " byte" : " bytes"); }

}  // namespace cleave::testing::fake
