// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/graph/flow/residual_network.hpp"

namespace cleave::inline v0_2::detail {

/// One of the two ends of a flow.
enum class flow_end : std::uint8_t { source, sink };

constexpr flow_end opposite(flow_end end) {
  return end == flow_end::source ? flow_end::sink : flow_end::source;
}

/// Computes a maximum flow between two growing sets of nodes in an undirected network. The existing flow is
/// kept when a set grows, so a sequence of cuts costs little more than its last cut. To build a network, call
/// `clear`, `edge` for each edge, then `build`. Arrays are reused from one network to the next. Dinic, Soviet
/// Math. Dokl. 11, 1970; growing sets: Hamann, Strasser, ALENEX 2016 (FlowCutter).
class undirected_flow {
 public:
  using node = std::uint32_t;

  void clear(std::size_t nodes) {
    net_.clear(nodes);
    end_of_.assign(nodes, none);
    for (auto& of : level_) of.assign(nodes, unreached);
    next_.resize(nodes);
    for (auto& list : reached_) list.clear();
    for (auto& list : fresh_) list.clear();
    flow_ = 0;
    first_search_ = true;
  }

  void edge(node u, node v, std::int64_t capacity) { net_.edge(u, v, capacity, capacity); }
  void build() { net_.build(); }

  std::size_t nodes() const { return end_of_.size(); }
  std::int64_t flow() const { return flow_; }
  bool belongs(flow_end end, node n) const { return end_of_[n] == static_cast<std::uint8_t>(end); }
  bool free(node n) const { return end_of_[n] == none; }

  /// Calls `visit` with each neighbour of `n`.
  template <class Visit>
  void each_neighbour(node n, Visit const& visit) const {
    for (auto const& a : net_.arcs_of(n)) visit(a.head);
  }

  /// Adds a free node to the set of `end`. The next call must be `advance(end, …)`.
  void add(flow_end end, node n) {
    expects(free(n), "undirected_flow: a free node");
    end_of_[n] = static_cast<std::uint8_t>(end);
    fresh_[index(end)].push_back(n);
  }

  /// Adds to the set of `end` all nodes that more flow could reach from it. Call it after `advance`. The flow
  /// stays maximum.
  void absorb(flow_end end) {
    for (auto const n : reached_[index(end)])
      if (free(n)) end_of_[n] = static_cast<std::uint8_t>(end);
    fresh_[index(end)].clear();
    clear_search(end);
  }

  /// Returns true if more flow could reach `n` from the set of `end`. Call it after `advance`.
  bool reaches(flow_end end, node n) const {
    return belongs(end, n) || (free(n) && level_[index(end)][n] != unreached);
  }

  /// Returns the free nodes that more flow could reach from `end`, by increasing distance. Nodes that were
  /// added to its set since the last `absorb` are included.
  std::span<node const> reached(flow_end end) const { return reached_[index(end)]; }

  /// Augments the flow to a maximum, along paths from the new nodes in the set of `end`. Stops and returns
  /// false once the flow is at least `enough`.
  bool advance(flow_end end, std::int64_t enough) {
    bool grew = false;
    while (search(end)) {
      grew = true;
      saturate(end, enough);
      if (flow_ >= enough) return false;
    }
    if (grew || first_search_) search(opposite(end)), first_search_ = false;
    return true;
  }

 private:
  using arc = residual_network::arc;

  static constexpr std::uint8_t none = 2;
  static constexpr std::uint32_t unreached = static_cast<std::uint32_t>(-1);
  static constexpr std::size_t index(flow_end end) { return static_cast<std::size_t>(end); }

  /// Returns the flow that an arc of the node nearer to `end` can still carry away from `end`.
  static std::int64_t away(flow_end end, arc const& a) { return end == flow_end::source ? a.room : a.back; }
  /// Returns the flow that this arc can still carry in the opposite direction, towards `end`.
  static std::int64_t towards(flow_end end, arc const& a) { return away(opposite(end), a); }

  void clear_search(flow_end end) {
    auto& level = level_[index(end)];
    for (auto const n : reached_[index(end)]) level[n] = unreached;
    reached_[index(end)].clear();
  }

