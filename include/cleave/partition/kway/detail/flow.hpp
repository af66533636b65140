// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cleave/graph/flow/undirected_flow.hpp"
#include "cleave/partition/kway/detail/level.hpp"
#include "cleave/partition/kway/detail/refinement.hpp"
#include "cleave/partition/kway/detail/team.hpp"

namespace cleave::inline v0_2::detail {

/// A flow network with a cut that may be moved. The source side belongs to one part and the sink side to the
/// other.
struct cut_network {
  undirected_flow flow;              ///< node 0: everything beyond the source side; node 1: everything beyond
                                     ///< the sink side
  std::vector<std::int64_t> weight;  ///< of each node
  std::vector<std::int32_t> depth;   ///< steps from the cut: positive on the source side, negative on the
                                     ///< sink side
  std::array<std::int64_t, 2> limit{};  ///< weight limits of the source side and the sink side
};

/// A cut found by `flow_cutter`.
struct flow_cut {
  flow_end end;         ///< the end whose reachable set is one side
  std::int64_t weight;  ///< of the cut edges
  std::int64_t excess;  ///< weight of the heavier side above half of the total
};

/// Finds a small cut whose sides keep their limits (FlowCutter). It computes a minimum cut between two
/// terminal sets. If the sides break their limits, the lighter side absorbs its reachable set and at least
/// one more node, and the flow is augmented. Nodes that do not make the cut heavier are preferred. Hamann,
/// Strasser, ALENEX 2016; for refinement: Gottesbüren, Hamann, Wagner, ESA 2019.
class flow_cutter {
 public:
  /// Returns a cut within the limits that weighs less than `enough`, if one is found.
  std::optional<flow_cut> cut(cut_network& net, std::int64_t enough) {
    net.flow.add(flow_end::source, 0);
    net.flow.add(flow_end::sink, 1);
    for (auto& list : front_) list.clear();
    weigh_terminals(net);
    auto end = flow_end::source;
    for (;;) {
      if (!net.flow.advance(end, enough)) return std::nullopt;
      if (auto const found = best_side(net)) return rebalanced(net, *found);
      end = lighter();
      take_in(net, end);
      if (!pierce(net, end, stride(net, end), dearer::allowed)) return std::nullopt;
    }
  }

  /// Returns the side of a node. \pre `cut` returned a cut.
  flow_end side_of(std::size_t n) const { return static_cast<flow_end>(sides_[n]); }

 private:
  enum class dearer : std::uint8_t { allowed, refused };

  static constexpr std::size_t index(flow_end end) { return static_cast<std::size_t>(end); }

  void weigh_terminals(cut_network const& net) {
    total_ = 0;
    for (auto const w : net.weight) total_ += w;
    kept_ = {net.weight[0], net.weight[1]};
    for (std::size_t e = 0; e < 2; ++e)
      add_front(net, static_cast<flow_end>(e), static_cast<std::uint32_t>(e));
  }

  /// Returns the weight of the side of `end` if it consists of all that `end` reaches.
  std::int64_t side(cut_network const& net, flow_end end) const {
    auto sum = kept_[index(end)];
    for (auto const n : net.flow.reached(end))
      if (net.flow.free(n)) sum += net.weight[n];
    return sum;
  }

  std::optional<flow_cut> best_side(cut_network const& net) {
    std::optional<flow_cut> best;
    for (auto const end : {flow_end::source, flow_end::sink}) {
      auto const own = reach_[index(end)] = side(net, end);
      if (own > net.limit[index(end)] || total_ - own > net.limit[1 - index(end)]) continue;
      if (auto const excess = excess_of(own); !best || excess < best->excess)
        best = flow_cut{end, net.flow.flow(), excess};
    }
    return best;
  }

  flow_end lighter() const { return reach_[0] <= reach_[1] ? flow_end::source : flow_end::sink; }

  void add_front(cut_network const& net, flow_end end, std::uint32_t n) {
    net.flow.each_neighbour(n, [&](std::uint32_t to) {
      if (net.flow.free(to)) front_[index(end)].push_back(to);
    });
  }

  void take_in(cut_network& net, flow_end end) {
    taken_.clear();
    for (auto const n : net.flow.reached(end))
      if (net.flow.free(n)) taken_.push_back(n);
    net.flow.absorb(end);
    for (auto const n : taken_) kept_[index(end)] += net.weight[n], add_front(net, end, n);
  }

