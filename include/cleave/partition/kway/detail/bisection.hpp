// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "cleave/core/random.hpp"
#include "cleave/core/real.hpp"
#include "cleave/partition/kway/detail/coarsening.hpp"
#include "cleave/partition/kway/detail/config.hpp"
#include "cleave/partition/kway/detail/level.hpp"
#include "cleave/partition/kway/detail/refinement.hpp"
#include "cleave/partition/kway/detail/team.hpp"

namespace cleave::inline v0_2::detail {

/// A bipartition: the side of each node, with the weight and limit of each side.
struct two_sides {
  std::vector<std::uint8_t> of;
  std::array<std::int64_t, 2> weight{};
  std::array<std::int64_t, 2> limit{};
  std::int64_t cut = 0;
  further_sums further{};  ///< of both sides, if nodes have several weights

  /// Returns the total weight above the limits.
  std::int64_t excess() const { return excess(0) + excess(1); }
  std::int64_t excess(std::uint32_t side) const {
    return std::max<std::int64_t>(0, weight[side] - limit[side]) + further.excess(side);
  }
  /// Adds the weights of a node to a side, or removes them with `sign` -1.
  void add_weight(weighted_view const& g, std::uint32_t n, std::uint32_t side, int sign = 1) {
    weight[side] += sign * g.weight(n);
    further.add(g.further, n, side, sign);
  }
  void clear_weights() {
    weight = {};
    further.clear(2);
  }
  bool better_than(two_sides const& other) const {
    if (excess() != other.excess()) return excess() < other.excess();
    if (cut != other.cut) return cut < other.cut;
    return (std::max)(weight[0], weight[1]) < (std::max)(other.weight[0], other.weight[1]);
  }
};

/// Computes weights and cut from `of`.
inline void weigh(weighted_view const& g, two_sides& s) {
  s.clear_weights();
  s.cut = 0;
  for (std::uint32_t n = 0; n < g.nodes; ++n) {
    s.add_weight(g, n, s.of[n]);
    for (auto e = g.offsets[n], stop = g.offsets[n + 1]; e < stop; ++e)
      if (s.of[g.targets[e]] != s.of[n]) s.cut += g.edge_weight(e);
  }
  s.cut /= 2;
}

/// Refines a bipartition by Fiduccia-Mattheyses passes. A pass moves each node at most once, best gain first,
/// even if the gain is negative, and returns to the best state seen. Passes repeat until one gains nothing.
/// Fiduccia, Mattheyses, DAC 1982.
class two_way_fm {
 public:
  two_way_fm(weighted_view const& g, std::vector<std::uint32_t> const& fixed)
      : g_(g),
        fixed_(fixed),
        classes_((std::max)(1u, g.further.count())),
        gain_(g.nodes),
        least_gain_(g.nodes) {
    for (std::uint32_t i = 0; i < 2 * classes_; ++i) leaving_.emplace_back(g.nodes);
    for (std::uint32_t n = 0; n < g.nodes; ++n) heaviest_ = (std::max)(heaviest_, g.weight(n));
    if (g.further.limits) classify();
  }

  void refine(two_sides& s, std::uint32_t passes, std::uint32_t max_fruitless_moves) {
    count_gains(s);
    for (std::uint32_t pass = 0; pass < passes; ++pass)
      if (!improve(s, max_fruitless_moves)) break;
  }

 private:
  bool improve(two_sides& s, std::uint32_t max_fruitless_moves) {
    start(s);
    moves_.clear();
    auto best_cut = s.cut, best_excess = s.excess();
    auto best_spread = spread(s);
    std::size_t best_moves = 0;
    bool improved = false;
    while (moves_.size() - best_moves <= max_fruitless_moves) {
      auto const n = next(s);
      if (n == no_block) break;
      move(n, s);
      moves_.push_back(n);
      auto const excess = s.excess();
      bool const better = excess != best_excess ? excess < best_excess : s.cut < best_cut;
      if (better || (excess == best_excess && s.cut == best_cut && spread(s) < best_spread)) {
        improved |= better;
        best_cut = s.cut, best_excess = excess, best_spread = spread(s);
        best_moves = moves_.size();
      }
    }
    for (auto& queue : leaving_) queue.clear();
    while (moves_.size() > best_moves) {
      put_back(moves_.back(), s);
      moves_.pop_back();
    }
    s.cut = best_cut;
    return improved;
  }

