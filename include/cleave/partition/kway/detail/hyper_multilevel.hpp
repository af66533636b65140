// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/core/random.hpp"
#include "cleave/partition/kway/detail/clique_graph.hpp"
#include "cleave/partition/kway/detail/engine.hpp"
#include "cleave/partition/kway/detail/hyper_level.hpp"
#include "cleave/partition/kway/detail/hyper_refinement.hpp"
#include "cleave/partition/kway/detail/level.hpp"
#include "cleave/partition/kway/detail/refinement.hpp"
#include "cleave/partition/kway/detail/team.hpp"
#include "cleave/partition/kway/hypergraph_options.hpp"
#include "cleave/partition/kway/options.hpp"

namespace cleave::inline v0_2::detail {

/// Effort of the partitioner of hypergraphs.
struct hyper_config {
  kway_preset graph = kway_preset::standard;  ///< preset for the clique graph, whose parts are a candidate
  std::uint32_t trials = 0;                   ///< candidates made on the hypergraph itself
  std::uint32_t small_trials = 4;       ///< more of them, as long as all together read at most 2^15 pins
  std::uint32_t cycles = 2;             ///< times that the best one is coarsened within its parts and refined
  std::uint32_t nodes_a_part = 160;     ///< coarsening stops at this many nodes per part
  std::uint32_t first_bisections = 12;  ///< initial bisections of the smallest level of a bisection
  std::uint32_t label_rounds = 3;       ///< of label propagation on each level
  std::uint32_t passes = 3;             ///< FM passes on each level
  std::size_t max_fruitless_moves = 2000;  ///< moves without improvement before a pass ends
};

/// Returns the effort of a preset.
inline hyper_config choose_hyper_config(kway_preset preset) {
  switch (preset) {
    case kway_preset::fast:
      return {.graph = kway_preset::fast,
              .small_trials = 0,
              .cycles = 0,
              .passes = 1,
              .max_fruitless_moves = 200};
    case kway_preset::standard:
      return {};
    case kway_preset::quality:
      return {.graph = kway_preset::quality,
              .trials = 1,
              .small_trials = 8,
              .cycles = 3,
              .first_bisections = 20,
              .passes = 4,
              .max_fruitless_moves = 4000};
  }
  return {};
}

/// Returns the total weight of the nodes.
inline std::int64_t total_weight(hyper_level const& h) {
  std::int64_t total = 0;
  for (auto const w : h.node_weight) total += w;
  return total;
}

/// Returns the value of the objective. O(pins).
inline std::int64_t cost_of(hyper_level const& h, std::vector<std::uint32_t> const& of, std::uint32_t parts,
                            hypergraph_objective objective) {
  std::vector<std::uint32_t> seen(parts, 0);
  std::int64_t cost = 0;
  for (std::uint32_t e = 0; e < h.nets(); ++e) {
    std::int64_t spread = 0;
    for (auto at = h.net_first[e]; at < h.net_first[e + 1]; ++at)
      spread += std::exchange(seen[of[h.pin[at]]], e + 1) != e + 1;
    if (spread > 1)
      cost += h.net_weight[e] * (objective == hypergraph_objective::connectivity ? spread - 1 : 1);
  }
  return cost;
}

/// The levels above a hypergraph, and their clusters.
struct hyper_hierarchy {
  std::vector<hyper_level> level;                      ///< from fine to coarse, without the finest
  std::vector<std::vector<std::uint32_t>> cluster_of;  ///< of the nodes of each finer level

  hyper_level const& at(std::size_t i, hyper_level const& finest) const {
    return i == 0 ? finest : level[i - 1];
  }
};

/// Coarsens until a level has `least` nodes or hardly shrinks. Only nodes with equal values of `within` are
/// clustered; afterwards, `within` has the values of the coarsest level. If it is empty, any nodes may be.
inline hyper_hierarchy coarsen(hyper_level const& h, std::uint32_t least, std::vector<std::uint32_t>& within,
                               splitmix& random) {
  hyper_hierarchy all;
  auto const total = total_weight(h);
  auto const* top = &h;
  while (top->nodes() > least) {
    hyper_cluster_rules const rules{.heaviest = std::max<std::int64_t>(total / least * 3 / 2, 1),
                                    .least = (std::max)(least, top->nodes() * 2 / 5),
                                    .within = within.empty() ? nullptr : within.data()};
    auto c = clustered(*top, rules, random);
    if (c.count > top->nodes() - top->nodes() / 50) break;
    if (!within.empty()) {
      std::vector<std::uint32_t> above(c.count);
      for (std::uint32_t n = 0; n < top->nodes(); ++n) above[c.of[n]] = within[n];
      within = std::move(above);
    }
    all.level.push_back(contracted(*top, c.of, c.count));
    all.cluster_of.push_back(std::move(c.of));
    top = &all.level.back();
  }
  return all;
}

/// Partitions hypergraphs by the multilevel scheme of hMETIS and KaHyPar: coarsens, cuts the smallest level
/// by recursive bisection, and refines all parts together on the way back. Karypis and others, IEEE TVLSI
/// 7(1), 1999; Schlag and others, ACM JEA 27, 2022.
class hyper_partitioner {
 public:
  hyper_partitioner(std::vector<std::int64_t> limit, hyper_config const& config,
                    hypergraph_objective objective, std::uint64_t seed, kway_observer* observer = nullptr)
      : limit_(std::move(limit)),
        config_(config),
        objective_(objective),
        random_(seed),
        observer_(observer) {}

