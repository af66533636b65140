// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/core/random.hpp"
#include "cleave/partition/kway/detail/level.hpp"

namespace cleave::inline v0_2::detail {

/// The transition weights of a lazy random walk. In each step, a node keeps a fifth of its amount and takes
/// the rest from its neighbours, in proportion to edge weights. Weights are fixed-point with `one` for 1, so
/// that all compilers give the same result.
class lazy_random_walk {
 public:
  static constexpr std::uint32_t one = 1u << 16;
  static constexpr std::uint32_t kept = one / 5;

  explicit lazy_random_walk(weighted_view const& g) : share_(g.directed_edges()) {
    for (std::uint32_t n = 0; n < g.nodes; ++n) {
      double sum = 0;
      for (auto e = g.offsets[n], stop = g.offsets[n + 1]; e < stop; ++e)
        sum += static_cast<double>(g.edge_weight(e));
      auto const unit = sum > 0 ? (one - kept) / sum : 0;
      for (auto e = g.offsets[n], stop = g.offsets[n + 1]; e < stop; ++e)
        share_[e] = static_cast<std::uint32_t>(unit * static_cast<double>(g.edge_weight(e)));
    }
  }

  /// Returns the fraction of the amount at the target of edge `e` that its source receives. The shares of a
  /// node's edges and `kept` sum to at most `one`.
  std::uint32_t share(std::uint64_t e) const { return share_[e]; }

 private:
  uninitialized_array<std::uint32_t> share_;
};

/// Grows compact parts around centres that are far from each other; bisections give brick-shaped parts
/// instead. Each node joins its nearest centre. Centres then move to the middle of their parts, and growing
/// repeats. An edge is shorter if it is heavier relative to the weight of its ends. O(rounds * m * log n).
/// Diekmann, Preis, Schlimbach, Walshaw, Parallel Comput. 26(12), 2000.
class centre_growing {
 public:
  /// Creates the search. The target weights of parts are proportional to their limits. \pre There is a part
  /// and a node.
  centre_growing(weighted_view const& g, lazy_random_walk const& walk, std::vector<std::int64_t> const& limit)
      : g_(g),
        walk_(walk),
        limit_(limit),
        length_(g.directed_edges()),
        handicap_(limit.size(), 0),
        of_(g.nodes, 0) {
    measure_edges();
  }

  /// Returns the part of each node, or `no_block` for nodes that no centre reaches, at most 1 % of the total
  /// weight. Returns an empty vector if it finds no component with 99 % of the weight.
  std::vector<std::uint32_t> parts(std::uint32_t rounds, splitmix& random) {
    if (!choose_centres(random)) return {};
    for (std::uint32_t round = 0; round + 1 < rounds; ++round) {
      grow();
      even_out();
      auto const before = centre_;
      find_middles();
      if (centre_ == before) break;
    }
    grow();
    for (std::uint32_t n = 0; n < g_.nodes; ++n)
      if (distance_[n] == unreached) of_[n] = no_block;
    return std::move(of_);
  }

 private:
  static constexpr std::uint64_t unreached = ~std::uint64_t{0};

  void measure_edges() {
    for (std::uint32_t n = 0; n < g_.nodes; ++n)
      for (auto e = g_.offsets[n], stop = g_.offsets[n + 1]; e < stop; ++e) {
        auto const ends = static_cast<double>(g_.weight(n) + g_.weight(g_.targets[e]));
        auto const weight = static_cast<double>(g_.edge_weight(e));
        // Lengths are at most 2^31, so that the length of a path fits 63 bits.
        length_[e] = weight > 0 ? (std::max)(1u, root((std::min)((ends + 1) / weight, 0x1p30) * 0x1p32)) : 0;
      }
  }

  /// Returns the integer part of the square root. \pre `square` is below 2^63.
  static std::uint32_t root(double square) {
    auto rest = static_cast<std::uint64_t>(square);
    std::uint64_t result = 0;
    for (auto bit = std::uint64_t{1} << 62; bit != 0; bit >>= 2) {
      bool const fits = rest >= result + bit;
      if (fits) rest -= result + bit;
      result = (result >> 1) + (fits ? bit : 0);
    }
    return static_cast<std::uint32_t>(result);
  }