  static std::int64_t spread(two_sides const& s) {
    return (std::max)(s.weight[0] - s.limit[0], s.weight[1] - s.limit[1]);
  }

  void count_gains(two_sides const& s) {
    for (std::uint32_t n = 0; n < g_.nodes; ++n) {
      std::int64_t inside = 0, outside = 0;
      for (auto e = g_.offsets[n], stop = g_.offsets[n + 1]; e < stop; ++e)
        (s.of[g_.targets[e]] == s.of[n] ? inside : outside) += g_.edge_weight(e);
      gain_[n] = outside - inside;
      least_gain_[n] = -outside - inside;
    }
  }

  /// Queues the nodes on the boundary; all nodes if a side is above its limit.
  void start(two_sides const& s) {
    locked_.assign(g_.nodes, 0);
    bool const all = s.excess() > 0;
    for (std::uint32_t n = 0; n < g_.nodes; ++n)
      if (!fixed_.empty() && fixed_[n] != no_block)
        locked_[n] = 1;
      else if (all || gain_[n] > least_gain_[n] || g_.degree(n) == 0)
        queue_of(n, s).put(n, gain_[n]);
  }

  /// Finds the weight that is largest in each node, relative to its total, and the heaviest nodes.
  void classify() {
    class_of_.assign(g_.nodes, 0);
    heaviest_further_.assign(classes_, 0);
    for (std::uint32_t n = 0; n < g_.nodes; ++n) {
      auto const* const own = g_.further.of(n);
      for (std::uint32_t w = 0; w < classes_; ++w) {
        auto const& limits = *g_.further.limits;
        if (limits.counted(own[w], w) > limits.counted(own[class_of_[n]], class_of_[n])) class_of_[n] = w;
        heaviest_further_[w] = (std::max)(heaviest_further_[w], own[w]);
      }
    }
  }

  gain_buckets& queue_of(std::uint32_t n, two_sides const& s) {
    return leaving_[s.of[n] * classes_ + (class_of_.empty() ? 0 : class_of_[n])];
  }

  /// Returns the next node to move if nodes have several weights. If a side exceeds limits, it is a node of
  /// that side in which the most exceeded weight is largest; otherwise it is the node with the highest gain.
  std::uint32_t next_further(two_sides const& s) {
    for (;;) {
      auto const queue = queue_to_leave(s);
      if (queue == leaving_.size()) return no_block;
      auto const from = static_cast<std::uint32_t>(queue / classes_);
      auto const n = leaving_[queue].pop();
      locked_[n] = 1;
      if (s.excess(from) > 0 || (s.excess(1 - from) == 0 && nearly_fits(n, 1 - from, s))) return n;
    }
  }

  std::size_t queue_to_leave(two_sides const& s) const {
    auto const none = leaving_.size();
    auto best = none;
    std::int64_t most = 0;
    for (std::uint32_t side = 0; side < 2; ++side) {
      if (s.excess(side) == 0) continue;
      for (std::uint32_t w = 0; w < classes_; ++w) {
        auto const i = std::size_t{side} * classes_ + w;
        if (leaving_[i].empty()) continue;
        auto const over = s.further.of(side)[w] - s.further.limits->of(side)[w];
        auto const counted = over > 0 ? s.further.limits->counted(over, w) : 0;
        if (best == none || counted > most) best = i, most = counted;
      }
    }
    if (best != none) return best;
    for (std::size_t i = 0; i < leaving_.size(); ++i)
      if (!leaving_[i].empty() && (best == none || leaving_[i].highest() > leaving_[best].highest()))
        best = i;
    return best;
  }

  /// Returns true if a node exceeds no limit of a side by more than the heaviest node.
  bool nearly_fits(std::uint32_t n, std::uint32_t side, two_sides const& s) const {
    for (std::uint32_t w = 0; w < classes_; ++w)
      if (s.further.of(side)[w] + g_.further.of(n)[w] > s.further.limits->of(side)[w] + heaviest_further_[w])
        return false;
    return true;
  }

