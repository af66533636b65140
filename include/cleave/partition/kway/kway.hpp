// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/random.hpp"
#include "cleave/graph/adjacency.hpp"
#include "cleave/graph/neighbours.hpp"
#include "cleave/partition/kway/detail/coarsening.hpp"
#include "cleave/partition/kway/detail/effort.hpp"
#include "cleave/partition/kway/detail/flow.hpp"
#include "cleave/partition/kway/detail/level.hpp"
#include "cleave/partition/kway/detail/multilevel.hpp"
#include "cleave/partition/kway/detail/probe.hpp"
#include "cleave/partition/kway/detail/refinement.hpp"
#include "cleave/partition/kway/detail/team.hpp"
#include "cleave/partition/kway/options.hpp"
#include "cleave/partition/model/partition.hpp"

namespace cleave::detail {

struct jet_options {
  std::array<double, 3> boldness{0.75, 0.35, 0};  ///< of its ties to its part a node may lose, round by round
  std::uint32_t patience = 8;                     ///< steps without a smaller cut before a round ends
};

/// Moves many nodes at once, as if limits did not exist, then brings the parts back into their limits;
/// returns to the best state seen. A node that would lose takes part if the moves of nodes that gain more
/// make up for it. Gilbert, Madduri, Boman, Rajamanickam, SIAM J. Sci. Comput. 46(5), 2024 (Jet); rounds of
/// falling boldness: Krause, Gottesbüren, Maas, 2025.
class jet_refinement {
 public:
  jet_refinement(weighted_view const& g, level_parts& p, std::span<std::uint32_t const> fixed)
      : g_(g),
        p_(p),
        fixed_(fixed),
        links_(p.parts()),
        gain_(g.nodes),
        target_(g.nodes, free_node),
        locked_(g.nodes) {}

  /// By how much the cut fell; below 0 only if limits were broken before. `active` holds all nodes with
  /// neighbours in other parts, and does so afterwards.
  std::int64_t refine(active_nodes& active, jet_options const& options) {
    keep_best(0);
    best_excess_ = excess();
    std::int64_t now = 0;
    for (auto const boldness : options.boldness) {
      for (std::uint32_t idle = 0; idle < options.patience; ++idle) {
        auto const moved = step(active, boldness, now);
        now += rebalance(active);
        auto const over = excess();
        if (over < best_excess_ || (over == best_excess_ && now > best_gain_)) {
          if (now - best_gain_ > 0) idle = 0;
          best_excess_ = over;
          keep_best(now);
        }
        if (!moved) break;
      }
      restore_best(active);
      now = best_gain_;
      std::fill(locked_.begin(), locked_.end(), std::uint8_t{0});
      moved_.clear();
    }
    return best_gain_;
  }

 private:
  struct step_back {
    std::uint32_t node, from;
  };

  std::int64_t excess() const {
    std::int64_t sum = 0;
    for (std::uint32_t part = 0; part < p_.parts(); ++part) sum += std::max<std::int64_t>(0, -p_.room(part));
    return sum;
  }

  void keep_best(std::int64_t gain) {
    best_gain_ = gain;
    since_best_.clear();
  }
  void restore_best(active_nodes& active) {
    for (auto i = since_best_.size(); i-- > 0;) {
      auto const [n, from] = since_best_[i];
      move_node(g_, p_, n, from);
      active.add(n);
      for (auto a = g_.first[n], stop = g_.first[n + 1]; a < stop; ++a) active.add(g_.head[a]);
    }
    since_best_.clear();
  }

  /// Moves a node; by how much the cut falls.
  std::int64_t move(std::uint32_t n, std::uint32_t to, active_nodes& active) {
    auto const from = p_.of[n];
    std::int64_t gain = 0;
    for (auto a = g_.first[n], stop = g_.first[n + 1]; a < stop; ++a) {
      auto const part = p_.of[g_.head[a]];
      if (part == to) gain += g_.arc_weight(a);
      if (part == from) gain -= g_.arc_weight(a);
      active.add(g_.head[a]);
    }
    active.add(n);
    since_best_.push_back({n, from});
    move_node(g_, p_, n, to);
    return gain;
  }

  bool is_free(std::uint32_t n) const { return fixed_.empty() || fixed_[n] == free_node; }

