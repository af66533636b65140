// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "cleave/core/ids.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/schedule/model/action.hpp"

namespace cleave::inline v0_2::detail {

/// This rank's end of a message or reduction that a communicator collects between `begin_group` and
/// `end_group`.
struct group_transfer {
  enum class kind : std::uint8_t { send, receive, reduction };

  region memory;
  message what;  ///< a reduction sets only the number
  kind how;
  reduce_op op = reduce_op::sum;  ///< used by reductions only

  static constexpr group_transfer send(region r, message const& m) { return {r, m, kind::send}; }
  static constexpr group_transfer receive(region r, message const& m) { return {r, m, kind::receive}; }
  static constexpr group_transfer reduce(region r, reduce_op op, std::uint32_t number) {
    return {r, {no_rank, number, {no_stage, {}}}, kind::reduction, op};
  }
};

}  // namespace cleave::detail
