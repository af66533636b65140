// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/schedule/model/placement.hpp"

namespace cleave::detail {

/// Why a placement is none. `at` is the number of the stage or of the edge.
struct placement_fault {
  enum class kind : std::uint8_t {
    unknown_rank,   ///< of a stage
    unknown_stage,  ///< of an edge
    edge_order,     ///< an edge is not greater than the one before it
  };
  kind what;
  std::size_t at;

  bool operator==(placement_fault const&) const = default;
};

/// The first thing that is wrong with a placement, or nothing. O(stages + edges).
inline std::optional<placement_fault> find_placement_fault(placement const& p) {
  using enum placement_fault::kind;
  for (std::size_t s = 0; s < p.rank_of.size(); ++s)
    if (index(p.rank_of[s]) >= p.ranks) return placement_fault{unknown_rank, s};
  for (std::size_t e = 0; e < p.edges.size(); ++e) {
    if (index(p.edges[e].from) >= p.stages() || index(p.edges[e].to) >= p.stages())
      return placement_fault{unknown_stage, e};
    if (e > 0 && !(p.edges[e - 1] < p.edges[e])) return placement_fault{edge_order, e};
  }
  return std::nullopt;
}

/// What, where and how to mend it.
inline std::string describe(placement_fault const& f) {
  auto const at = std::to_string(f.at);
  switch (f.what) {
    case placement_fault::kind::unknown_rank:
      return "stage " + at + " is on a rank that there is not";
    case placement_fault::kind::unknown_stage:
      return "edge #" + at + " names a stage that there is not";
    case placement_fault::kind::edge_order:
      return "edge #" + at + " is not greater than the one before it; sort the edges, each once";
  }
  return {};
}

class placement_error : public witness_error<placement_fault> {
 public:
  explicit placement_error(placement_fault f) : witness_error("placement: " + describe(f), f) {}
};

/// The edges of a placement by the stages at their ends, as numbers into `placement::edges`.
class edge_numbers {
 public:
  /// Refers to the placement. O(stages + edges). \throws placement_error
  explicit edge_numbers(placement const& p)
      : edges_(p.edges), first_from_(p.rank_of.size() + 1), first_to_(p.rank_of.size() + 1) {
    if (auto const f = find_placement_fault(p)) throw placement_error(*f);
    for (auto const& e : p.edges) ++first_from_[index(e.from) + 1], ++first_to_[index(e.to) + 1];
    for (std::size_t s = 1; s < first_to_.size(); ++s) {
      first_from_[s] += first_from_[s - 1];
      first_to_[s] += first_to_[s - 1];
    }
    to_.resize(p.edges.size());
    auto next = first_to_;
    for (std::uint32_t e = 0; e < p.edges.size(); ++e) to_[next[index(p.edges[e].to)]++] = e;
  }

  /// Edges that end at stage `s`, ascending.
  std::span<std::uint32_t const> to(std::uint32_t s) const {
    return std::span(to_).subspan(first_to_[s], first_to_[s + 1] - first_to_[s]);
  }
  /// The first edge that begins at stage `s`, and the one after the last.
  std::uint32_t begin_from(std::uint32_t s) const { return first_from_[s]; }
  std::uint32_t end_from(std::uint32_t s) const { return first_from_[s + 1]; }

  /// The edge between two stages. O(log edges of `from`).
  std::optional<std::uint32_t> find(std::uint32_t from, std::uint32_t to) const {
    auto const all = edges_.subspan(first_from_[from], first_from_[from + 1] - first_from_[from]);
    auto const at = std::ranges::lower_bound(all, stage_edge{stage_id{from}, stage_id{to}});
    if (at == all.end() || at->to != stage_id{to}) return std::nullopt;
    return first_from_[from] + static_cast<std::uint32_t>(at - all.begin());
  }

 private:
  std::span<stage_edge const> edges_;
  std::vector<std::uint32_t> first_from_, first_to_, to_;
};

}  // namespace cleave::detail