  partitioned_level parts(hyper_level const& h) {
    auto const k = static_cast<std::uint32_t>(limit_.size());
    std::vector<std::uint32_t> anywhere;
    auto const levels = coarsen(h, config_.nodes_a_part * (std::max)(k, 2u), anywhere, random_);
    notify(kway_phase::coarsened, h.nodes());
    auto const& top = levels.at(levels.level.size(), h);
    partitioned_level p{parts_by_bisection(top), std::vector<std::int64_t>(k, 0), limit_};
    notify(kway_phase::first_cut, top.nodes());
    return project_and_refine(h, levels, std::move(p));
  }

  /// Partitions the clique graph, then refines the result as a partition of the hypergraph.
  partitioned_level parts_of_graph(hyper_level const& h, kway_options options, thread_team const& team) {
    options.preset = config_.graph;
    clique_graph const graph(h);
    options.observer = observer_;
    auto p = run_multilevel(graph.view(), limit_, h.fixed, options, team);
    notify(kway_phase::projected, h.nodes());
    refine(h, p);
    return p;
  }

  /// Coarsens only where neither partition cuts, and refines on the way back. The result is not worse than
  /// `p`. Walshaw, Ann. Oper. Res. 131, 2004; Sanders, Schulz, ALENEX 2012.
  void combine(hyper_level const& h, partitioned_level& p, std::vector<std::uint32_t> const& other) {
    auto const k = p.parts();
    bool const fits = k < 1u << 16;  // a pair of parts fits 32 bits
    auto within = p.of;
    for (std::size_t n = 0; n < within.size() && fits; ++n) within[n] = p.of[n] * k + other[n];
    auto const levels = coarsen(h, config_.nodes_a_part * (std::max)(k, 2u), within, random_);
    notify(kway_phase::coarsened, h.nodes());
    for (auto& both : within) both = fits ? both / k : both;
    auto next = project_and_refine(h, levels,
                                   {std::move(within), std::vector<std::int64_t>(limit_.size(), 0), limit_});
    if (rank_of(h, next) < rank_of(h, p)) p = std::move(next);
  }

  /// Returns the weight above the limits, then the objective.
  std::pair<std::int64_t, std::int64_t> rank_of(hyper_level const& h, partitioned_level const& p) const {
    return {excess_weight(p), cost_of(h, p.of, p.parts(), objective_)};
  }

 private:
  static constexpr std::uint32_t least_nodes = 150;  // coarsening of a bisection stops here

  struct piece {
    hyper_level level;
    std::vector<std::uint32_t> node;  // ids in the level that is bisected
    std::uint32_t first_part = 0, parts = 1;
  };

  void notify(kway_phase phase, std::size_t nodes, std::int64_t gained = 0) const {
    if (observer_) observer_->passed(phase, nodes, gained);
  }

  void refine(hyper_level const& h, partitioned_level& p) {
    auto const before = observer_ ? cost_of(h, p.of, p.parts(), objective_) : 0;
    hyper_refinement refinement(h, p, objective_);
    refinement.rebalance();
    refinement.propagate_labels(config_.label_rounds, random_);
    refinement.refine_by_fm(config_.passes, config_.max_fruitless_moves);
    if (observer_) notify(kway_phase::refined, h.nodes(), before - cost_of(h, p.of, p.parts(), objective_));
  }

  /// Projects parts of the coarsest level down to `h` and refines them on each level.
  partitioned_level project_and_refine(hyper_level const& h, hyper_hierarchy const& levels,
                                       partitioned_level p) {
    for (auto i = levels.level.size() + 1; i-- > 0;) {
      auto const& now = levels.at(i, h);
      if (i < levels.level.size()) {
        std::vector<std::uint32_t> of(now.nodes());
        for (std::uint32_t n = 0; n < now.nodes(); ++n) of[n] = p.of[levels.cluster_of[i][n]];
        p.of = std::move(of);
        notify(kway_phase::projected, now.nodes());
      }
      std::fill(p.weight.begin(), p.weight.end(), 0);
      for (std::uint32_t n = 0; n < now.nodes(); ++n) p.weight[p.of[n]] += now.node_weight[n];
      refine(now, p);
    }
    return p;
  }