  /// Chooses the first centre at random and each further one at the largest distance from the previous ones.
  /// Gonzalez, Theor. Comput. Sci. 38, 1985.
  bool choose_centres(splitmix& random) {
    centre_.assign(1, 0);
    for (int attempt = 0; attempt < 8; ++attempt) {
      centre_[0] = static_cast<std::uint32_t>(random.below(g_.nodes));
      distance_.assign(g_.nodes, unreached);
      start(0, 0);
      reach();
      if (reached_nearly_all()) break;
      if (attempt == 7) return false;
    }
    std::vector<reached> furthest;  // distances may have decreased since
    for (std::uint32_t n = 0; n < g_.nodes; ++n)
      if (distance_[n] != unreached) furthest.push_back({distance_[n], n});
    std::make_heap(furthest.begin(), furthest.end(), nearer);
    for (std::uint32_t part = 1; part < limit_.size(); ++part) {
      while (furthest.front().distance != distance_[furthest.front().node]) {
        std::pop_heap(furthest.begin(), furthest.end(), nearer);
        furthest.back().distance = distance_[furthest.back().node];
        std::push_heap(furthest.begin(), furthest.end(), nearer);
      }
      centre_.push_back(furthest.front().node);
      start(part, 0);
      reach();
    }
    return true;
  }

  bool reached_nearly_all() const {
    std::int64_t lost = 0, total = 0;
    for (std::uint32_t n = 0; n < g_.nodes; ++n) {
      total += g_.weight(n);
      if (distance_[n] == unreached) lost += g_.weight(n);
    }
    return lost <= total / 100;
  }

  /// Assigns each node to its nearest centre, counting the centres' handicaps.
  void grow() {
    distance_.assign(g_.nodes, unreached);
    auto const least = *std::min_element(handicap_.begin(), handicap_.end());
    for (std::uint32_t part = 0; part < limit_.size(); ++part)
      start(part, static_cast<std::uint64_t>(handicap_[part] - least));
    std::make_heap(open_.begin(), open_.end(), further);
    reach();
  }

  void start(std::uint32_t part, std::uint64_t distance) {
    auto const n = centre_[part];
    distance_[n] = distance;
    of_[n] = part;
    open_.push_back({distance, n});
  }

  /// Runs Dijkstra's algorithm from the open nodes, wherever the path is shorter than the known one.
  void reach() {
    while (!open_.empty()) {
      std::pop_heap(open_.begin(), open_.end(), further);
      auto const [distance, n] = open_.back();
      open_.pop_back();
      if (distance > distance_[n]) continue;
      for (auto e = g_.offsets[n], stop = g_.offsets[n + 1]; e < stop; ++e) {
        auto const other = g_.targets[e];
        if (length_[e] == 0 || distance + length_[e] >= distance_[other]) continue;
        open_.push_back({distance_[other] = distance + length_[e], other});
        std::push_heap(open_.begin(), open_.end(), further);
        of_[other] = of_[n];
      }
    }
  }

  /// Increases the handicap of parts that became too heavy, and decreases that of light ones.
  void even_out() {
    std::vector<std::int64_t> weight(limit_.size(), 0);
    std::vector<std::uint64_t> radius(limit_.size(), 0);
    double total = 0, limits = 0;
    for (std::uint32_t n = 0; n < g_.nodes; ++n) {
      if (distance_[n] == unreached) continue;
      weight[of_[n]] += g_.weight(n);
      radius[of_[n]] = (std::max)(radius[of_[n]], distance_[n]);
      total += static_cast<double>(g_.weight(n));
    }
    double mean_radius = 0;
    for (std::size_t part = 0; part < limit_.size(); ++part) {
      limits += static_cast<double>(limit_[part]);
      mean_radius += static_cast<double>(radius[part]) / static_cast<double>(limit_.size());
    }
    for (std::size_t part = 0; part < limit_.size(); ++part) {
      auto const share = total * (static_cast<double>(limit_[part]) / limits);
      auto const above = share > 0 ? static_cast<double>(weight[part]) / share : 1;
      handicap_[part] += static_cast<std::int64_t>(0.3 * mean_radius * (std::clamp(above, 0.5, 1.5) - 1));
    }
  }

  /// Moves each centre to the middle of its part. A random walk that starts with the same amount everywhere
  /// loses what leaves a part; the middle is the node with the most left.
  void find_middles() {
    std::vector<std::uint32_t> now(g_.nodes, lazy_random_walk::one), next(g_.nodes);
    for (int step = 0; step < 8; ++step) {
      for (std::uint32_t n = 0; n < g_.nodes; ++n) {
        std::uint64_t sum = std::uint64_t{lazy_random_walk::kept} * now[n];
        for (auto e = g_.offsets[n], stop = g_.offsets[n + 1]; e < stop; ++e)
          if (of_[g_.targets[e]] == of_[n]) sum += std::uint64_t{walk_.share(e)} * now[g_.targets[e]];
        next[n] = static_cast<std::uint32_t>(sum / lazy_random_walk::one);
      }
      std::swap(now, next);
    }
    std::vector<std::uint32_t> most(limit_.size(), 0);
    for (std::uint32_t n = 0; n < g_.nodes; ++n)
      if (distance_[n] != unreached && now[n] > most[of_[n]]) most[of_[n]] = now[n], centre_[of_[n]] = n;
  }