  /// One simultaneous move. Whether there was any.
  bool step(active_nodes& active, double boldness, std::int64_t& now) {
    propose(active, boldness);
    chosen_.clear();
    for (auto const n : proposed_)
      if (gain_after_better(n) >= 0) chosen_.push_back(n);
    for (auto const n : moved_) locked_[n] = 0;
    for (auto const n : chosen_) now += move(n, target_[n], active), locked_[n] = 1;
    for (auto const n : proposed_) target_[n] = free_node;
    std::swap(moved_, chosen_);
    return !moved_.empty();
  }

  /// Finds for each active node the part it is tied to most, and drops those without neighbours elsewhere.
  void propose(active_nodes& active, double boldness) {
    proposed_.clear();
    std::size_t kept = 0;
    for (std::size_t i = 0; i < active.list.size(); ++i) {
      auto const n = active.list[i];
      auto const own = p_.of[n];
      links_.count(g_, p_.of, n);
      std::uint32_t to = free_node;
      for (auto const part : links_.nearby())
        if (part != own && (to == free_node || links_.to(part) > links_.to(to))) to = part;
      if (to == free_node) {
        active.is[n] = 0;
        continue;
      }
      active.list[kept++] = n;
      if (locked_[n] || !is_free(n)) continue;
      auto const gain = links_.to(to) - links_.to(own);
      if (gain < 0 && static_cast<double>(-gain) >= boldness * static_cast<double>(links_.to(own))) continue;
      gain_[n] = gain;
      target_[n] = to;
      proposed_.push_back(n);
    }
    active.list.resize(kept);
  }

  /// The gain of a proposed move after all proposed ones that gain more.
  std::int64_t gain_after_better(std::uint32_t n) const {
    std::int64_t gain = 0;
    auto const own = p_.of[n], to = target_[n];
    for (auto a = g_.first[n], stop = g_.first[n + 1]; a < stop; ++a) {
      auto const other = g_.head[a];
      bool const before =
          target_[other] != free_node && (gain_[other] > gain_[n] || (gain_[other] == gain_[n] && other < n));
      auto const part = before ? target_[other] : p_.of[other];
      if (part == to) gain += g_.arc_weight(a);
      if (part == own) gain -= g_.arc_weight(a);
    }
    return gain;
  }

  /// Moves nodes out of parts that break their limits, those first that lose least for their weight. By how
  /// much the cut fell.
  std::int64_t rebalance(active_nodes& active) {
    std::int64_t gained = 0;
    if (excess() == 0) return 0;
    heap_.clear();
    for (auto const n : active.list)
      if (p_.room(p_.of[n]) < 0) offer(n);
    std::make_heap(heap_.begin(), heap_.end());
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end());
      auto const [price, n] = heap_.back();
      heap_.pop_back();
      if (p_.room(p_.of[n]) >= 0) continue;
      auto const to = way_out(n);
      if (to == free_node) continue;
      if (auto const actual = worth(n, to); actual < price) {
        heap_.push_back({actual, n});
        std::push_heap(heap_.begin(), heap_.end());
        continue;
      }
      gained += move(n, to, active);
      for (auto a = g_.first[n], stop = g_.first[n + 1]; a < stop; ++a) {
        auto const other = g_.head[a];
        if (p_.of[other] != p_.of[n] && p_.room(p_.of[other]) < 0 && !offered_[other]) {
          auto const size = heap_.size();
          offer(other);
          if (heap_.size() > size) std::push_heap(heap_.begin(), heap_.end());
        }
      }
    }
    for (auto const n : offers_) offered_[n] = 0;
    offers_.clear();
    return gained;
  }

  void offer(std::uint32_t n) {
    if (!is_free(n) || g_.weight(n) <= 0) return;
    if (offered_.empty()) offered_.assign(g_.nodes, 0);
    offered_[n] = 1;
    offers_.push_back(n);
    if (auto const to = way_out(n); to != free_node) heap_.push_back({worth(n, to), n});
  }

  /// Where a node may go from a part that is too heavy; counts its links.
  std::uint32_t way_out(std::uint32_t n) {
    links_.count(g_, p_.of, n);
    return links_.best_target(p_, p_.of[n], g_.weight(n));
  }
  double worth(std::uint32_t n, std::uint32_t to) const {
    auto const gain = static_cast<double>(links_.to(to) - links_.to(p_.of[n]));
    auto const weight = static_cast<double>(g_.weight(n));
    return gain > 0 ? gain * weight : gain / weight;
  }

  weighted_view const& g_;
  level_parts& p_;
  std::span<std::uint32_t const> fixed_;
  part_links links_;
  std::vector<std::int64_t> gain_;
  std::vector<std::uint32_t> target_;  // of what is proposed
  std::vector<std::uint8_t> locked_;   // moved in the last step
  std::vector<std::uint8_t> offered_;
  std::vector<std::uint32_t> proposed_, chosen_, moved_, offers_;
  std::vector<std::pair<double, std::uint32_t>> heap_;
  std::vector<step_back> since_best_;
  std::int64_t best_gain_ = 0, best_excess_ = 0;
};

