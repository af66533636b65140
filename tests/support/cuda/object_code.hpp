// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

/// Reads the machine code that nvcc made of kernels: the instructions that access memory and their width in
/// bits. For sm_75 to sm_90, whose instructions are 16 bytes long. The code must not be compressed.
namespace cleave::testing {

struct kernel_code {
  std::string name;             ///< as in the source, with its parameters
  std::uint32_t registers = 0;  ///< per lane
  std::uint32_t frame = 0;      ///< bytes of stack
  std::size_t instructions = 0;
  std::size_t fused = 0;  ///< fused multiply-adds among them
  /// Number of uses of each instruction: `LDG.128` is a load of 128 bits from global memory. Others are STG,
  /// LD and ST (generic address), LDL and STL (stack).
  std::map<std::string, std::size_t> accesses;

  std::size_t count(std::string const& access) const {
    auto const found = accesses.find(access);
    return found == accesses.end() ? 0 : found->second;
  }
};

/// Returns all kernels in that file, in no particular order.
std::vector<kernel_code> kernels_in(std::string const& file);

}  // namespace cleave::testing
