// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/partition/kway/lazy_walk.hpp"
#include "cleave/partition/kway/level_graph.hpp"

namespace cleave::detail {

/// Straightens the borders of all parts at once: each part spreads over the graph for some steps, then each
/// node goes to the part that it has most of, at prices at which the parts weigh alike. O(rounds * steps *
/// m). Merriman, Bence, Osher, 1992; Jacobs, Merkurjev, Esedoglu, J. Comput. Phys. 354, 2018 (prices); on
/// graphs: Meyerhenke, Monien, Sauerwald, JPDC 69(9), 2009.
class border_smoothing {
 public:
  /// Shares of the parts are as their limits.
  border_smoothing(weighted_view const& g, lazy_walk const& walk, std::vector<std::int64_t> const& limit)
      : g_(g), walk_(walk), price_(limit.size(), 0), sum_(limit.size(), 0), now_(g.nodes), next_(g.nodes) {
    double total = 0, limits = 0;
    for (std::uint32_t n = 0; n < g.nodes; ++n) total += static_cast<double>(g.weight(n));
    for (auto const l : limit) limits += static_cast<double>(l);
    for (auto const l : limit) share_.push_back(total * (static_cast<double>(l) / limits));
  }

  /// Nodes without a part, of which `free_node` is written, remain so. Returns how many times its share the
  /// heaviest part weighs then. Precondition: there is a round.
  double smooth(std::vector<std::uint32_t>& of, std::uint32_t rounds, std::uint32_t steps) {
    std::fill(price_.begin(), price_.end(), 0);
    double heaviest = 0;
    for (std::uint32_t round = 0; round < rounds; ++round) {
      for (std::uint32_t n = 0; n < g_.nodes; ++n)
        now_[n] = {of[n] != free_node, {{{of[n], lazy_walk::one}}}};
      for (std::uint32_t step = 0; step < steps; ++step) spread();
      auto const before = of;
      heaviest = trade(of);
      std::size_t moved = 0;
      for (std::uint32_t n = 0; n < g_.nodes; ++n) moved += of[n] != before[n];
      if (moved * 500 <= g_.nodes) break;
    }
    return heaviest;
  }

 private:
  struct holding {
    std::uint32_t part, amount;
  };
  /// What a node has of those parts that it has most of.
  struct holdings {
    std::uint32_t count = 0;
    std::array<holding, 8> of;
  };

  void spread() {
    for (std::uint32_t n = 0; n < g_.nodes; ++n) {
      near_.clear();
      get(now_[n], lazy_walk::kept);
      for (auto arc = g_.first[n]; arc < g_.first[n + 1]; ++arc) get(now_[g_.head[arc]], walk_.share(arc));
      auto const most = [&](std::uint32_t a, std::uint32_t b) {
        return sum_[a] != sum_[b] ? sum_[a] > sum_[b] : a < b;
      };
      auto& h = next_[n];
      h.count = static_cast<std::uint32_t>((std::min)(near_.size(), h.of.size()));
      if (h.count < near_.size()) std::nth_element(near_.begin(), near_.begin() + h.count, near_.end(), most);
      for (std::uint32_t i = 0; i < h.count; ++i)
        h.of[i] = {near_[i], static_cast<std::uint32_t>(sum_[near_[i]] / lazy_walk::one)};
      for (auto const part : near_) sum_[part] = 0;
    }
    std::swap(now_, next_);
  }

  void get(holdings const& from, std::uint32_t share) {
    for (std::uint32_t i = 0; i < from.count; ++i) {
      auto const amount = std::uint64_t{share} * from.of[i].amount;
      if (amount == 0) continue;
      if (sum_[from.of[i].part] == 0) near_.push_back(from.of[i].part);
      sum_[from.of[i].part] += amount;
    }
  }

  /// Nodes go where they have most after prices, which rise where there are too many. Returns how many
  /// times its share the heaviest part weighs then.
  double trade(std::vector<std::uint32_t>& of) {
    double heaviest = 0;
    for (int round = 0; round < 30; ++round) {
      std::vector<std::int64_t> weight(price_.size(), 0);
      for (std::uint32_t n = 0; n < g_.nodes; ++n) {
        if (now_[n].count == 0) continue;
        std::int64_t most = 0;
        for (std::uint32_t i = 0; i < now_[n].count; ++i) {
          auto const [part, amount] = now_[n].of[i];
          auto const worth = std::int64_t{amount} - price_[part];
          if (i == 0 || worth > most) most = worth, of[n] = part;
        }
        weight[of[n]] += g_.weight(n);
      }
      heaviest = 0;
      for (std::size_t part = 0; part < price_.size(); ++part) {
        auto const filled = share_[part] > 0 ? static_cast<double>(weight[part]) / share_[part] : 1;
        heaviest = (std::max)(heaviest, filled);
        price_[part] += static_cast<std::int64_t>(0.2 * lazy_walk::one * (std::clamp(filled, 0.5, 1.5) - 1));
      }
      if (heaviest < 1.01) break;
    }
    return heaviest;
  }

  weighted_view g_;
  lazy_walk const& walk_;
  std::vector<double> share_;         // of a part: what it shall weigh
  std::vector<std::int64_t> price_;   // of a part
  std::vector<std::uint64_t> sum_;    // of a part, at the node at hand
  std::vector<std::uint32_t> near_;   // parts whose sums are not zero
  std::vector<holdings> now_, next_;  // of a node
};

}  // namespace cleave::detail
