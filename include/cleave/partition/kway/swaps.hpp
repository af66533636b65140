// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "cleave/partition/kway/level_graph.hpp"
#include "cleave/partition/kway/part_links.hpp"

namespace cleave::detail {

/// Lets nodes into parts that have no room for them, each against one that leaves: for parts that are full
/// and would be denser with others. Moves alone cannot do that. Kernighan, Lin, Bell Syst. Tech. J. 49, 1970.
template <class Level>
class swap_refinement {
 public:
  swap_refinement(Level const& g, level_parts& p, std::span<std::uint32_t const> fixed)
      : g_(g), p_(p), fixed_(fixed), links_(p.parts()) {}

  /// By how much the cut fell; limits that held hold.
  std::int64_t refine(std::uint32_t rounds) {
    std::int64_t gained = 0;
    for (std::uint32_t round = 0; round < rounds; ++round) {
      list_wishes();
      std::int64_t gain = 0;
      for (std::uint32_t part = 0; part < p_.parts(); ++part) gain += swap_into(part);
      gained += gain;
      if (gain == 0) break;
    }
    return gained;
  }

 private:
  struct wish {
    std::int64_t loss;
    std::uint32_t node;
    bool operator<(wish const& o) const { return std::pair(loss, node) < std::pair(o.loss, o.node); }
  };

  /// Who wants into each part, who could leave it at what loss, as things stand.
  void list_wishes() {
    in_.assign(p_.parts(), {});
    out_.assign(p_.parts(), {});
    for (std::uint32_t n = 0; n < g_.nodes; ++n) {
      if (!fixed_.empty() && fixed_[n] != free_node) continue;
      links_.count(g_, p_.of, n);
      auto const own = p_.of[n];
      auto const weight = static_cast<std::int64_t>(g_.weight(n));
      for (auto const part : links_.nearby())
        if (part != own && p_.room(part) < weight && links_.to(part) > links_.to(own))
          in_[part].push_back({links_.to(own) - links_.to(part), n});
      if (auto const to = links_.best_target(p_, own, weight); to != free_node)
        out_[own].push_back({links_.to(own) - links_.to(to), n});
    }
    for (auto& list : in_) std::sort(list.begin(), list.end());
    for (auto& list : out_) std::sort(list.begin(), list.end());
  }

  std::int64_t swap_into(std::uint32_t part) {
    std::int64_t gained = 0;
    auto leaver = out_[part].begin();
    for (auto const& comer : in_[part]) {
      if (leaver == out_[part].end() || comer.loss + leaver->loss >= 0) break;
      if (auto const gain = swap(comer.node, leaver->node, part); gain > 0) gained += gain, ++leaver;
    }
    return gained;
  }

  /// Lets `comer` in and `leaver` out, if that lessens the cut as things stand now; by how much.
  std::int64_t swap(std::uint32_t comer, std::uint32_t leaver, std::uint32_t part) {
    auto const from = p_.of[comer];
    if (from == part || p_.of[leaver] != part) return 0;
    auto const room = p_.room(part) + static_cast<std::int64_t>(g_.weight(leaver) - g_.weight(comer));
    if (room < 0) return 0;
    links_.count(g_, p_.of, leaver);
    auto const to = links_.best_target(p_, part, g_.weight(leaver));
    if (to == free_node) return 0;
    auto const left = links_.to(to) - links_.to(part);
    move_node(g_, p_, leaver, to);
    links_.count(g_, p_.of, comer);
    auto const gain = left + links_.to(part) - links_.to(from);
    if (gain <= 0)
      move_node(g_, p_, leaver, part);
    else
      move_node(g_, p_, comer, part);
    return std::max<std::int64_t>(gain, 0);
  }

  Level const& g_;
  level_parts& p_;
  std::span<std::uint32_t const> fixed_;
  part_links links_;
  std::vector<std::vector<wish>> in_, out_;
};

/// Refines by swaps; the decrease of the cut.
template <class Level>
std::int64_t refine_by_swaps(Level const& g, level_parts& p, std::span<std::uint32_t const> fixed,
                             std::uint32_t rounds) {
  return swap_refinement<Level>(g, p, fixed).refine(rounds);
}

}  // namespace cleave::detail