  /// Partitions a small level by bisections of bisections.
  std::vector<std::uint32_t> parts_by_bisection(hyper_level const& h) {
    std::vector<std::uint32_t> of(h.nodes(), 0);
    std::vector<piece> open(1);
    open[0].level = h;
    open[0].parts = static_cast<std::uint32_t>(limit_.size());
    for (std::uint32_t n = 0; n < h.nodes(); ++n) open[0].node.push_back(n);
    while (!open.empty()) {
      auto p = std::move(open.back());
      open.pop_back();
      if (p.parts == 1) {
        for (auto const n : p.node) of[n] = p.first_part;
        continue;
      }
      auto const side = bisect(p);
      for (std::uint32_t s = 0; s < 2; ++s) open.push_back(half(p, side, s));
    }
    return of;
  }

  static std::uint32_t left(piece const& p) { return (p.parts + 1) / 2; }

  /// Returns the weight limit of each side. The slack is divided among the bisections that remain.
  std::array<std::int64_t, 2> side_limits(piece const& p) const {
    auto const total = total_weight(p.level);
    double room = 0, room_left = 0;
    for (std::uint32_t i = 0; i < p.parts; ++i) {
      room += static_cast<double>(limit_[p.first_part + i]);
      if (i + 1 == left(p)) room_left = room;
    }
    auto const all = static_cast<double>(total);
    auto const depth = static_cast<double>(std::bit_width(p.parts - 1));
    auto const slack = room > all && total > 0 ? (room / all - 1) / depth : 0;
    auto const limit_of = [&](double side) {
      auto const share = room > 0 ? all * (side / room) : 0;
      return at_most(total, (std::min)(side, share * (1 + slack) + 1));
    };
    return {limit_of(room_left), limit_of(room - room_left)};
  }

  /// Returns the integer part of `x`, or `most` if that is less. \pre `x` is not negative.
  static std::int64_t at_most(std::int64_t most, double x) {
    return x < static_cast<double>(most) ? static_cast<std::int64_t>(x) : most;
  }

  std::vector<std::uint32_t> bisect(piece const& p) {
    auto h = p.level;  // its fixed nodes get sides instead of parts
    for (auto& part : h.fixed)
      if (part != no_block) part = part - p.first_part < left(p) ? 0 : 1;
    auto const limit = side_limits(p);
    std::vector<std::uint32_t> anywhere;
    auto const levels = coarsen(h, least_nodes, anywhere, random_);
    auto const& top = levels.at(levels.level.size(), h);
    hyper_partitioner two({limit[0], limit[1]}, config_, objective_, random_.next());
    partitioned_level best;
    std::pair<std::int64_t, std::int64_t> best_rank{};
    for (std::uint32_t i = 0; i < config_.first_bisections; ++i) {
      partitioned_level next{two.grow_side(top, i), {0, 0}, two.limit_};
      for (std::uint32_t n = 0; n < top.nodes(); ++n) next.weight[next.of[n]] += top.node_weight[n];
      two.refine(top, next);
      auto const rank = two.rank_of(top, next);
      if (i == 0 || rank < best_rank) best = std::move(next), best_rank = rank;
    }
    return two.project_and_refine(h, levels, std::move(best)).of;
  }

  /// Grows side 0 from a random node until it has its share. `attempt` modulo 3 says how: by gain, in
  /// breadth-first order, or at random.
  std::vector<std::uint32_t> grow_side(hyper_level const& h, std::uint32_t attempt) {
    std::vector<std::uint32_t> side(h.nodes(), 1), order(h.nodes());
    std::int64_t total = 0, weight = 0;
    for (std::uint32_t n = 0; n < h.nodes(); ++n) {
      order[n] = n;
      total += h.node_weight[n];
      if (h.is_fixed(n) && h.fixed[n] == 0) side[n] = 0, weight += h.node_weight[n];
    }
    random_.shuffle(order);
    auto const share = static_cast<double>(limit_[0]) /
                       (std::max)(1., static_cast<double>(limit_[0]) + static_cast<double>(limit_[1]));
    auto const aim = at_most(total, static_cast<double>(total) * share);
    gain_buckets open(h.nodes());
    std::vector<std::int64_t> gain(h.nodes(), 0);
    std::vector<std::uint32_t> inside(h.nets(), 0);
    std::int64_t turn = 0;
    auto const take = [&](std::uint32_t n) {
      side[n] = 0;
      weight += h.node_weight[n];
      for (auto at = h.node_first[n]; at < h.node_first[n + 1]; ++at) {
        auto const e = h.net[at];
        auto const before = inside[e]++;
        if (attempt % 3 == 2 || h.size_of(e) > hyper_cluster_rules{}.largest_net) continue;
        if (before > 0 && before + 2 != h.size_of(e)) continue;
        for (auto i = h.net_first[e]; i < h.net_first[e + 1]; ++i) {
          auto const other = h.pin[i];
          if (side[other] == 0 || h.is_fixed(other)) continue;
          if (attempt % 3 == 1) {
            if (!open.contains(other)) open.put(other, --turn);
          } else {
            gain[other] += h.net_weight[e];
            open.put(other, gain[other]);
          }
        }
      }
    };
    std::size_t next = 0;
    while (weight < aim) {
      auto n = no_block;
      if (!open.empty())
        n = open.pop();
      else
        while (next < order.size() && (side[order[next]] == 0 || h.is_fixed(order[next]))) ++next;
      if (n == no_block) {
        if (next == order.size()) break;
        n = order[next];
      }
      if (side[n] == 0) continue;
      if (weight + h.node_weight[n] > limit_[0] && weight > 0) {
        if (open.empty() && ++next >= order.size()) break;
        continue;
      }
      take(n);
    }
    return side;
  }

