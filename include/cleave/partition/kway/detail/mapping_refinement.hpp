// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/partition/kway/detail/level.hpp"
#include "cleave/partition/kway/machine.hpp"

namespace cleave::inline v0_2::detail {

/// The distances of a machine: from a table if it is small enough.
class distance_lookup {
 public:
  explicit distance_lookup(machine const& m) : machine_(m), places_(m.places()) {
    if (places_ > 1024) return;
    table_.reserve(std::size_t{places_} * places_);
    for (std::uint32_t a = 0; a < places_; ++a)
      for (std::uint32_t b = 0; b < places_; ++b) table_.push_back(m.distance(a, b));
  }
  std::int64_t operator()(std::uint32_t a, std::uint32_t b) const {
    return table_.empty() ? machine_.distance(a, b) : table_[std::size_t{a} * places_ + b];
  }

 private:
  machine const& machine_;
  std::uint32_t places_;
  std::vector<std::int64_t> table_;
};

/// Reduces the cost of communication of parts that are mapped to the places of a machine: part i is at place
/// i. Weight limits hold afterwards if they held before. Costs must not exceed 2^62.
class mapping_refinement {
 public:
  mapping_refinement(weighted_view const& g, partitioned_level& p, std::vector<std::uint32_t> const& fixed,
                     distance_lookup const& distance)
      : g_(g), p_(p), fixed_(fixed), distance_(distance), edges_to_(p.parts(), 0), is_near_(p.parts(), 0) {}

  std::int64_t cost() const {
    std::int64_t sum = 0;
    for (std::uint32_t n = 0; n < g_.nodes; ++n)
      for (auto e = g_.offsets[n], stop = g_.offsets[n + 1]; e < stop; ++e)
        if (auto const to = g_.targets[e]; to > n && p_.of[to] != p_.of[n])
          sum += g_.edge_weight(e) * distance_(p_.of[n], p_.of[to]);
    return sum;
  }

  /// Places whole parts: the one with the heaviest edges to placed parts next, where it costs least. Greedy
  /// construction of Müller-Merbach. Only if no node is fixed and all limits are equal.
  void place_parts() {
    auto const parts = p_.parts();
    auto const edges = edges_between_parts();
    std::vector<std::uint32_t> place_of(parts, none), part_at(parts, none);
    std::vector<std::int64_t> to_placed(parts, 0);
    for (std::uint32_t step = 0; step < parts; ++step) {
      auto next = none;
      for (std::uint32_t part = 0; part < parts; ++part)
        if (place_of[part] == none && (next == none || to_placed[part] > to_placed[next])) next = part;
      auto best = none;
      std::int64_t least = 0;
      for (std::uint32_t place = 0; place < parts; ++place) {
        if (part_at[place] != none) continue;
        std::int64_t cost = 0;
        for (auto const& [other, weight] : edges[next])
          if (place_of[other] != none) cost += weight * distance_(place, place_of[other]);
        if (best == none || cost < least) best = place, least = cost;
      }
      place_of[next] = best, part_at[best] = next;
      for (auto const& [other, weight] : edges[next]) to_placed[other] += weight;
    }
    rename(place_of);
  }

  /// Swaps the places of pairs of parts while that reduces the cost. Parts with fixed nodes stay.
  void swap_places() {
    auto const parts = p_.parts();
    auto const edges = edges_between_parts();
    std::vector<std::uint32_t> place_of(parts);
    for (std::uint32_t part = 0; part < parts; ++part) place_of[part] = part;
    std::vector<std::uint8_t> stays(parts, 0);
    for (auto const part : fixed_)
      if (part != no_block) stays[part] = 1;
    auto const fits = [&](std::uint32_t part, std::uint32_t place) {
      return p_.weight[part] <= p_.limit[place];
    };
    auto const swap_if_better = [&](std::uint32_t a, std::uint32_t b) {
      if (stays[a] || stays[b] || !fits(a, place_of[b]) || !fits(b, place_of[a])) return false;
      auto const at = place_of[a], other = place_of[b];
      std::int64_t change = 0;
      for (auto const& [x, weight] : edges[a])
        if (x != b) change += weight * (distance_(other, place_of[x]) - distance_(at, place_of[x]));
      for (auto const& [x, weight] : edges[b])
        if (x != a) change += weight * (distance_(at, place_of[x]) - distance_(other, place_of[x]));
      if (change >= 0) return false;
      std::swap(place_of[a], place_of[b]);
      return true;
    };
    bool const all_pairs = parts <= 512;
    bool better = true;
    for (int round = 0; round < 20 && better; ++round) {
      better = false;
      for (std::uint32_t a = 0; a < parts; ++a)
        if (all_pairs)
          for (std::uint32_t b = a + 1; b < parts; ++b) better = swap_if_better(a, b) || better;
        else
          for (auto const& [b, weight] : edges[a]) better = swap_if_better(a, b) || better;
    }
    rename(place_of);
  }