  /// Returns the next node to move: from an overweight side, otherwise from the side with the higher gain.
  std::uint32_t next(two_sides const& s) {
    if (s.further.limits) return next_further(s);
    for (;;) {
      std::size_t from = 2;
      for (std::size_t side = 0; side < 2; ++side)
        if (s.weight[side] > s.limit[side] && !leaving_[side].empty()) from = side;
      if (from == 2) {
        if (leaving_[0].empty() && leaving_[1].empty()) return no_block;
        if (leaving_[0].empty())
          from = 1;
        else if (leaving_[1].empty())
          from = 0;
        else if (leaving_[0].highest() != leaving_[1].highest())
          from = leaving_[0].highest() > leaving_[1].highest() ? 0 : 1;
        else
          from = s.weight[0] - s.limit[0] >= s.weight[1] - s.limit[1] ? 0 : 1;
      }
      auto const n = leaving_[from].pop();
      locked_[n] = 1;
      // A side may exceed its limit by one node for a while. Otherwise tight limits would prevent every
      // exchange.
      if (s.weight[1 - from] + g_.weight(n) <= s.limit[1 - from] + heaviest_ ||
          s.weight[from] > s.limit[from]) {
        if (s.weight[1 - from] <= s.limit[1 - from] || s.weight[from] > s.limit[from]) return n;
      }
    }
  }

  void move(std::uint32_t n, two_sides& s) {
    s.cut -= gain_[n];
    shift(n, s);
    for (auto e = g_.offsets[n], stop = g_.offsets[n + 1]; e < stop; ++e)
      if (auto const other = g_.targets[e]; !locked_[other]) queue_of(other, s).put(other, gain_[other]);
  }

  void put_back(std::uint32_t n, two_sides& s) { shift(n, s); }

  /// Changes the side of a node and updates all gains.
  void shift(std::uint32_t n, two_sides& s) {
    auto const from = s.of[n];
    s.of[n] = 1 - from;
    s.add_weight(g_, n, from, -1);
    s.add_weight(g_, n, 1 - from);
    gain_[n] = -gain_[n];
    for (auto e = g_.offsets[n], stop = g_.offsets[n + 1]; e < stop; ++e) {
      auto const other = g_.targets[e];
      auto const w = g_.edge_weight(e);
      for (int end = 0; end < 2; ++end) gain_[other] += s.of[other] == from ? w : -w;  // 2 * w may overflow
    }
  }

  weighted_view const& g_;
  std::vector<std::uint32_t> const& fixed_;
  std::uint32_t classes_;              // kinds of nodes: by their largest weight, if they have several
  std::vector<gain_buckets> leaving_;  // for each side and class
  std::vector<std::uint32_t> class_of_;
  std::vector<std::int64_t> heaviest_further_;  // node, by weight
  std::vector<std::int64_t> gain_,
      least_gain_;  // the gain, and the gain if no neighbour is on the other side
  std::vector<std::uint8_t> locked_;
  std::vector<std::uint32_t> moves_;
  std::int64_t heaviest_ = 0;
};

/// The candidates for the next node of a growing side: the neighbours of its nodes, or all nodes ranked by
/// gain per weight. The latter peels off nodes of low degree if the limits leave room.
enum class growth : std::uint8_t { around_a_node, anywhere };

/// Grows side 0 from an empty set, best gain first. It grows until the limits stop it, and chooses the state
/// of least cut among those within the limits. Karypis, Kumar, SISC 20(1), 1998, section 3.2 (greedy graph
/// growing).
class side_growing {
 public:
  side_growing(weighted_view const& g, std::vector<std::uint32_t> const& fixed)
      : g_(g), fixed_(fixed), border_(g.nodes), gain_(g.nodes) {}

