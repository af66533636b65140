// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "cleave/core/random.hpp"
#include "cleave/partition/kway/border_smoothing.hpp"
#include "cleave/partition/kway/boundary.hpp"
#include "cleave/partition/kway/centre_growing.hpp"
#include "cleave/partition/kway/effort.hpp"
#include "cleave/partition/kway/lazy_walk.hpp"
#include "cleave/partition/kway/left_out.hpp"
#include "cleave/partition/kway/level_graph.hpp"
#include "cleave/partition/kway/repeated_bisection.hpp"
#include "cleave/partition/kway/team.hpp"

namespace cleave::detail {

/// Parts of the smallest level.
class first_cut {
 public:
  first_cut(std::vector<std::int64_t> const& limit, level_effort const& effort, thread_team const& team)
      : limit_(limit), effort_(effort), team_(team) {}

  level_parts parts(weighted_view const& g, std::vector<std::uint32_t> const& fixed, splitmix& random) const {
    level_parts p;
    p.limit = limit_;
    p.weight.assign(limit_.size(), 0);
    if (effort_.first == first_method::centres && are_free(g, fixed)) p.of = grown_parts(g, random);
    if (!p.of.empty() && bisections_cut_less(g, fixed, p.of, random)) p.of.clear();
    if (p.of.empty()) p.of = repeated_bisection(g, fixed, limit_, effort_.bisection, team_).parts(random);
    std::vector<std::uint32_t> left_out;
    for (std::uint32_t n = 0; n < g.nodes; ++n)
      if (p.of[n] == free_node)
        left_out.push_back(n);
      else
        p.weight[p.of[n]] += g.weight(n);
    place_left_out(g, p, fixed, left_out);
    return p;
  }

 private:
  /// Whether parts are free to lie anywhere, and of about one size.
  bool are_free(weighted_view const& g, std::vector<std::uint32_t> const& fixed) const {
    auto const [least, most] = std::minmax_element(limit_.begin(), limit_.end());
    return g.nodes >= limit_.size() && fixed.empty() && *most / 2 <= *least;
  }

  std::vector<std::uint32_t> grown_parts(weighted_view const& g, splitmix& random) const {
    lazy_walk const walk(g);
    auto of = centre_growing(g, walk, limit_).parts(20, random);
    if (of.empty()) return of;
    // The fewer steps, the less smooth; after too many a small part is all over the graph, and no price
    // brings it together.
    border_smoothing smoothing(g, walk, limit_);
    auto const grown = of;
    for (auto const steps : {8u, 4u, 2u}) {
      of = grown;
      if (smoothing.smooth(of, 10, steps) < 1.5) break;
    }
    return of;
  }

  /// Whether grown parts cut an eighth more than bisections in a hurry do, as where a graph is long and thin.
  bool bisections_cut_less(weighted_view const& g, std::vector<std::uint32_t> const& fixed,
                           std::vector<std::uint32_t> const& grown, splitmix random) const {
    bisection_effort const hurry{.growths = 1, .passes = 1, .patience = 50};
    auto const bisected = repeated_bisection(g, fixed, limit_, hurry, team_).parts(random);
    return cut_of(g, bisected) < cut_of(g, grown) / 9 * 8;
  }

  std::vector<std::int64_t> const& limit_;
  level_effort const& effort_;
  thread_team const& team_;
};

}  // namespace cleave::detail