/// Refines by moves without limits; the decrease of the cut.
inline std::int64_t refine_by_jet(weighted_view const& g, level_parts& p,
                                  std::span<std::uint32_t const> fixed, active_nodes& active,
                                  jet_options const& options) {
  return jet_refinement(g, p, fixed).refine(active, options);
}

/// What is worth its time where a small cut matters more.
struct quality_effort {
  level_effort standard;             ///< of the first trial, and of levels made within parts
  std::vector<level_effort> trials;  ///< of the further ones, each combined with the best so far
  std::uint32_t jet_nodes = 60'000;  ///< of levels on which moves without limits are tried
  jet_options jet{};
  std::uint32_t flow_nodes = ~0u;  ///< of the largest level on which combined parts are refined by flows
  std::uint32_t strip_rounds = 2;  ///< of flows in wide strips, at the end
  double strip_share = 1;          ///< nodes of such strips times steps across them, of all nodes
  std::uint32_t swap_rounds = 0;   ///< of swaps, and moves after each, at the end
};

/// The work that the best preset means for a graph.
inline quality_effort quality_effort_of(weighted_view const& g, std::uint32_t parts,
                                        thread_team const& team = thread_team{}) {
  quality_effort e;
  e.standard = effort_of(kway_preset::quality, g, parts, team);
  auto const probe = probe_degrees(g, team);
  bool const local = !lacks_locality(g, probe);
  if (!local && has_sparse_periphery(g, probe)) {
    e.strip_rounds = 0, e.swap_rounds = 4;
    return e;
  }
  if (probe.skewed()) {
    e.trials = {e.standard, e.standard};
    e.flow_nodes = 60'000, e.strip_rounds = 0;
    return e;
  }
  if (parts == 2) {
    e.strip_share = 0.5;
    if (!probe.regular() && probe.mean > 8 && closed_wedges(g) > 0.25) {
      e.trials = {e.standard};
      e.trials[0].shrink = 4;  // there are few good cuts, and clusters of one size may miss them all
    }
    return e;
  }
  if (probe.dense_mesh() && parts <= 8) return e;  // straight cuts, which all trials find
  e.trials = {e.standard};
  e.trials[0].bisection.first_share = 1. / 3;  // parts in rows of unlike lengths, which may cut less
  if (probe.dense_mesh() || !local) return e;
  e.trials[0].first = first_method::bisections;
  auto other = e.standard;
  if (probe.regular() && probe.mean > 5) {  // grids in space
    other.clusters = coarsening::labels, other.tie = cluster_tie::lighter;
    e.trials.push_back(other);
  } else if (!probe.regular() && suits_centres(g, parts)) {
    other.first = other.first == first_method::centres ? first_method::bisections : first_method::centres;
    e.trials.push_back(other);
  }
  return e;
}

/// Several multilevel partitions, the best of which is combined with the others: coarsened where neither
/// cuts, and refined on the way back. In the end, least cuts in wide strips between its parts. Sanders,
/// Schulz, ESA 2011 (flows, cycles), and ALENEX 2012 (combinations); Walshaw, Ann. Oper. Res. 131, 2004
/// (cycles).
class quality_kway {
 public:
  quality_kway(std::vector<std::int64_t> limit, quality_effort effort, std::uint64_t seed,
               thread_team const& team, kway_observer* observer)
      : limit_(std::move(limit)), effort_(std::move(effort)), seed_(seed), team_(team), observer_(observer) {}