  /// Grows side 0. `aim` is its preferred weight among states of equal cut. \pre `s.limit` is set.
  void grow(two_sides& s, growth how, std::int64_t aim, splitmix& random) {
    how_ = how;
    start(s);
    std::int64_t const total = s.weight[1];
    std::int64_t const least = total - s.limit[1];
    bool chosen = false;
    std::size_t best = 0;
    std::int64_t best_excess = 0, best_cut = 0, best_distance = 0;
    order_.clear();
    place_fixed(s);
    while (s.weight[0] < s.limit[0]) {
      auto const n = next(s, random);
      if (n == no_block) break;
      if (s.weight[0] + g_.weight(n) > s.limit[0]) {
        if (s.weight[0] >= least) break;
        continue;
      }
      take(n, s);
      if (s.weight[0] < least) continue;
      auto const distance = s.weight[0] > aim ? s.weight[0] - aim : aim - s.weight[0];
      auto const excess = s.further.limits ? s.excess() : 0;
      if (!chosen || std::tuple(excess, s.cut, distance) < std::tuple(best_excess, best_cut, best_distance)) {
        chosen = true;
        best = order_.size();
        best_excess = excess, best_cut = s.cut, best_distance = distance;
      }
    }
    border_.clear();
    if (chosen) give_back(s, best);
  }

 private:
  void start(two_sides& s) {
    s.of.assign(g_.nodes, 1);
    s.clear_weights();
    s.cut = 0;
    outside_.clear();
    for (std::uint32_t n = 0; n < g_.nodes; ++n) {
      s.add_weight(g_, n, 1);
      gain_[n] = 0;
      for (auto e = g_.offsets[n], stop = g_.offsets[n + 1]; e < stop; ++e) gain_[n] -= g_.edge_weight(e);
      if (!fixed_.empty() && fixed_[n] != no_block) continue;
      outside_.push_back(n);
    }
    mean_weight_ = (std::max)(1.0, static_cast<double>(s.weight[1]) / (std::max)(1u, g_.nodes));
    if (how_ == growth::anywhere)
      for (auto const n : outside_) border_.put(n, urgency(n));
  }

  /// Returns the gain, or, if all nodes are candidates, the gain relative to the node's weight.
  std::int64_t urgency(std::uint32_t n) const {
    if (how_ == growth::around_a_node) return gain_[n];
    auto const means = static_cast<double>(std::max<std::int64_t>(1, g_.weight(n))) / mean_weight_;
    return static_cast<std::int64_t>(std::clamp(static_cast<double>(gain_[n]) / means, -0x1p62, 0x1p62));
  }

  void place_fixed(two_sides& s) {
    if (fixed_.empty()) return;
    for (std::uint32_t n = 0; n < g_.nodes; ++n)
      if (fixed_[n] == 0) take(n, s);
    order_.clear();
  }

  std::uint32_t next(two_sides const& s, splitmix& random) {
    if (!border_.empty()) return border_.pop();
    while (!outside_.empty()) {
      auto const at = random.below(outside_.size());
      auto const n = outside_[at];
      outside_[at] = outside_.back();
      outside_.pop_back();
      if (s.of[n] == 1) return n;
    }
    return no_block;
  }

  void take(std::uint32_t n, two_sides& s) {
    s.of[n] = 0;
    s.add_weight(g_, n, 1, -1);
    s.add_weight(g_, n, 0);
    s.cut -= gain_[n];
    order_.push_back(n);
    for (auto e = g_.offsets[n], stop = g_.offsets[n + 1]; e < stop; ++e) {
      auto const other = g_.targets[e];
      for (int end = 0; end < 2; ++end) gain_[other] += g_.edge_weight(e);  // twice the weight may overflow
      if (s.of[other] == 1 && (fixed_.empty() || fixed_[other] == no_block))
        border_.put(other, urgency(other));
    }
  }

  void give_back(two_sides& s, std::size_t keep) {
    while (order_.size() > keep) {
      s.of[order_.back()] = 1;
      order_.pop_back();
    }
    weigh(g_, s);
  }

  weighted_view const& g_;
  std::vector<std::uint32_t> const& fixed_;
  gain_buckets border_;
  std::vector<std::int64_t> gain_;
  growth how_ = growth::anywhere;
  double mean_weight_ = 1;
  std::vector<std::uint32_t> outside_, order_;
};

/// Bisects a graph with a limit for each side: coarsens it, grows bisections of the coarsest graph, and
/// refines every level by FM. O((n + m) * restarts).
class multilevel_bisection {
 public:
  multilevel_bisection(weighted_view const& g, std::vector<std::uint32_t> fixed,
                       std::array<std::int64_t, 2> limit, std::int64_t aim, bisection_config const& config,
                       further_limits further = {})
      : g_(g),
        fixed_(std::move(fixed)),
        limit_(limit),
        further_(std::move(further)),
        aim_(aim),
        config_(config) {}

