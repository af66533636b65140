// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cleave/run/sums/accumulate_tile.hpp"

namespace cleave::detail {

/// How a block of a kernel shares a tile: 256 lanes, each of which reads and writes packs of 16 bytes, of the
/// shorter of both types. The kernels add how device memory is accessed; with plain memory, as here, the same
/// lanes run on the processor.
struct device_lanes : plain_lanes {
  static constexpr std::uint32_t lanes = 256;
  static constexpr bool packs_need_alignment = true;
  static constexpr std::uint32_t singles_at_once = 8;

  template <class From, class To>
  static constexpr std::size_t pack_elements = 16 / (std::min)(sizeof(From), sizeof(To));

  /// Most pairs have 64 to 128 bytes on their way to each lane: with 1024 lanes twice what an H200 needs in
  /// flight for each multiprocessor, 48 KiB. What is worked on, of the longer type, takes 32 registers at
  /// most.
  template <class From, class To, class Operation>
  static constexpr std::size_t packs_at_once = (std::min)(
      {std::size_t{4}, 128 / (pack_elements<From, To> * (std::max)(sizeof(From), sizeof(To))),
       std::max<std::size_t>(1, 128 / (pack_elements<From, To> *
                                       (sizeof(From) + (Operation::reads_target ? sizeof(To) : 0))))});

  /// Of the rows in which squares are added.
  static constexpr std::uint32_t rows_at_once = 2;
};

}  // namespace cleave::detail