  /// Never worse than what `multilevel_kway` makes with the same seed and the effort `standard`.
  level_parts parts(weighted_view const& g, std::vector<std::uint32_t> const& fixed) {
    auto made = trials(g, fixed);
    std::vector<rank> ranks;
    for (auto const& p : made) ranks.push_back(rank_of(g, p));
    auto const least = std::min_element(ranks.begin(), ranks.end()) - ranks.begin();
    std::swap(made[0], made[static_cast<std::size_t>(least)]);
    auto best = std::move(made[0]);
    for (std::size_t i = 1; i < made.size(); ++i) {
      number_together(best, made[i].of);
      cycle(g, fixed, best, std::move(made[i].of));
    }
    finish(g, fixed, best);
    return best;
  }

  /// Better parts than `p`, which may break their limits.
  void improve(weighted_view const& g, std::vector<std::uint32_t> const& fixed, level_parts& p) {
    weigh_edges(g);
    refine(g, fixed, p);
    cycle(g, fixed, p, p.of);
    finish(g, fixed, p);
  }

 private:
  using rank = std::pair<std::int64_t, std::int64_t>;  // by weight above limits, then by cut

  static rank rank_of(weighted_view const& g, level_parts const& p) {
    return {excess_weight(p), cut_of(g, p.of)};
  }

  void tell(kway_phase phase, std::size_t nodes, std::int64_t gained = 0) const {
    if (observer_) observer_->passed(phase, nodes, gained);
  }

  /// Independent partitions, made at the same time where there are threads.
  std::vector<level_parts> trials(weighted_view const& g, std::vector<std::uint32_t> const& fixed) const {
    auto const count = effort_.trials.size() + 1;
    std::vector<std::uint64_t> seeds{seed_};
    splitmix random(seed_);
    while (seeds.size() < count) seeds.push_back(random.next());
    std::vector<level_parts> made(count);
    thread_team const each((std::max)(1u, team_.threads() / static_cast<std::uint32_t>(count)));
    team_.share(count, [&](std::size_t i) {
      auto const& effort = i == 0 ? effort_.standard : effort_.trials[i - 1];
      made[i] = multilevel_kway(limit_, effort, seeds[i], each, i == 0 ? observer_ : nullptr).parts(g, fixed);
    });
    return made;
  }

  /// Makes the numbers of other parts numbers of what is together there and in `p`.
  static void number_together(level_parts const& p, std::vector<std::uint32_t>& other) {
    bool const fits = p.parts() < 1u << 16;  // pairs of parts need no more than 32 bits
    for (std::size_t n = 0; n < other.size(); ++n) other[n] = fits ? p.of[n] * p.parts() + other[n] : p.of[n];
  }

  void weigh_edges(weighted_view const& g) {
    edge_total_ = 0;
    for (std::uint32_t a = 0; a < g.arcs(); ++a) edge_total_ += g.arc_weight(a);
    edge_total_ /= 2;
  }

  void refine(weighted_view const& g, std::vector<std::uint32_t> const& fixed, level_parts& p) {
    auto active = boundary_of(g, p.of, team_);
    auto gained = refine_level(g, p, fixed, active, effort_.standard, team_);
    bool const tangled = 5 * cut_of(g, p.of) > edge_total_;  // no narrow strip holds a cut
    if (g.nodes <= effort_.jet_nodes && !tangled) gained += refine_by_jet(g, p, fixed, active, effort_.jet);
    if (g.nodes <= effort_.flow_nodes && effort_.standard.flow_rounds > 0)
      gained += refine_by_flows(g, p, fixed, active,
                                {.width = {.steps = effort_.standard.flow_steps}, .rounds = 1}, team_);
    tell(kway_phase::refined, g.nodes, gained);
  }

  /// Coarsens within the parts, or what `together` numbers within them, and refines on the way back.
  void cycle(weighted_view const& g, std::vector<std::uint32_t> const& fixed, level_parts& p,
             std::vector<std::uint32_t> together) {
    weigh_edges(g);
    auto stack = level_hierarchy(p.parts(), effort_.standard, team_).above(g, together);
    together = {};
    if (stack.empty()) return refine(g, fixed, p);
    auto const before = p;
    auto bound = fixed;
    for (auto& above : stack) {
      p.of = lifted(p.of, above);
      bound = above.fixed = lifted(bound, above);
    }
    auto const top = stack.back().graph.view();
    std::fill(p.weight.begin(), p.weight.end(), 0);
    for (std::uint32_t n = 0; n < top.nodes; ++n) p.weight[p.of[n]] += top.weight(n);
    refine(top, stack.back().fixed, p);
    while (!stack.empty()) {
      auto const cluster_of = std::move(stack.back().cluster_of);
      stack.pop_back();
      if (stack.empty())
        descend(g, fixed, cluster_of, p);
      else
        descend(stack.back().graph.view(), stack.back().fixed, cluster_of, p);
    }
    if (rank_of(g, before) < rank_of(g, p)) p = before;
  }