  /// Returns the bisection from one hierarchy. `restart` numbers the hierarchies from 0.
  two_sides sides(std::uint64_t seed, std::uint32_t restart) const {
    splitmix random(seed);
    auto const levels = coarsened(random, restart);
    auto const view = [&](std::size_t i) { return i == 0 ? g_ : levels[i - 1].graph.view(); };
    auto const& fixed_at = [&](std::size_t i) -> std::vector<std::uint32_t> const& {
      return i == 0 ? fixed_ : levels[i - 1].fixed;
    };
    auto s = first_bisection(view(levels.size()), fixed_at(levels.size()), random);
    for (auto i = levels.size(); i-- > 0;) {
      auto const g = view(i);
      s = projected(g, levels[i].cluster_of, s);
      two_way_fm(g, fixed_at(i)).refine(s, config_.passes, config_.max_fruitless_moves);
    }
    return s;
  }

 private:
  struct level {
    level_graph graph;
    std::vector<std::uint32_t> fixed;
    uninitialized_array<std::uint32_t> cluster_of;  // of the nodes of the finer level
  };

  std::vector<level> coarsened(splitmix& random, std::uint32_t restart) const {
    std::vector<level> levels;
    std::int64_t total = 0;
    for (std::uint32_t n = 0; n < g_.nodes; ++n) total += g_.weight(n);
    auto g = g_;
    auto const* fixed = &fixed_;
    while (g.nodes > config_.smallest) {
      auto clusters =
          matched(g, *fixed, std::max<std::int64_t>(total * 3 / (2 * std::int64_t{config_.smallest}), 1),
                  restart, random);
      if (clusters.clusters > g.nodes - g.nodes / 10) break;
      level next;
      next.graph = contraction(g, clusters).graph(thread_team{});
      if (!fixed->empty()) {
        next.fixed.assign(clusters.clusters, no_block);
        for (std::uint32_t n = 0; n < g.nodes; ++n)
          if ((*fixed)[n] != no_block) next.fixed[clusters.of[n]] = (*fixed)[n];
      }
      next.cluster_of = std::move(clusters.of);
      levels.push_back(std::move(next));
      g = levels.back().graph.view();
      fixed = &levels.back().fixed;
    }
    return levels;
  }

  /// Matches nodes along edges that are heavy relative to the weight of the neighbour. Nodes are visited in
  /// id order for restart 0, and in random order after that.
  static clustering matched(weighted_view const& g, std::vector<std::uint32_t> const& fixed,
                            std::int64_t heaviest, std::uint32_t restart, splitmix& random) {
    cluster_rules const rules{.heaviest = heaviest, .fixed = &fixed};
    std::vector<std::uint32_t> order(g.nodes);
    for (std::uint32_t n = 0; n < g.nodes; ++n) order[n] = n;
    if (restart > 0) random.shuffle(order);
    uninitialized_array<std::uint32_t> leader(g.nodes);
    std::fill_n(leader.data(), g.nodes, no_cluster);
    auto lone = no_block;
    for (auto const n : order) {
      if (leader[n] != no_cluster) continue;
      auto best = no_block;
      double most = 0;
      for (auto e = g.offsets[n], stop = g.offsets[n + 1]; e < stop; ++e) {
        auto const other = g.targets[e];
        if (leader[other] != no_cluster || g.weight(n) + g.weight(other) > heaviest ||
            !rules.may_join(n, other))
          continue;
        auto const rating = static_cast<double>(g.edge_weight(e)) /
                            static_cast<double>(std::max<std::int64_t>(1, g.weight(other)));
        if (rating > most) most = rating, best = other;
      }
      if (best == no_block && g.degree(n) == 0) {
        // Isolated nodes are paired with each other.
        if (lone != no_block && g.weight(n) + g.weight(lone) <= heaviest && rules.may_join(n, lone))
          best = std::exchange(lone, no_block);
        else {
          lone = n;
          leader[n] = n;
          continue;
        }
      }
      auto const lead = best == no_block ? n : (std::min)(n, best);
      leader[n] = lead;
      if (best != no_block) leader[best] = lead;
    }
    return numbered_clusters(std::move(leader), {g.nodes, (std::max)(g.nodes, 1u)}, thread_team{});
  }

