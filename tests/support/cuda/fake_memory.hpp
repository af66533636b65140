// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cleave/run/model/tensor_view.hpp"

namespace cleave::testing::fake {

inline constexpr int host_device = -1;

std::string plural_bytes(std::size_t n);

/// Memory that work reads or writes.
struct footprint {
  void const* data;
  std::size_t bytes;
  bool is_write;

  region as_region() const { return {const_cast<void*>(data), bytes, element_type::u8}; }
};

struct allocation {
  enum class kind { device, pinned, registered };

  std::uintptr_t begin = 0;
  std::size_t bytes = 0;
  std::size_t number = 0;
  int device = host_device;
  kind is = kind::device;
  std::string freed_by;         // empty: still allocated
  bool is_to_be_freed = false;  // once a stream reaches its free
  std::size_t committed = 0;
  bool is_of_graph = false;  // allocated and freed by a graph at each launch

  std::string text() const;
  region all() const { return {reinterpret_cast<void*>(begin), bytes, element_type::u8}; }
};

struct memory_pool {
  int device = 0;
  std::size_t number = 0;
  bool is_destroyed = false, is_default = false;
  std::uint64_t threshold = 0;
};

/// All memory ever allocated in a test. No address is used twice, so a use of freed memory is reported with
/// its name. Filled with 0xff, which is NaN in all floating-point types.
class memory_map {
 public:
  memory_map() = default;
  memory_map(memory_map const&) = delete;
  memory_map& operator=(memory_map const&) = delete;
  ~memory_map() { clear(); }

  void clear();
  /// Allocates for a device or `host_device`; returns null if the address space is exhausted.
  allocation* allocate(int device, allocation::kind kind, std::size_t bytes);
  allocation* add_registered(void* begin, std::size_t bytes);
  /// Returns the live or freed allocation that contains that address.
  allocation* find(void const* address);
  allocation const* find(void const* address) const;
  /// Returns why these bytes must not be accessed, if so. Memory unknown to CUDA is an error too.
  std::optional<std::string> fault(void const* data, std::size_t bytes) const;
  /// The same check for work that is only issued, after all work issued before.
  std::optional<std::string> fault_later(void const* data, std::size_t bytes) const;
  /// Returns true for ordinary host memory, which CUDA does not know.
  bool is_pageable(void const* data) const { return find(data) == nullptr; }
  /// Makes the pages of `a` inaccessible.
  void withdraw(allocation& a);
  /// Returns allocations with a write past their end; each is reported once.
  std::vector<std::string> overruns();

  std::map<std::uintptr_t, allocation> const& all() const { return allocations_; }

 private:
  struct arena {
    std::uintptr_t begin, next, end;
  };

  bool overrun(allocation const& a) const;

  std::map<int, arena> arenas_;
  std::map<std::uintptr_t, allocation> allocations_;
  std::vector<std::size_t> told_;
  std::size_t count_ = 0;
};

}  // namespace cleave::testing::fake