  /// Computes the distances from the new nodes in the set of `end`, up to the nearest node of the other set.
  /// Returns true if a node of the other set is reached.
  bool search(flow_end end) {
    clear_search(end);
    auto& level = level_[index(end)];
    auto& queue = reached_[index(end)];
    auto const other = static_cast<std::uint8_t>(opposite(end));
    last_.clear();
    for (auto const n : fresh_[index(end)]) level[n] = 0, queue.push_back(n);
    auto deepest = unreached;
    for (std::size_t i = 0; i < queue.size(); ++i) {
      auto const u = queue[i];
      if (level[u] > deepest) break;
      next_[u] = net_.first(u);
      bool touches = false;
      for (auto const& a : net_.arcs_of(u)) {
        if (away(end, a) <= 0) continue;
        if (end_of_[a.head] == none) {
          if (level[a.head] == unreached && deepest == unreached)
            level[a.head] = level[u] + 1, queue.push_back(a.head);
        } else if (end_of_[a.head] == other) {
          touches = true;
        }
      }
      if (touches) last_.push_back(u), deepest = level[u];
    }
    return !last_.empty();
  }

  /// Saturates all shortest paths, from the far ends of the search back to its start.
  void saturate(flow_end end, std::int64_t enough) {
    auto const other = static_cast<std::uint8_t>(opposite(end));
    for (auto const u : last_)
      for (auto a = net_.first(u); a < net_.first(u + std::size_t{1}); ++a)
        if (end_of_[net_[a].head] == other && away(end, net_[a]) > 0) {
          if (auto const pushed = draw(end, u, away(end, net_[a])); pushed > 0) {
            carry(opposite(end), a, pushed);
            flow_ += pushed;
          }
          if (flow_ >= enough || level_[index(end)][u] == dead) break;
        }
  }

  /// Adds flow through an arc that leads towards `end`: against the arc if `end` is the source, along it if
  /// `end` is the sink.
  void carry(flow_end end, std::uint32_t a, std::int64_t carried) {
    net_.push(a, end == flow_end::source ? -carried : carried);
  }

  /// Moves up to `wanted` units of flow between the start of the search and `u`. Returns the amount moved.
  std::int64_t draw(flow_end end, node u, std::int64_t wanted) {
    auto& level = level_[index(end)];
    std::int64_t drawn = 0;
    path_.clear();
    for (auto at = u; drawn < wanted;) {
      if (level[at] == 0) {
        auto least = wanted - drawn;
        for (auto const a : path_) least = (std::min)(least, towards(end, net_[a]));
        drawn += least;
        auto keep = path_.size();
        for (auto i = path_.size(); i-- > 0;) {
          carry(end, path_[i], least);
          if (towards(end, net_[path_[i]]) == 0) keep = i;
        }
        path_.resize(keep);
        at = path_.empty() ? u : net_[path_.back()].head;
      } else if (auto const a = step_back(end, at); a != unreached) {
        path_.push_back(a);
        at = net_[a].head;
      } else {
        level[at] = dead;
        if (path_.empty()) break;
        at = net_.tail(path_.back());
        path_.pop_back();
      }
    }
    return drawn;
  }

  /// Returns the next arc of `at` that leads one step nearer to the start and can carry flow in the direction
  /// of the search, or `unreached`.
  std::uint32_t step_back(flow_end end, node at) {
    auto const& level = level_[index(end)];
    for (auto& a = next_[at]; a < net_.first(at + std::size_t{1}); ++a)
      if (level[net_[a].head] == level[at] - 1 && towards(end, net_[a]) > 0) return a;
    return unreached;
  }

  static constexpr std::uint32_t dead = unreached - 1;

  residual_network net_;
  std::vector<std::uint8_t> end_of_;
  std::array<std::vector<std::uint32_t>, 2> level_;
  std::array<std::vector<node>, 2> reached_, fresh_;
  std::vector<std::uint32_t> next_;
  std::vector<node> last_;
  std::vector<std::uint32_t> path_;
  std::int64_t flow_ = 0;
  bool first_search_ = true;
};

}  // namespace cleave::detail