  void descend(weighted_view const& below, std::vector<std::uint32_t> const& fixed,
               raw_array<std::uint32_t> const& cluster_of, level_parts& p) {
    project(below, p, fixed, cluster_of, team_);
    tell(kway_phase::projected, below.nodes);
    refine(below, fixed, p);
  }

  /// The parts that the nodes of a level are in, from those of the level below: if any member is in one.
  static std::vector<std::uint32_t> lifted(std::vector<std::uint32_t> const& of, level_above const& above) {
    if (of.empty()) return {};
    std::vector<std::uint32_t> up(above.graph.nodes, free_node);
    for (std::size_t n = 0; n < of.size(); ++n)
      if (of[n] != free_node && above.cluster_of[n] != no_cluster) up[above.cluster_of[n]] = of[n];
    return up;
  }

  void finish(weighted_view const& g, std::vector<std::uint32_t> const& fixed, level_parts& p) {
    auto deep = effort_.standard;
    deep.passes = 10, deep.patience = 5000;
    std::int64_t gained = 0;
    for (std::uint32_t i = 0; i < effort_.swap_rounds; ++i) {
      auto active = boundary_of(g, p.of, team_);
      auto const gain = refine_level(g, p, fixed, active, deep, team_) + refine_by_swaps(g, p, fixed, 20);
      gained += gain;
      if (gain <= 0) break;
    }
    if (effort_.strip_rounds > 0) {
      auto active = boundary_of(g, p.of, team_);
      auto const steps = strip_steps(g, active);
      gained += refine_by_flows(g, p, fixed, active,
                                {.width = {.steps = steps}, .rounds = effort_.strip_rounds}, team_);
    }
    tell(kway_phase::refined, g.nodes, gained);
  }

  /// How wide strips may be: the time they take grows with the square.
  std::uint32_t strip_steps(weighted_view const& g, active_nodes const& boundary) const {
    auto const border = static_cast<double>(boundary.list.size());
    auto const fits = [&](std::uint32_t steps) {
      return border * steps * steps <= effort_.strip_share * g.nodes;
    };
    std::uint32_t steps = 2;
    while (steps < 48 && fits(steps + 1)) ++steps;
    return steps;
  }

  std::vector<std::int64_t> limit_;
  quality_effort effort_;
  std::uint64_t seed_;
  thread_team const& team_;
  kway_observer* observer_;
  std::int64_t edge_total_ = 0;
};

/// What a front asks of the engine: a graph, limits, options, and parts to start from if there are any.
struct kway_task {
  flat_graph const& graph;
  std::vector<std::int64_t> limit;
  std::vector<std::uint32_t> fixed;
  std::vector<std::uint32_t> start;
  kway_options const& options;

  std::uint32_t parts() const { return static_cast<std::uint32_t>(limit.size()); }
};

inline void finish_parts(weighted_view const& g, level_parts& p, std::vector<std::uint32_t> const& fixed) {
  if (excess_weight(p) > 0) {
    auto active = no_active_nodes(g.nodes);
    rebalance(g, p, fixed, active);
    pack_if_over(g, p, fixed);
  }
  fill_empty_parts(g, p, fixed);
}

/// The parts that a preset makes.
inline level_parts made_parts(weighted_view const& g, kway_task const& task, thread_team const& team) {
  auto const& o = task.options;
  if (o.preset == kway_preset::quality)
    return quality_kway(task.limit, quality_effort_of(g, task.parts(), team), o.seed, team, o.observer)
        .parts(g, task.fixed);
  return multilevel_kway(task.limit, effort_of(o.preset, g, task.parts(), team), o.seed, team, o.observer)
      .parts(g, task.fixed);
}

