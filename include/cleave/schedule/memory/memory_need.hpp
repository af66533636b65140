// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "cleave/core/error.hpp"
#include "cleave/schedule/memory/share_slots.hpp"

namespace cleave::detail {

/// Memory that something takes as long as it is kept.
struct memory_need {
  lifetime alive;
  std::uint64_t bytes = 0;

  bool operator==(memory_need const&) const = default;
};

/// Needs that have no layout. `at` is the number of the need.
struct memory_need_fault {
  enum class kind : std::uint8_t {
    odd_alignment,  ///< `bytes` is no power of two
    no_bytes,       ///< it takes nothing, or nobody knows how much
    backward,       ///< it ends before it begins
    too_large,      ///< with those before it, beyond 2^62 bytes
  };
  kind what;
  std::size_t at = 0;
  std::uint64_t bytes = 0;

  bool operator==(memory_need_fault const&) const = default;
};

/// What, where and how to mend it.
inline std::string describe(memory_need_fault const& f) {
  using enum memory_need_fault::kind;
  auto const at = "need #" + std::to_string(f.at);
  switch (f.what) {
    case odd_alignment:
      return "an alignment of " + std::to_string(f.bytes) + " bytes is no power of two";
    case no_bytes:
      return at + " is of 0 bytes; say how many, or leave it out";
    case backward:
      return at + " ends before it begins";
    case too_large:
      return at + " of " + std::to_string(f.bytes) + " bytes and those before it are beyond 2^62 bytes";
  }
  return {};
}

class memory_need_error : public witness_error<memory_need_fault> {
 public:
  explicit memory_need_error(memory_need_fault f) : witness_error("memory: " + describe(f), f) {}
};

/// The least multiple of `alignment`, a power of two, that is `bytes` or more. O(1).
constexpr std::uint64_t rounded_up(std::uint64_t bytes, std::uint64_t alignment) {
  return (bytes + (alignment - 1)) & ~(alignment - 1);
}

/// Why needs have no layout, or nothing. O(needs).
inline std::optional<memory_need_fault> find_memory_need_fault(std::span<memory_need const> needs,
                                                               std::uint64_t alignment) {
  using enum memory_need_fault::kind;
  constexpr std::uint64_t most = std::uint64_t{1} << 62;
  if (alignment == 0 || alignment > most || (alignment & (alignment - 1)) != 0)
    return memory_need_fault{odd_alignment, 0, alignment};
  std::uint64_t all = 0;
  for (std::size_t i = 0; i < needs.size(); ++i) {
    if (needs[i].bytes == 0) return memory_need_fault{no_bytes, i};
    if (needs[i].alive.last < needs[i].alive.first) return memory_need_fault{backward, i};
    if (needs[i].bytes > most || rounded_up(needs[i].bytes, alignment) > most - all)
      return memory_need_fault{too_large, i, needs[i].bytes};
    all += rounded_up(needs[i].bytes, alignment);
  }
  return std::nullopt;
}

}  // namespace cleave::detail