  struct reached {
    std::uint64_t distance;
    std::uint32_t node;
  };
  static bool nearer(reached const& a, reached const& b) {
    return a.distance != b.distance ? a.distance < b.distance : a.node > b.node;
  }
  static bool further(reached const& a, reached const& b) {
    return a.distance != b.distance ? a.distance > b.distance : a.node > b.node;
  }

  weighted_view g_;
  lazy_random_walk const& walk_;
  std::vector<std::int64_t> const& limit_;
  uninitialized_array<std::uint32_t> length_;  // 0: not traversed
  std::vector<std::int64_t> handicap_;         // per part: distance at which its centre starts
  std::vector<std::uint32_t> of_, centre_;
  std::vector<std::uint64_t> distance_;
  std::vector<reached> open_;
};

/// Smooths the borders of all parts at once. Each part diffuses over the graph for some steps; each node then
/// joins the part that it holds most of, minus a price per part that balances the weights.
/// O(rounds * steps * m). Merriman, Bence, Osher, 1992; Jacobs, Merkurjev, Esedoglu, J. Comput. Phys. 354,
/// 2018 (prices); on graphs: Meyerhenke, Monien, Sauerwald, JPDC 69(9), 2009.
class border_smoothing {
 public:
  /// Creates the smoother. The target weights of parts are proportional to their limits.
  border_smoothing(weighted_view const& g, lazy_random_walk const& walk,
                   std::vector<std::int64_t> const& limit)
      : g_(g), walk_(walk), price_(limit.size(), 0), sum_(limit.size(), 0), now_(g.nodes), next_(g.nodes) {
    double total = 0, limits = 0;
    for (std::uint32_t n = 0; n < g.nodes; ++n) total += static_cast<double>(g.weight(n));
    for (auto const l : limit) limits += static_cast<double>(l);
    for (auto const l : limit) share_.push_back(total * (static_cast<double>(l) / limits));
  }

  /// Smooths `of` in place. Nodes with `no_block` keep it. Returns the weight of the heaviest part relative
  /// to its share. \pre `rounds` is at least 1.
  double smooth(std::vector<std::uint32_t>& of, std::uint32_t rounds, std::uint32_t steps) {
    std::fill(price_.begin(), price_.end(), 0);
    double heaviest = 0;
    for (std::uint32_t round = 0; round < rounds; ++round) {
      for (std::uint32_t n = 0; n < g_.nodes; ++n)
        now_[n] = {of[n] != no_block, {{{of[n], lazy_random_walk::one}}}};
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
  /// The parts that a node holds most of, with their amounts.
  struct holdings {
    std::uint32_t count = 0;
    std::array<holding, 8> of;
  };

  void spread() {
    for (std::uint32_t n = 0; n < g_.nodes; ++n) {
      near_.clear();
      get(now_[n], lazy_random_walk::kept);
      for (auto e = g_.offsets[n], stop = g_.offsets[n + 1]; e < stop; ++e)
        get(now_[g_.targets[e]], walk_.share(e));
      auto const most = [&](std::uint32_t a, std::uint32_t b) {
        return sum_[a] != sum_[b] ? sum_[a] > sum_[b] : a < b;
      };
      auto& h = next_[n];
      h.count = static_cast<std::uint32_t>((std::min)(near_.size(), h.of.size()));
      if (h.count < near_.size()) std::nth_element(near_.begin(), near_.begin() + h.count, near_.end(), most);
      for (std::uint32_t i = 0; i < h.count; ++i)
        h.of[i] = {near_[i], static_cast<std::uint32_t>(sum_[near_[i]] / lazy_random_walk::one)};
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

  /// Assigns each node to its best part after prices, and raises the prices of parts that are too heavy.
  /// Returns the weight of the heaviest part relative to its share.
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
        price_[part] +=
            static_cast<std::int64_t>(0.2 * lazy_random_walk::one * (std::clamp(filled, 0.5, 1.5) - 1));
      }
      if (heaviest < 1.01) break;
    }
    return heaviest;
  }

  weighted_view g_;
  lazy_random_walk const& walk_;
  std::vector<double> share_;         // target weight of each part
  std::vector<std::int64_t> price_;   // of each part
  std::vector<std::uint64_t> sum_;    // of each part, at the current node
  std::vector<std::uint32_t> near_;   // parts with non-zero sums
  std::vector<holdings> now_, next_;  // of each node
};

}  // namespace cleave::detail