  /// Piercing: adds the best candidate nodes to `end` until they weigh `wanted`. Prefers nodes that do not
  /// make the cut heavier, then nodes of its own side that are far from the old cut. Returns false if there
  /// is no candidate.
  bool pierce(cut_network& net, flow_end end, std::int64_t wanted, dearer allowed) {
    auto& front = front_[index(end)];
    choice_.clear();
    std::size_t kept = 0;
    for (auto const n : front) {
      if (!net.flow.free(n)) continue;
      front[kept++] = n;
      bool const costs = net.flow.reaches(opposite(end), n);
      if (costs && allowed == dearer::refused) continue;
      auto const depth = end == flow_end::source ? net.depth[n] : -net.depth[n];
      choice_.push_back({(costs ? std::int64_t{1} << 32 : 0) - depth, n});
    }
    front.resize(kept);
    if (choice_.empty()) return false;
    std::sort(choice_.begin(), choice_.end());
    bool const costs = choice_.front().first > std::int64_t{1} << 31;
    std::int64_t sum = 0;
    for (auto const& [rank, n] : choice_) {
      if (!net.flow.free(n)) continue;
      if (sum > 0 && (sum >= wanted || (rank > std::int64_t{1} << 31) != costs)) break;
      newest_ = n;
      net.flow.add(end, n);
      sum += net.weight[n];
      kept_[index(end)] += net.weight[n];
      add_front(net, end, n);
    }
    return true;
  }

  /// Returns an eighth of the weight by which the set must still grow.
  std::int64_t stride(cut_network const& net, flow_end end) const {
    return (total_ - net.limit[1 - index(end)] - kept_[index(end)]) / 8;
  }

  /// Returns the cut, or another one of the same weight that is more balanced. Its side grows as long as that
  /// helps and the cut does not get heavier.
  flow_cut rebalanced(cut_network& net, flow_cut found) {
    auto const end = found.end;
    auto own = reach_[index(end)];
    take_in(net, end);
    auto last = none;
    while (2 * own < total_ && pierce(net, end, 1, dearer::refused)) {
      last = newest_;
      net.flow.advance(end, found.weight + 1);
      auto const grown = side(net, end);
      if (excess_of(grown) >= excess_of(own) || grown > net.limit[index(end)]) break;
      own = grown, last = none;
      take_in(net, end);
    }
    sides_.resize(net.weight.size());
    for (std::size_t n = 0; n < sides_.size(); ++n) {
      bool const inside = net.flow.belongs(end, static_cast<std::uint32_t>(n)) && n != last;
      sides_[n] = static_cast<std::uint8_t>(inside ? end : opposite(end));
    }
    return {end, found.weight, excess_of(own)};
  }

  std::int64_t excess_of(std::int64_t own) const { return (std::max)(own, total_ - own) - (total_ + 1) / 2; }

  static constexpr std::uint32_t none = static_cast<std::uint32_t>(-1);

  std::array<std::int64_t, 2> kept_{}, reach_{};  // weights of the terminal sets, and of all nodes that they
                                                  // reach
  std::int64_t total_ = 0;
  std::array<std::vector<std::uint32_t>, 2> front_;
  std::vector<std::uint32_t> taken_;
  std::vector<std::pair<std::int64_t, std::uint32_t>> choice_;
  std::uint32_t newest_ = none;
  std::vector<std::uint8_t> sides_;
};

/// Width of the region around a cut in which the cut may move.
struct flow_region_width {
  std::uint32_t steps = 8;  ///< distance from the cut
  double slack = 16;        ///< factor on the weight by which a part may exceed the mean of the two parts
};

/// Two adjacent parts, and the nodes of each with neighbours in the other.
struct part_pair {
  std::uint32_t a, b;
  std::span<std::uint32_t const> border;
};

/// The region around the cut between two parts, as a flow network. All nodes beyond the region are merged
/// into the terminals; fixed nodes count as beyond. Sanders, Schulz, ESA 2011, section 4.
class flow_region {
 public:
  /// Builds the network. `position` has an entry for each node of the level. All entries of the two parts'
  /// nodes are `nowhere` before and after the call; other entries are not read.
  void make(weighted_view const& g, partitioned_level const& p, std::span<std::uint32_t const> fixed,
            part_pair const& pair, flow_region_width const& width, std::span<std::uint32_t> position) {
    node_.assign(2, 0);
    net.weight.assign(2, 0);
    net.depth.assign(2, 0);
    net.limit = {p.limit[pair.a], p.limit[pair.b]};
    collect(g, p, fixed, pair, pair.a, pair.b, width, position);
    collect(g, p, fixed, pair, pair.b, pair.a, width, position);
    for (std::size_t i = 2; i < node_.size(); ++i)
      net.depth[i] > 0 ? net.weight[0] -= net.weight[i] : net.weight[1] -= net.weight[i];
    net.weight[0] += p.weight[pair.a], net.weight[1] += p.weight[pair.b];
    connect(g, p, pair, position);
    for (std::size_t i = 2; i < node_.size(); ++i) position[node_[i]] = nowhere;
  }