  two_sides first_bisection(weighted_view const& g, std::vector<std::uint32_t> const& fixed,
                            splitmix& random) const {
    side_growing growing(g, fixed);
    two_way_fm fm(g, fixed);
    two_sides best;
    for (std::uint32_t i = 0; i < config_.growths; ++i) {
      two_sides s;
      s.limit = limit_;
      if (g.further.limits) s.further.limits = &further_;
      growing.grow(s, i == 0 ? growth::anywhere : growth::around_a_node, aim_, random);
      fm.refine(s, config_.passes, g.nodes);
      if (i == 0 || s.better_than(best)) best = std::move(s);
    }
    return best;
  }

  static two_sides projected(weighted_view const& g, uninitialized_array<std::uint32_t> const& cluster_of,
                             two_sides const& s) {
    two_sides below;
    below.weight = s.weight, below.limit = s.limit, below.cut = s.cut;
    below.further = s.further;
    below.of.resize(g.nodes);
    for (std::uint32_t n = 0; n < g.nodes; ++n) below.of[n] = s.of[cluster_of[n]];
    return below;
  }

  weighted_view g_;
  std::vector<std::uint32_t> fixed_;  // to a side
  std::array<std::int64_t, 2> limit_;
  further_limits further_;  // of the two sides
  std::int64_t aim_;
  bisection_config config_;
};

/// Partitions a small graph by recursive bisection. The slack of the limits is divided among the remaining
/// bisections, so that it lasts to the end.
class repeated_bisection {
 public:
  repeated_bisection(weighted_view const& g, std::vector<std::uint32_t> const& fixed,
                     std::vector<std::int64_t> const& limit, bisection_config const& config,
                     thread_team const& team = thread_team{})
      : limit_(limit), config_(config), team_(team), part_(g.nodes, 0) {
    piece whole;
    whole.parts = static_cast<std::uint32_t>(limit.size());
    whole.fixed = fixed;
    whole.node.resize(g.nodes);
    for (std::uint32_t n = 0; n < g.nodes; ++n) whole.node[n] = n;
    whole.view = g;
    if (g.nodes > 0) most_restarts_ = most_restarts(g, config);
    pieces_.push_back(std::move(whole));
  }

  /// Returns one bisection of the whole graph, the first of those that `parts` compares.
  two_sides first_sides(splitmix random) const { return bisection_of(pieces_[0]).sides(random.next(), 0); }

  std::vector<std::uint32_t> parts(splitmix& random) {
    pieces_[0].random = random;
    skip(random, pieces_[0].parts, 0);
    for (depth_ = 0; !pieces_.empty(); ++depth_) cut_all();
    return std::move(part_);
  }

 private:
  struct piece {
    std::uint32_t first_part = 0, parts = 1;
    std::vector<std::uint32_t> node;   // ids in the whole graph
    std::vector<std::uint32_t> fixed;  // to a part
    level_graph graph;
    weighted_view view;
    splitmix random{0};
  };

  /// Returns the number of restarts that read `config.arcs` directed edges together, at least 1.
  static std::uint32_t most_restarts(weighted_view const& g, bisection_config const& config) {
    auto const edges = std::max<std::uint64_t>(1, g.directed_edges());
    return (std::max)(1u, static_cast<std::uint32_t>(config.arcs / edges));
  }

  /// Returns the number of parts in the first half of `parts` parts.
  std::uint32_t left(std::uint32_t parts) const {
    auto const twice = rounded_product(2 * config_.first_share, static_cast<double>(parts));
    auto const rounded = static_cast<std::uint32_t>(twice + 1) / 2;
    return std::clamp(rounded, 1u, parts - 1);
  }

  std::uint32_t restarts(std::uint32_t depth) const {
    auto const wanted = (std::max)(config_.least_restarts, config_.restarts >> (std::min)(depth, 31u));
    return (std::min)(wanted, most_restarts_);
  }

  /// Advances the generator past the numbers that a piece of `parts` parts and all its descendants use.
  void skip(splitmix& random, std::uint32_t parts, std::uint32_t depth) const {
    if (parts <= 1) return;
    for (std::uint32_t i = 0; i < restarts(depth); ++i) random.next();
    skip(random, parts - left(parts), depth + 1);
    skip(random, left(parts), depth + 1);
  }