  /// Extracts a side of a piece. A net keeps its pins on the side; if cut nets count once, cut nets are
  /// dropped.
  piece half(piece const& p, std::vector<std::uint32_t> const& side, std::uint32_t which) const {
    piece s;
    s.first_part = which == 0 ? p.first_part : p.first_part + left(p);
    s.parts = which == 0 ? left(p) : p.parts - left(p);
    auto const& h = p.level;
    std::vector<std::uint32_t> renamed(h.nodes(), no_block), fixed;
    std::vector<std::int64_t> weight;
    for (std::uint32_t n = 0; n < h.nodes(); ++n) {
      if (side[n] != which) continue;
      renamed[n] = static_cast<std::uint32_t>(s.node.size());
      s.node.push_back(p.node[n]);
      weight.push_back(h.node_weight[n]);
      if (!h.fixed.empty()) fixed.push_back(h.fixed[n]);
    }
    if (s.parts == 1) return s;
    hyper_builder builder(s.node.size());
    for (std::uint32_t e = 0; e < h.nets(); ++e) {
      std::uint32_t kept = 0;
      for (auto at = h.net_first[e]; at < h.net_first[e + 1]; ++at) kept += renamed[h.pin[at]] != no_block;
      bool const whole = kept == h.size_of(e);
      if (kept < 2 || (!whole && objective_ == hypergraph_objective::cut_nets)) continue;
      for (auto at = h.net_first[e]; at < h.net_first[e + 1]; ++at)
        if (renamed[h.pin[at]] != no_block) builder.add_pin(renamed[h.pin[at]]);
      builder.end_net(h.net_weight[e]);
    }
    s.level = builder.level(std::move(weight), std::move(fixed));
    return s;
  }

  std::vector<std::int64_t> limit_;
  hyper_config config_;
  hypergraph_objective objective_;
  splitmix random_;
  kway_observer* observer_;
};

/// Partitions a hypergraph: makes candidates, which may run at the same time, and combines the best one with
/// each of the others.
inline partitioned_level hyper_parts(hyper_level const& h, std::vector<std::int64_t> const& limit,
                                     kway_options const& o, hypergraph_objective objective) {
  auto const config = choose_hyper_config(o.preset);
  splitmix random(o.seed);
  auto const small = std::min<std::size_t>(config.small_trials, (1u << 15) / (h.pin.size() + 1));
  std::vector<std::uint64_t> seeds(1 + std::max<std::size_t>(config.trials, small));
  for (auto& seed : seeds) seed = random.next();
  std::vector<partitioned_level> made(seeds.size());
  thread_team const each((std::max)(1u, o.threads / static_cast<std::uint32_t>(made.size())));
  thread_team(o.threads).share_with_tools(made.size(), [&](std::size_t i, std::size_t thread) {
    hyper_partitioner partitioner(limit, config, objective, seeds[i], thread == 0 ? o.observer : nullptr);
    made[i] = i == 0 ? partitioner.parts_of_graph(h, o, each) : partitioner.parts(h);
  });
  hyper_partitioner last(limit, config, objective, random.next(), o.observer);
  auto const best = std::min_element(made.begin(), made.end(), [&](auto const& a, auto const& b) {
    return last.rank_of(h, a) < last.rank_of(h, b);
  });
  std::swap(*best, made.front());
  auto p = std::move(made.front());
  for (std::size_t i = 1; i < made.size(); ++i) last.combine(h, p, made[i].of);
  for (std::uint32_t cycle = 0; cycle < config.cycles; ++cycle) last.combine(h, p, p.of);
  if (excess_weight(p) > 0 || std::find(p.weight.begin(), p.weight.end(), 0) != p.weight.end()) {
    clique_graph const graph(h);
    finish_parts(graph.view(), p, h.fixed);
  }
  return p;
}

}  // namespace cleave::detail