  /// Moves single nodes while that reduces the cost, and returns the decrease.
  std::int64_t move_nodes() {
    std::vector<std::uint8_t> active(g_.nodes, 1);
    std::int64_t gained = 0;
    for (int round = 0; round < 10; ++round) {
      std::int64_t now = 0;
      for (std::uint32_t n = 0; n < g_.nodes; ++n) {
        if (!active[n]) continue;
        active[n] = 0;
        auto const gain = move_if_better(n);
        if (gain == 0) continue;
        now += gain;
        for (auto e = g_.offsets[n], stop = g_.offsets[n + 1]; e < stop; ++e) active[g_.targets[e]] = 1;
      }
      gained += now;
      if (now == 0) break;
    }
    return gained;
  }

 private:
  static constexpr std::uint32_t none = 0xffffffff;
  struct part_edge {
    std::uint32_t part;
    std::int64_t weight;
  };

  /// Returns the weights of the edges from each part to others.
  std::vector<std::vector<part_edge>> edges_between_parts() {
    auto const parts = p_.parts();
    std::vector<std::uint32_t> first(parts + std::size_t{1}, 0), nodes(g_.nodes);
    for (auto const part : p_.of) ++first[part + std::size_t{1}];
    for (std::uint32_t part = 0; part < parts; ++part) first[part + std::size_t{1}] += first[part];
    auto at = first;
    for (std::uint32_t n = 0; n < g_.nodes; ++n) nodes[at[p_.of[n]]++] = n;
    std::vector<std::vector<part_edge>> edges(parts);
    for (std::uint32_t part = 0; part < parts; ++part) {
      for (auto i = first[part]; i < first[part + std::size_t{1}]; ++i) add_edges(nodes[i]);
      std::sort(near_.begin(), near_.end());
      for (auto const other : near_)
        if (other != part) edges[part].push_back({other, edges_to_[other]});
      forget_edges();
    }
    return edges;
  }

  void add_edges(std::uint32_t n) {
    for (auto e = g_.offsets[n], stop = g_.offsets[n + 1]; e < stop; ++e) {
      auto const part = p_.of[g_.targets[e]];
      if (!std::exchange(is_near_[part], std::uint8_t{1})) near_.push_back(part);
      edges_to_[part] += g_.edge_weight(e);
    }
  }
  void forget_edges() {
    for (auto const part : near_) edges_to_[part] = 0, is_near_[part] = 0;
    near_.clear();
  }

  void rename(std::vector<std::uint32_t> const& place_of) {
    for (auto& part : p_.of) part = place_of[part];
    auto const weight = p_.weight;
    for (std::uint32_t part = 0; part < p_.parts(); ++part) p_.weight[place_of[part]] = weight[part];
  }

  /// Moves a node to the place of a neighbour if that reduces the cost. Returns the decrease.
  std::int64_t move_if_better(std::uint32_t n) {
    auto const own = p_.of[n];
    if (!fixed_.empty() && fixed_[n] != no_block) return 0;
    add_edges(n);
    std::int64_t gain = 0;
    auto best = none;
    if (near_.size() > 1 || (near_.size() == 1 && near_[0] != own)) {
      auto const cost_at = [&](std::uint32_t place) {
        std::int64_t cost = 0;
        for (auto const other : near_) cost += edges_to_[other] * distance_(place, other);
        return cost;
      };
      auto const now = cost_at(own);
      for (auto const place : near_) {
        if (place == own || p_.room(place) < g_.weight(n)) continue;
        if (auto const g = now - cost_at(place); g > gain) gain = g, best = place;
      }
    }
    forget_edges();
    if (best == none) return 0;
    p_.weight[own] -= g_.weight(n);
    p_.weight[best] += g_.weight(n);
    p_.of[n] = best;
    return gain;
  }

  weighted_view const& g_;
  partitioned_level& p_;
  std::vector<std::uint32_t> const& fixed_;
  distance_lookup const& distance_;
  std::vector<std::int64_t> edges_to_;
  std::vector<std::uint8_t> is_near_;
  std::vector<std::uint32_t> near_;
};

}  // namespace cleave::detail
