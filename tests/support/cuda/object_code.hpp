// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

/// What nvcc made of kernels, read from the machine code within a program: which instructions access memory,
/// and how many bits at once. For sm_75 to sm_90, whose instructions are 16 bytes long; the code must not be
/// compressed.
namespace cleave::testing {

struct kernel_code {
  std::string name;             ///< as it is written in the source, with its parameters
  std::uint32_t registers = 0;  ///< of each lane
  std::uint32_t frame = 0;      ///< bytes of stack
  std::size_t instructions = 0;
  std::size_t fused = 0;  ///< of those, how many multiply and add at once, with one rounding
  /// How often each occurs: `LDG.128`, a load of 128 bits from global memory; also STG, LD and ST (of an
  /// address of any kind), LDL and STL (of stack).
  std::map<std::string, std::size_t> accesses;

  std::size_t count(std::string const& access) const {
    auto const found = accesses.find(access);
    return found == accesses.end() ? 0 : found->second;
  }
};

/// Of all kernels in that file, in no order.
std::vector<kernel_code> kernels_in(std::string const& file);

}  // namespace cleave::testing
