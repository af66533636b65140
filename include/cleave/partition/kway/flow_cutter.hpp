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

#include "cleave/partition/kway/undirected_flow.hpp"

namespace cleave::detail {

/// A network whose nodes lie on two sides of a cut that may be moved.
struct cut_network {
  undirected_flow flow;              ///< node 0: all beyond the source side; node 1: all beyond the sink side
  std::vector<std::int64_t> weight;  ///< of a node
  std::vector<std::int32_t> depth;   ///< steps from the cut, above 0 on the source side, else below 0
  std::array<std::int64_t, 2> limit{};  ///< what the source side and the sink side may weigh
};

/// A cut found by `flow_cutter`.
struct flow_cut {
  flow_end end;         ///< whose set is its side
  std::int64_t weight;  ///< of the edges between the sides
  std::int64_t excess;  ///< how much heavier the heavier side is than half
};

/// Finds least cuts between two sets that grow until a cut is found whose sides keep their limits: first the
/// least cut between the ends of the network; where it does not, the lighter side takes in what it
/// reaches and one node more, if possible one that makes no cut dearer, and the cut is sought anew.
/// Hamann, Strasser, ALENEX 2016; for refinement: Gottesbüren, Hamann, Wagner, ESA 2019.
class flow_cutter {
 public:
  /// A cut that weighs less than `enough`, if there is one on the way.
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

  /// The side of each node after `cut` found one.
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

  /// The weight of the side of `end` if it is all that `end` reaches.
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

  /// Adds to `end` the nodes that are best, until they weigh `wanted`: first those that make no cut dearer,
  /// then those of its own side, far from the old cut. False if there is none.
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

  /// What the sets have to grow by at least, shared out over some steps.
  std::int64_t stride(cut_network const& net, flow_end end) const {
    return (total_ - net.limit[1 - index(end)] - kept_[index(end)]) / 8;
  }

  /// The cut, or another of its weight that divides the nodes more evenly: its side grows while that helps
  /// and costs nothing.
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

  std::array<std::int64_t, 2> kept_{}, reach_{};  // weights of the sets, and of what they reach
  std::int64_t total_ = 0;
  std::array<std::vector<std::uint32_t>, 2> front_;
  std::vector<std::uint32_t> taken_;
  std::vector<std::pair<std::int64_t, std::uint32_t>> choice_;
  std::uint32_t newest_ = none;
  std::vector<std::uint8_t> sides_;
};

}  // namespace cleave::detail