  cut_network net;
  std::int64_t cut() const { return cut_; }  ///< weight of the network's edges between the two parts
  std::size_t nodes() const { return node_.size() - 2; }
  std::uint32_t node(std::size_t i) const { return node_[i + 2]; }

  static constexpr std::uint32_t nowhere = 0xffffffff;

 private:
  static constexpr std::uint64_t most_arcs = std::uint64_t{1} << 30;  // of a side, so that those of a network
                                                                      // fit 32 bits

  void collect(weighted_view const& g, partitioned_level const& p, std::span<std::uint32_t const> fixed,
               part_pair const& pair, std::uint32_t own, std::uint32_t other, flow_region_width const& width,
               std::span<std::uint32_t> position) {
    auto const room = most(p, own, other, width.slack);
    std::int64_t taken = 0;
    std::uint64_t arcs = 0;
    auto const begin = node_.size();
    auto const sign = own == pair.a ? 1 : -1;
    auto const take = [&](std::uint32_t n, std::uint32_t steps) {
      if (p.of[n] != own || position[n] != nowhere || (!fixed.empty() && fixed[n] != no_block)) return;
      auto const weight = g.weight(n);
      auto const added = g.degree(n) + 4;  // with the edges to the terminals
      if (taken + weight > room || arcs + added > most_arcs) return;
      taken += weight, arcs += added;
      position[n] = static_cast<std::uint32_t>(node_.size());
      node_.push_back(n);
      net.weight.push_back(weight);
      net.depth.push_back(sign * static_cast<std::int32_t>(steps));
    };
    for (auto const n : pair.border)
      if (p.of[n] == own && touches(g, p, n, other)) take(n, 1);
    for (auto i = begin; i < node_.size(); ++i) {
      auto const steps = static_cast<std::uint32_t>(sign * net.depth[i]);
      if (steps >= width.steps) break;
      auto const n = node_[i];
      for (auto a = g.offsets[n], stop = g.offsets[n + 1]; a < stop; ++a) take(g.targets[a], steps + 1);
    }
  }

  /// Returns the weight that the region may take from part `own`: about what the other part could hold if its
  /// slack above the mean were `slack` times as large.
  static std::int64_t most(partitioned_level const& p, std::uint32_t own, std::uint32_t other, double slack) {
    auto const mean = (p.weight[own] + p.weight[other]) / 2;
    auto const above =
        (std::max)(slack * static_cast<double>(p.limit[other] - mean), 0.1 * static_cast<double>(mean));
    auto const room = static_cast<double>(mean - p.weight[other]) + above;
    return room <= 0 ? 0 : static_cast<std::int64_t>((std::min)(room, static_cast<double>(p.weight[own])));
  }

  static bool touches(weighted_view const& g, partitioned_level const& p, std::uint32_t n,
                      std::uint32_t part) {
    for (auto a = g.offsets[n], stop = g.offsets[n + 1]; a < stop; ++a)
      if (p.of[g.targets[a]] == part) return true;
    return false;
  }

  void connect(weighted_view const& g, partitioned_level const& p, part_pair const& pair,
               std::span<std::uint32_t const> position) {
    net.flow.clear(node_.size());
    cut_ = 0;
    for (std::uint32_t i = 2; i < node_.size(); ++i) {
      auto const n = node_[i];
      std::int64_t beyond[2] = {0, 0};
      for (auto a = g.offsets[n], stop = g.offsets[n + 1]; a < stop; ++a) {
        auto const to = g.targets[a];
        auto const part = p.of[to];
        if (part != pair.a && part != pair.b) continue;
        auto const weight = g.edge_weight(a);
        auto const at = position[to];
        if (at == nowhere)
          beyond[part == pair.b] += weight;
        else if (at < i)
          net.flow.edge(at, i, weight);
        if (part != p.of[n] && (at == nowhere || at < i)) cut_ += weight;
      }
      for (std::uint32_t end = 0; end < 2; ++end)
        if (beyond[end] > 0) net.flow.edge(end, i, beyond[end]);
    }
    net.flow.build();
  }