/// The parts that are given, refined as the preset says.
inline level_parts refined_parts(weighted_view const& g, kway_task& task, thread_team const& team) {
  auto const& o = task.options;
  level_parts p{std::move(task.start), std::vector<std::int64_t>(task.limit.size()), task.limit};
  for (std::uint32_t n = 0; n < g.nodes; ++n) p.weight[p.of[n]] += g.weight(n);
  if (o.preset == kway_preset::quality) {
    quality_kway(task.limit, quality_effort_of(g, p.parts(), team), o.seed, team, o.observer)
        .improve(g, task.fixed, p);
  } else {
    auto active = boundary_of(g, p.of, team);
    refine_level(g, p, task.fixed, active, effort_of(o.preset, g, p.parts(), team), team);
  }
  return p;
}

inline level_parts parts_of_level(weighted_view const& g, kway_task& task) {
  thread_team const team(task.options.threads);
  auto p = task.start.empty() ? made_parts(g, task, team) : refined_parts(g, task, team);
  finish_parts(g, p, task.fixed);
  return p;
}

/// Parts of the nodes.
inline level_parts kway_parts(kway_task task) {
  auto const& f = task.graph;
  return parts_of_level(weighted_view{f.nodes, f.first, f.head, f.node_weight.data(), f.arc_weight.data()},
                        task);
}

}  // namespace cleave::detail

namespace cleave {

/// What sums of weights are held in.
template <weight_number Weight>
using weight_total = std::conditional_t<std::floating_point<Weight>, double, std::int64_t>;

/// Parts of an undirected graph, and what they reach.
template <weight_number NodeWeight = std::int64_t, weight_number EdgeWeight = NodeWeight>
struct kway_partition : partition {
  weight_total<EdgeWeight> cut{};                        ///< weight of the edges between parts
  std::vector<weight_total<NodeWeight>> part_weights{};  ///< of the nodes of each part
  double imbalance = 0;       ///< of the part furthest above its share: 0.03 is 3 %
  bool within_limits = true;  ///< false where weights of nodes allow no balance found
};

}  // namespace cleave

namespace cleave::detail {

/// A given partition does not fit the graph: `witness` is the first node without a part, or the number of
/// nodes that it has.
using kway_start_error = tagged_error<struct kway_start_tag, std::size_t>;

/// Cut, weights and imbalance of parts, in the user's units.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
kway_partition<NodeWeight, EdgeWeight> weighed_parts(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g,
                                                     partition p, kway_options const& options) {
  kway_partition<NodeWeight, EdgeWeight> result;
  static_cast<partition&>(result) = std::move(p);
  result.part_weights.assign(result.parts, 0);
  struct sums {
    weight_total<EdgeWeight> cut{};
    std::vector<weight_total<NodeWeight>> weight{};
  };
  id_ranges const ranges{static_cast<std::uint32_t>(g.nodes()), 1u << 16};
  std::vector<sums> piece(ranges.count());
  thread_team(options.threads).share(ranges.count(), [&](std::size_t r) {
    sums s{0, std::vector<weight_total<NodeWeight>>(result.parts, 0)};
    for (std::size_t n = ranges.begin(r); n < ranges.end(r); ++n) {
      auto const own = result.of[n];
      s.weight[index(own)] += static_cast<weight_total<NodeWeight>>(g.weight(n));
      for (auto arc = static_cast<std::size_t>(g.offsets[n]);
           arc < static_cast<std::size_t>(g.offsets[n + 1]); ++arc)
        if (auto const to = static_cast<std::size_t>(g.targets[arc]); to > n && result.of[to] != own)
          s.cut += static_cast<weight_total<EdgeWeight>>(g.weight_of_arc(arc));
    }
    piece[r] = std::move(s);
  });
  weight_total<NodeWeight> total = 0;
  for (auto const& s : piece) {
    result.cut += s.cut;
    for (std::uint32_t part = 0; part < result.parts; ++part) {
      result.part_weights[part] += s.weight[part];
      total += s.weight[part];
    }
  }
  auto const fair = fair_weights(total, result.parts, options);
  for (std::uint32_t part = 0; part < result.parts; ++part)
    if (fair[part] > 0)
      result.imbalance =
          (std::max)(result.imbalance,
                     static_cast<double>(result.part_weights[part]) / static_cast<double>(fair[part]) - 1);
  return result;
}

/// Parts for a graph that has been checked, better ones than `start` if that is not empty.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
kway_partition<NodeWeight, EdgeWeight> kway_from(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g,
                                                 std::uint32_t k, std::vector<std::uint32_t> start,
                                                 kway_options const& options, std::size_t loops) {
  auto const flat = make_flat(g, loops);
  kway_task task{flat, {}, {}, std::move(start), options};
  auto const fair = fair_weights(flat.node_total, k, options);
  task.limit = weight_limits(flat, fair, options);
  for (auto const part : options.fixed) task.fixed.push_back(part == no_part ? free_node : index(part));
  partition p{.of = {}, .parts = k};
  bool within = true;
  if (k == 1 || flat.nodes == 0) {
    p.of.assign(flat.nodes, part_id{0});
  } else {
    auto const parts = kway_parts(std::move(task));
    p.of.resize(flat.nodes);
    id_ranges const ranges{flat.nodes, 1u << 16};
    thread_team(options.threads).share(ranges.count(), [&](std::size_t r) {
      for (auto n = ranges.begin(r); n < ranges.end(r); ++n) p.of[n] = part_id{parts.of[n]};
    });
    within = excess_weight(parts) == 0;
  }
  auto result = weighed_parts(g, std::move(p), options);
  result.within_limits = within;
  return result;
}

}  // namespace cleave::detail

