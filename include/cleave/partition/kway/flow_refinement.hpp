// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "cleave/partition/kway/boundary.hpp"
#include "cleave/partition/kway/clusters.hpp"
#include "cleave/partition/kway/corridor.hpp"
#include "cleave/partition/kway/flow_cutter.hpp"
#include "cleave/partition/kway/level_graph.hpp"
#include "cleave/partition/kway/team.hpp"

namespace cleave::detail {

struct flow_options {
  corridor_width width;
  std::uint32_t rounds = 4;  ///< over the pairs of parts; fewer if nothing changes any more
};

/// Replaces the cuts between pairs of parts by least cuts in a strip along them, as long as the cut
/// decreases. Pairs that share no part are refined at the same time; the result does not depend on the number
/// of threads. Gives up where strips with as many arcs as the graph have brought nothing: no narrow strip
/// holds the cut of a graph without locality. Sanders, Schulz, ESA 2011; Gottesbüren, Heuer, Sanders, SEA
/// 2022 (parallel).
template <class Level>
class flow_refinement {
 public:
  /// `active` holds all nodes with neighbours in other parts, and does so afterwards.
  flow_refinement(Level const& g, level_parts& p, std::span<std::uint32_t const> fixed, active_nodes& active,
                  thread_team const& team)
      : g_(g),
        p_(p),
        fixed_(fixed),
        active_(active),
        team_(team),
        position_(g.nodes, corridor::nowhere),
        kits_(team.threads()) {}

  /// The decrease of the cut.
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
    std::uint32_t a, b, node;  // a smaller part, a larger one, and a node of either beside the other
    bool operator<(border_node const& o) const { return std::pair(b, node) < std::pair(o.b, o.node); }
  };
  struct work {
    part_pair pair;
    std::vector<std::uint32_t> moved{};
    std::int64_t gain = 0;
    std::size_t arcs = 0;  // of the strip
  };
  struct tools {
    corridor strip;
    flow_cutter cutter;
  };

  /// Lists the border nodes of all pairs one of whose parts changed in the last round.
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

  /// Puts the borders in order: by a in linear time, then those of each part by b and node.
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

  /// Of the active nodes from `lo` up to `hi` in their list.
  std::vector<border_node> borders(std::uint32_t lo, std::uint32_t hi) const {
    std::vector<border_node> found;
    std::vector<std::uint32_t> seen(p_.parts(), corridor::nowhere);
    for (auto at = lo; at < hi; ++at) {
      auto const n = active_.list[at];
      auto const own = p_.of[n];
      for (auto a = g_.first[n]; a < g_.first[n + 1]; ++a) {
        auto const other = p_.of[g_.head[a]];
        if (other == own || seen[other] == n || (!changed_[own] && !changed_[other])) continue;
        seen[other] = n;
        found.push_back({(std::min)(own, other), (std::max)(own, other), n});
      }
    }
    return found;
  }

  /// Refines all pairs, as many at a time as share no part, long borders first.
  std::int64_t refine_pairs(corridor_width const& width) {
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
      if (idle_arcs_ > g_.arcs()) waiting_.clear();
    }
    return gain;
  }

  void refine_pair(work& w, corridor_width const& width, tools& kit) {
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
    }
  }

  std::int64_t apply(work const& w) {
    for (auto const n : w.moved) {
      auto const from = p_.of[n], to = from == w.pair.a ? w.pair.b : w.pair.a;
      auto const weight = static_cast<std::int64_t>(g_.weight(n));
      p_.of[n] = to;
      p_.weight[from] -= weight, p_.weight[to] += weight;
      active_.add(n);
      for (auto a = g_.first[n], stop = g_.first[n + 1]; a < stop; ++a) active_.add(g_.head[a]);
    }
    if (!w.moved.empty()) changed_[w.pair.a] = changed_[w.pair.b] = 1;
    idle_arcs_ = w.gain > 0 ? 0 : idle_arcs_ + w.arcs;
    return w.gain;
  }

  Level const& g_;
  level_parts& p_;
  std::span<std::uint32_t const> fixed_;
  active_nodes& active_;
  thread_team const& team_;
  std::vector<std::uint32_t> position_;  // pairs at work at the same time share no node
  std::vector<std::uint8_t> changed_;    // whether a part changed in the last round
  std::vector<border_node> border_;
  std::vector<std::uint32_t> nodes_;
  std::size_t idle_arcs_ = 0;  // of strips since the cut decreased
  std::vector<part_pair> waiting_;
  std::vector<tools> kits_;  // of a thread each
};

/// Refines by flows; the decrease of the cut. Limits that hold keep holding. `active` holds all nodes with
/// neighbours in other parts, and does so afterwards.
template <class Level>
std::int64_t refine_by_flows(Level const& g, level_parts& p, std::span<std::uint32_t const> fixed,
                             active_nodes& active, flow_options const& options, thread_team const& team) {
  return flow_refinement<Level>(g, p, fixed, active, team).refine(options);
}

}  // namespace cleave::detail