  std::vector<std::uint32_t> node_;  // node of the level, by number in the network; the first two entries are
                                     // unused
  std::int64_t cut_ = 0;
};

/// Limits of flow refinement.
struct flow_options {
  flow_region_width width;
  std::uint32_t rounds = 4;  ///< passes over the pairs of parts; fewer if nothing changes any more
};

/// Refines by flows: replaces the cut between two parts by a minimum cut in a region around it, as long as
/// the cut decreases. Disjoint pairs of parts are refined in parallel; the result does not depend on the
/// number of threads. It stops after regions with as many directed edges as the graph have brought nothing,
/// because no narrow region contains the cut of a graph without locality. Sanders, Schulz, ESA 2011;
/// Gottesbüren, Heuer, Sanders, SEA 2022 (parallel).
class flow_refinement {
 public:
  /// Creates the refinement. `active` contains all boundary nodes, before and after `refine`.
  flow_refinement(weighted_view const& g, partitioned_level& p, std::span<std::uint32_t const> fixed,
                  boundary_nodes& active, thread_team const& team)
      : g_(g),
        p_(p),
        fixed_(fixed),
        active_(active),
        team_(team),
        position_(g.nodes, flow_region::nowhere),
        kits_(team.threads()) {}

  /// Returns the decrease of the cut.
  std::int64_t refine(flow_options const& options) {
    std::int64_t gain = 0;
    changed_.assign(p_.parts(), 1);
    for (std::uint32_t round = 0; round < options.rounds; ++round) {
      find_pairs();
      auto const gained = refine_pairs(options.width);
      gain += gained;
      if (gained == 0) break;
    }
    return gain;
  }

 private:
  struct border_node {
    std::uint32_t a, b, node;  // the smaller part id, the larger one, and a node of one part with a neighbour
                               // in the other
    bool operator<(border_node const& o) const { return std::pair(b, node) < std::pair(o.b, o.node); }
  };
  struct work {
    part_pair pair;
    std::vector<std::uint32_t> moved{};
    std::int64_t gain = 0;
    std::size_t arcs = 0;  // of the region
  };
  struct tools {
    flow_region strip;
    flow_cutter cutter;
  };

  /// Lists the border nodes of each pair in which a part changed in the last round.
  void find_pairs() {
    sort_borders();
    nodes_.clear();
    nodes_.reserve(border_.size());
    waiting_.clear();
    std::size_t begin = 0;
    for (std::size_t i = 0; i < border_.size(); ++i) {
      auto const& [a, b, node] = border_[i];
      nodes_.push_back(node);
      if (i + 1 < border_.size() && border_[i + 1].a == a && border_[i + 1].b == b) continue;
      waiting_.push_back({a, b, {nodes_.data() + begin, nodes_.size() - begin}});
      begin = nodes_.size();
    }
  }

  /// Sorts the border nodes: by `a` in linear time, then within each part by `b` and node.
  void sort_borders() {
    id_ranges const ranges{static_cast<std::uint32_t>(active_.list.size()), (std::max)(p_.parts(), 1u << 12)};
    std::vector<std::vector<border_node>> found(ranges.count());
    team_.share(ranges.count(), [&](std::size_t r) { found[r] = borders(ranges.begin(r), ranges.end(r)); });
    std::vector<std::size_t> begin(p_.parts() + std::size_t{1});
    for (auto const& list : found)
      for (auto const& entry : list) ++begin[entry.a + std::size_t{1}];
    for (std::uint32_t a = 0; a < p_.parts(); ++a) begin[a + std::size_t{1}] += begin[a];
    border_.resize(begin.back());
    auto end = begin;
    for (auto const& list : found)
      for (auto const& entry : list) border_[end[entry.a]++] = entry;
    team_.share(p_.parts(),
                [&](std::size_t a) { std::sort(border_.data() + begin[a], border_.data() + begin[a + 1]); });
  }

  /// Returns the border nodes among the active nodes at the positions [lo, hi).
  std::vector<border_node> borders(std::uint32_t lo, std::uint32_t hi) const {
    std::vector<border_node> found;
    std::vector<std::uint32_t> seen(p_.parts(), flow_region::nowhere);
    for (auto at = lo; at < hi; ++at) {
      auto const n = active_.list[at];
      auto const own = p_.of[n];
      for (auto a = g_.offsets[n], stop = g_.offsets[n + 1]; a < stop; ++a) {
        auto const other = p_.of[g_.targets[a]];
        if (other == own || seen[other] == n || (!changed_[own] && !changed_[other])) continue;
        seen[other] = n;
        found.push_back({(std::min)(own, other), (std::max)(own, other), n});
      }
    }
    return found;
  }

