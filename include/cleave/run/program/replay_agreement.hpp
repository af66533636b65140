// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "cleave/core/ids.hpp"
#include "cleave/run/model/concepts.hpp"

namespace cleave::detail {

/// What keeps the first of all ranks from replaying steps, with its number: where one cannot, none may.
/// Nothing where all can. Every rank tells all others its own obstacle; each of `ranks` ranks of the board
/// calls it. \throws run_error
template <meeting_board B>
std::optional<std::string> find_first_obstacle(B& board, std::optional<std::string> const& own, rank_id here,
                                               std::uint32_t ranks,
                                               std::chrono::steady_clock::time_point until) {
  std::optional<std::string> first;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    std::string why;
    if (rank_id{r} == here) why = own.value_or("");
    std::uint64_t size = why.size();
    board.broadcast(std::as_writable_bytes(std::span(&size, 1)), rank_id{r}, until);
    why.resize(static_cast<std::size_t>(size));
    board.broadcast(std::as_writable_bytes(std::span(why)), rank_id{r}, until);
    if (!first && !why.empty()) first = "rank " + std::to_string(r) + ": " + why;
  }
  return first;
}

}  // namespace cleave::detail