namespace cleave {

/// Cuts an undirected graph into k parts so that the weight of the edges between them is small and no part
/// weighs more than (1 + imbalance) times its share of the nodes, rounded up; more only where a node, or what
/// is fixed, is too heavy for that. No part is empty if there are nodes enough and shares are alike. The same
/// for a seed with any number of threads and any compiler. O((n + m) * log k).
/// \throws adjacency_error, kway_option_error, kway_size_error.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
kway_partition<NodeWeight, EdgeWeight> partition_kway(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g,
                                                      std::uint32_t k, kway_options const& options = {}) {
  detail::check_options(options, g.nodes(), k);
  auto const loops = detail::check_arrays(g, detail::thread_team(options.threads));
  return detail::kway_from(g, k, {}, options, loops);
}

/// Moves nodes of a given partition, from wherever it comes, so that it is within its limits and the cut is
/// smaller; `fixed` nodes go where they belong first.
/// \throws adjacency_error, kway_option_error, kway_size_error, kway_start_error.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
kway_partition<NodeWeight, EdgeWeight> refine_kway(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g,
                                                   partition const& start, kway_options const& options = {}) {
  detail::check_options(options, g.nodes(), start.parts);
  auto const loops = detail::check_arrays(g, detail::thread_team(options.threads));
  if (start.of.size() != g.nodes())
    throw detail::kway_start_error("k-way partition: the start has parts for " +
                                       std::to_string(start.of.size()) + " nodes of " +
                                       std::to_string(g.nodes()),
                                   start.of.size());
  std::vector<std::uint32_t> of(g.nodes());
  for (std::size_t n = 0; n < of.size(); ++n) {
    of[n] = index(options.fixed.empty() || options.fixed[n] == no_part ? start.of[n] : options.fixed[n]);
    if (of[n] >= start.parts)
      throw detail::kway_start_error("k-way partition: the start gives node #" + std::to_string(n) +
                                         " no part below " + std::to_string(start.parts),
                                     n);
  }
  return detail::kway_from(g, start.parts, std::move(of), options, loops);
}

}  // namespace cleave

/// k-way partitions of a user's own undirected graph, by position in `nodes()`. The graph is read anew by
/// each call; who makes several reads it once, by `neighbours_of`.
namespace cleave {

/// \throws neighbour_error, and what the function on arrays throws.
template <undirected_graph Graph>
auto partition_kway(Graph const& g, std::uint32_t k, kway_options const& options = {}) {
  return detail::with_neighbours(g, [&](auto const& s) { return partition_kway(s.view(), k, options); });
}

/// \throws neighbour_error, and what the function on arrays throws.
template <undirected_graph Graph>
auto refine_kway(Graph const& g, partition const& start, kway_options const& options = {}) {
  return detail::with_neighbours(g, [&](auto const& s) { return refine_kway(s.view(), start, options); });
}
}  // namespace cleave