  /// Refines all pairs in batches of disjoint pairs, long borders first.
  std::int64_t refine_pairs(flow_region_width const& width) {
    std::int64_t gain = 0;
    changed_.assign(p_.parts(), 0);
    std::vector<std::uint8_t> busy(p_.parts());
    while (!waiting_.empty()) {
      std::fill(busy.begin(), busy.end(), std::uint8_t{0});
      std::vector<work> batch;
      std::vector<part_pair> rest;
      for (auto const& pair : waiting_)
        if (busy[pair.a] || busy[pair.b]) {
          rest.push_back(pair);
        } else {
          busy[pair.a] = busy[pair.b] = 1;
          batch.push_back({pair});
        }
      waiting_ = std::move(rest);
      std::sort(batch.begin(), batch.end(), [](work const& x, work const& y) {
        return std::pair(y.pair.border.size(), x.pair.a) < std::pair(x.pair.border.size(), y.pair.a);
      });
      team_.share_with_tools(batch.size(), [&](std::size_t i, std::size_t thread) {
        refine_pair(batch[i], width, kits_[thread]);
      });
      for (auto const& done : batch) gain += apply(done);
      if (idle_edges_ > g_.directed_edges()) waiting_.clear();
    }
    return gain;
  }

  void refine_pair(work& w, flow_region_width const& width, tools& kit) {
    kit.strip.make(g_, p_, fixed_, w.pair, width, position_);
    for (std::size_t i = 0; i < kit.strip.nodes(); ++i) w.arcs += g_.degree(kit.strip.node(i));
    auto const old_cut = kit.strip.cut();
    if (auto const found = kit.strip.nodes() ? kit.cutter.cut(kit.strip.net, old_cut) : std::nullopt) {
      w.gain = old_cut - found->weight;
      for (std::size_t i = 0; i < kit.strip.nodes(); ++i) {
        auto const n = kit.strip.node(i);
        auto const part = kit.cutter.side_of(i + 2) == flow_end::source ? w.pair.a : w.pair.b;
        if (p_.of[n] != part) w.moved.push_back(n);
      }
      if (p_.further.limits && exceeds(w)) w.moved.clear(), w.gain = 0;
    }
  }

  /// Returns true if the moves increase the excess of the two parts over the limits of further weights.
  bool exceeds(work const& w) const {
    auto after = p_.further;
    for (auto const n : w.moved) {
      after.add(g_.further, n, p_.of[n], -1);
      after.add(g_.further, n, p_.of[n] == w.pair.a ? w.pair.b : w.pair.a);
    }
    return after.excess(w.pair.a) + after.excess(w.pair.b) >
           p_.further.excess(w.pair.a) + p_.further.excess(w.pair.b);
  }

  std::int64_t apply(work const& w) {
    for (auto const n : w.moved) {
      move_node(g_, p_, n, p_.of[n] == w.pair.a ? w.pair.b : w.pair.a);
      active_.add(n);
      for (auto a = g_.offsets[n], stop = g_.offsets[n + 1]; a < stop; ++a) active_.add(g_.targets[a]);
    }
    if (!w.moved.empty()) changed_[w.pair.a] = changed_[w.pair.b] = 1;
    idle_edges_ = w.gain > 0 ? 0 : idle_edges_ + w.arcs;
    return w.gain;
  }

  weighted_view const& g_;
  partitioned_level& p_;
  std::span<std::uint32_t const> fixed_;
  boundary_nodes& active_;
  thread_team const& team_;
  std::vector<std::uint32_t> position_;  // pairs refined at the same time share no nodes
  std::vector<std::uint8_t> changed_;    // of each part: true if it changed in the last round
  std::vector<border_node> border_;
  std::vector<std::uint32_t> nodes_;
  std::size_t idle_edges_ = 0;  // of regions since the cut last decreased
  std::vector<part_pair> waiting_;
  std::vector<tools> kits_;  // one per thread
};

/// Refines by flows and returns the decrease of the cut. Limits that were met stay met. `active` contains all
/// boundary nodes, before and after the call.
inline std::int64_t refine_by_flows(weighted_view const& g, partitioned_level& p,
                                    std::span<std::uint32_t const> fixed, boundary_nodes& active,
                                    flow_options const& options, thread_team const& team) {
  return flow_refinement(g, p, fixed, active, team).refine(options);
}

}  // namespace cleave::detail
