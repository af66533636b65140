// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"

namespace cleave::detail {

/// A rank that can never go on, and the action that waits for what never comes.
struct stuck_rank {
  rank_id rank{};
  std::string at;

  bool operator==(stuck_rank const&) const = default;
};

/// Ranks that wait for each other, or for what nobody does. The witness: all of them.
class stuck_error : public witness_error<std::vector<stuck_rank>> {
 public:
  explicit stuck_error(std::vector<stuck_rank> ranks)
      : witness_error("messages: " + list_of(ranks) + "; put what they wait for before it", ranks) {}

 private:
  static std::string list_of(std::vector<stuck_rank> const& ranks) {
    std::string list;
    for (auto const& r : ranks)
      list += (list.empty() ? "rank " : ", rank ") + std::to_string(index(r.rank)) + " is stuck at " + r.at;
    return list;
  }
};

}  // namespace cleave::detail
