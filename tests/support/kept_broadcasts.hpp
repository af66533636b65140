// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/run/model/failure.hpp"

namespace cleave::testing {

/// The broadcasts of all ranks, in one thread. The data that rank r sends are stored for ranks that call
/// later. Each rank calls twice: the second time all data are there.
struct kept_broadcasts {
  std::vector<std::vector<std::byte>>* kept;
  rank_id here;
  std::size_t next = 0;

  void broadcast(std::span<std::byte> bytes, rank_id root, std::chrono::steady_clock::time_point) {
    if (kept->size() <= next) kept->resize(next + 1);
    auto& k = (*kept)[next++];
    if (root == here) k.assign(bytes.begin(), bytes.end());
    if (k.size() == bytes.size() && !k.empty()) std::memcpy(bytes.data(), k.data(), k.size());
  }
  void barrier(std::chrono::steady_clock::time_point) {}
  void publish(failure const&) noexcept {}
  std::optional<failure> poll() { return std::nullopt; }
};

}  // namespace cleave::testing
