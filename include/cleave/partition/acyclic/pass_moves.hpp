// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/partition/acyclic/state.hpp"

namespace cleave::detail {

/// The moves of one pass of refinement, each unit once at most, of which the last can be taken back.
template <std::unsigned_integral Index>
class pass_moves {
 public:
  explicit pass_moves(acyclic_state<Index>& state) : state_(state), moved_(state.level().units()) {}

  void begin() {
    std::ranges::fill(moved_, char{});
    done_.clear();
  }
  bool has(Index u) const { return moved_[u] != 0; }
  std::size_t size() const { return done_.size(); }
  void make(Index u, std::uint32_t to) {
    done_.emplace_back(u, state_.of()[u]);
    moved_[u] = 1;
    state_.move(u, to);
  }
  /// Takes all moves back but the first `kept`.
  void keep(std::size_t kept) {
    for (; done_.size() > kept; done_.pop_back()) state_.move(done_.back().first, done_.back().second);
  }

 private:
  acyclic_state<Index>& state_;
  std::vector<char> moved_;
  std::vector<std::pair<Index, std::uint32_t>> done_;  // unit and where it was
};

}  // namespace cleave::detail
