// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cleave/run/sums/accumulate_tile.hpp"

namespace cleave::inline v0_2::detail {

/// The work distribution of a block in a kernel: 256 lanes share a tile, and each reads and writes packs. A
/// pack has 16 bytes of the longer of the two types, so that the stores of a warp fill whole sectors: packs
/// of 16 bytes of the shorter type took 1.05 to 1.45 times as long on an H100. Kernels add device memory
/// access; with plain memory, as here, the same code runs on the CPU.
struct device_lanes : plain_lanes {
  static constexpr std::uint32_t lanes = 256;
  static constexpr std::uint32_t pack_alignment = 1;
  static constexpr std::uint32_t singles_at_once = 8;

  template <class From, class To>
  static constexpr std::size_t pack_elements = 16 / (std::max)(sizeof(From), sizeof(To));

  /// Keeps 64 to 128 bytes in flight per lane for most pairs of types. With 1024 lanes that is twice the 48
  /// KiB that a multiprocessor of an H200 needs. Values in the longer type take at most 32 registers.
  template <class From, class To, class Operation>
  static constexpr std::size_t packs_at_once = (std::min)(
      {std::size_t{4}, 128 / (pack_elements<From, To> * (std::max)(sizeof(From), sizeof(To))),
       std::max<std::size_t>(1, 128 / (pack_elements<From, To> *
                                       (sizeof(From) + (Operation::reads_target ? sizeof(To) : 0))))});

  /// Rows of squares that are loaded at once.
  static constexpr std::uint32_t rows_at_once = 2;
};

/// Lanes whose packs have 32 bytes of the longer type, for `Lanes` that access 32 bytes at once. The same
/// number of bytes is in flight.
template <class Lanes>
struct wide_lanes_of : Lanes {
  static constexpr std::uint32_t pack_alignment = 2;

  template <class From, class To>
  static constexpr std::size_t pack_elements = 32 / (std::max)(sizeof(From), sizeof(To));
  template <class From, class To, class Operation>
  static constexpr std::size_t packs_at_once =
      (std::max)(std::size_t{1}, Lanes::template packs_at_once<From, To, Operation> / 2);
};

}  // namespace cleave::detail