  /// Bisects all pieces of the current depth.
  void cut_all() {
    std::vector<multilevel_bisection> bisections;
    std::vector<std::uint64_t> seeds;
    for (auto& p : pieces_) {
      if (p.parts > 1)
        for (std::uint32_t i = 0; i < restarts(depth_); ++i) seeds.push_back(p.random.next());
      else
        for (auto const n : p.node) part_[n] = p.first_part;
    }
    std::erase_if(pieces_, [](piece const& p) { return p.parts == 1; });
    for (auto const& p : pieces_) bisections.push_back(bisection_of(p));
    std::vector<two_sides> tried(seeds.size());
    team_.share(seeds.size(), [&](std::size_t i) {
      auto const restart = static_cast<std::uint32_t>(i % restarts(depth_));
      tried[i] = bisections[i / restarts(depth_)].sides(seeds[i], restart);
    });
    std::vector<piece> halves(2 * pieces_.size());
    team_.share(pieces_.size(), [&](std::size_t i) {
      auto best = i * restarts(depth_);
      for (auto at = best; at < (i + 1) * restarts(depth_); ++at)
        if (tried[at].better_than(tried[best])) best = at;
      auto& p = pieces_[i];
      // The half with more directed edges reuses the arrays of the piece.
      auto const larger = larger_half(p, tried[best]);
      halves[2 * i + 1 - larger] = half(p, tried[best], 1 - larger, {});
      halves[2 * i + larger] = half(p, tried[best], larger, std::move(p.graph));
      halves[2 * i + 1].random = p.random;
      skip(p.random, p.parts - left(p.parts), depth_ + 1);
      halves[2 * i].random = p.random;
      p = {};
    });
    pieces_ = std::move(halves);
  }

  multilevel_bisection bisection_of(piece const& p) const {
    std::int64_t total = 0, room_left = 0, room = 0;
    for (std::uint32_t n = 0; n < p.view.nodes; ++n) total += p.view.weight(n);
    for (std::uint32_t i = 0; i < p.parts; ++i) {
      room = added(room, limit_[p.first_part + i]);
      if (i + 1 == left(p.parts)) room_left = room;
    }
    auto const depth = static_cast<int>(std::bit_width(p.parts - 1));
    std::array<std::int64_t, 2> const limit{side_limit(total, room_left, room, depth),
                                            side_limit(total, room - room_left, room, depth)};
    auto const aim = room == 0 ? 0 : scaled(total, room_left, room);
    return {p.view, sides_of(p), limit, aim, config_, further_side_limits(p, depth)};
  }

  /// Returns the limits of the further weights of both sides of a piece.
  further_limits further_side_limits(piece const& p, int depth) const {
    further_limits sides;
    if (!p.view.further.limits) return sides;
    auto const& all = *p.view.further.limits;
    sides.weights = all.weights;
    sides.unit = all.unit;
    sides.limit.assign(std::size_t{2} * all.weights, 0);
    for (std::uint32_t w = 0; w < all.weights; ++w) {
      std::int64_t total = 0, room_left = 0, room = 0;
      for (std::uint32_t n = 0; n < p.view.nodes; ++n) total += p.view.further.of(n)[w];
      for (std::uint32_t i = 0; i < p.parts; ++i) {
        room = added(room, all.of(p.first_part + i)[w]);
        if (i + 1 == left(p.parts)) room_left = room;
      }
      sides.limit[w] = side_limit(total, room_left, room, depth);
      sides.limit[all.weights + w] = side_limit(total, room - room_left, room, depth);
    }
    return sides;
  }

  /// Adds without overflow: at most half the largest integer, because limits may be as large as the total.
  static std::int64_t added(std::int64_t a, std::int64_t b) {
    constexpr auto most = (std::numeric_limits<std::int64_t>::max)() / 2;
    return a > most - (std::min)(b, most) ? most : a + b;
  }

  /// Returns `total * part / whole`, at most `total`.
  static std::int64_t scaled(std::int64_t total, std::int64_t part, std::int64_t whole) {
    auto const x = static_cast<double>(total) * static_cast<double>(part) / static_cast<double>(whole);
    return x < static_cast<double>(total) ? static_cast<std::int64_t>(x) : total;
  }

