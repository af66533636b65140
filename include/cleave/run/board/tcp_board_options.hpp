// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "cleave/core/bytes.hpp"
#include "cleave/run/board/board_wire.hpp"
#include "cleave/run/board/detail/board_join.hpp"

namespace cleave {

struct tcp_board_options {
  /// Known to all ranks of the run and to nobody else; 16 bytes at least (`random_board_key()`). Who knows it
  /// belongs. A key serves one run.
  std::string key;
  std::chrono::milliseconds join_within{30'000};   ///< all ranks
  std::chrono::milliseconds answer_within{100};    ///< ranks that are asked what they do
  std::chrono::milliseconds decide_within{1'000};  ///< rank 0, which failure is the first, before ranks do
  std::chrono::milliseconds leave_within{1'000};   ///< the destructor
  std::size_t largest_broadcast = 1_MiB;           ///< the same at all ranks
};

}  // namespace cleave

namespace cleave::detail {

/// What ranks that begin to join now agree upon.
inline board_terms terms_of(tcp_board_options const& o, std::uint32_t ranks) {
  std::size_t const least = 2 * longest_detail + 4 * std::size_t{ranks};  // a failure, an activity
  return {ranks, o.key, (std::max)(o.largest_broadcast, least) + 64,
          std::chrono::steady_clock::now() + o.join_within};
}

}  // namespace cleave::detail