  /// Returns the weight limit of a side: its share of the total, plus 1/`depth` of its slack.
  static std::int64_t side_limit(std::int64_t total, std::int64_t side, std::int64_t room, int depth) {
    if (depth <= 1 || room <= total || room - total > total / 8) return side;
    auto const share = scaled(total, side, room) + 1;
    return (std::min)(side, share + (side - share) / depth);
  }

  std::vector<std::uint32_t> sides_of(piece const& p) const {
    auto side = p.fixed;
    for (auto& s : side)
      if (s != no_block) s = s - p.first_part < left(p.parts) ? 0 : 1;
    return side;
  }

  static std::uint8_t larger_half(piece const& p, two_sides const& sides) {
    std::array<std::uint64_t, 2> arcs{};
    for (std::uint32_t n = 0; n < p.view.nodes; ++n) arcs[sides.of[n]] += p.view.degree(n);
    return arcs[1] > arcs[0];
  }

  /// Extracts one side of a piece. `into` is empty, or the graph of the piece, whose arrays are overwritten
  /// from the front while its rows are read.
  piece half(piece const& p, two_sides const& sides, std::uint8_t side, level_graph into) const {
    piece h;
    h.first_part = side == 0 ? p.first_part : p.first_part + left(p.parts);
    h.parts = side == 0 ? left(p.parts) : p.parts - left(p.parts);
    std::vector<std::uint32_t> renamed(p.view.nodes, no_block), kept;
    std::uint64_t arcs = 0;
    for (std::uint32_t n = 0; n < p.view.nodes; ++n) {
      if (sides.of[n] != side) continue;
      renamed[n] = static_cast<std::uint32_t>(kept.size());
      kept.push_back(n);
      h.node.push_back(p.node[n]);
      if (!p.fixed.empty()) h.fixed.push_back(p.fixed[n]);
      arcs += p.view.degree(n);
    }
    if (h.parts == 1) return h;
    auto& g = h.graph;
    g = into.offsets.empty() ? room_for(kept.size(), arcs, p.view) : std::move(into);
    g.nodes = static_cast<std::uint32_t>(kept.size());
    g.limits = p.view.further.limits;
    auto const weights = p.view.further.count();
    for (std::size_t i = 0; i < kept.size() && weights > 0; ++i)
      for (std::uint32_t w = 0; w < weights; ++w) g.further[i * weights + w] = p.view.further.of(kept[i])[w];
    std::uint64_t end = 0;
    for (std::uint32_t i = 0; i < g.nodes; ++i) {
      auto const n = kept[i];
      auto const row = p.view.offsets[n], stop = p.view.offsets[n + 1];
      g.offsets.set(i, end);
      g.node_weights.set(i, p.view.weight(n));
      for (auto e = row; e < stop; ++e) {
        auto const other = renamed[p.view.targets[e]];
        if (other == no_block) continue;
        g.edge_weights.set(end, p.view.edge_weight(e));
        g.targets[end++] = other;
      }
    }
    g.offsets.set(g.nodes, end);
    g.offsets.shrink(g.nodes + std::size_t{1});
    g.node_weights.shrink(g.nodes);
    if (weights > 0) g.further.shrink(kept.size() * weights);
    g.targets.shrink(end);
    g.edge_weights.shrink(end);
    h.view = g.view();
    return h;
  }

  static level_graph room_for(std::size_t nodes, std::uint64_t arcs, weighted_view const& like) {
    level_graph g;
    g.offsets = level_offsets(nodes + 1, width_for_edges(arcs));
    g.targets = uninitialized_array<std::uint32_t>(arcs);
    if (!like.node_weights.all_one()) g.node_weights = level_weights(nodes, like.width());
    if (!like.edge_weights.all_one()) g.edge_weights = level_weights(arcs, like.width());
    if (like.further.limits) g.further = uninitialized_array<std::int64_t>(nodes * like.further.count());
    return g;
  }

  std::vector<std::int64_t> const& limit_;
  bisection_config config_;
  thread_team team_;
  std::vector<std::uint32_t> part_;
  std::uint32_t depth_ = 0, most_restarts_ = 1;
  std::vector<piece> pieces_;
};

}  // namespace cleave::detail
